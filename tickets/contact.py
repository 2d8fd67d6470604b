"""May mail be sent to this address? A decision with its reason, and the day on which to look again.

Judged by what is known here, without asking anybody: the syntax, and a list of throw-away mail providers. No DNS: an
answer that depends on the network of the moment could not be replayed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version

import email_validator
from disposable_email_domains import blocklist


class Decision(StrEnum):
    ACCEPT = "accept"
    REVIEW = "review"
    """Can be mailed; a person should look whether it reaches the one who asked."""
    REJECT = "reject"


class Reason(StrEnum):
    PLAIN = "plain"
    """Nothing speaks against it."""
    ROLE_ACCOUNT = "role_account"
    """A shared or unread mailbox: the requester may never see the mail."""
    DISPOSABLE_DOMAIN = "disposable_domain"
    """A throw-away mailbox: gone, or open to anybody who knows its name, by the time our mail arrives."""
    SYNTAX = "syntax"
    """No mail server of ours can be given it."""


#: How long a decision stands, in days, until somebody has to look again.
REVIEW_WINDOW_DAYS = {
    # people keep an address for years, but domains lapse yearly and are bought for throw-away mail: half of that
    Decision.ACCEPT: 180,
    # a person is to look soon, while the ticket still matters to them
    Decision.REVIEW: 14,
    # the list is released about monthly, and a domain put there by mistake is taken off in the next release
    Decision.REJECT: 30,
}

#: RFC 2142's mailboxes that every domain should have, and those that say of themselves that nobody reads them.
ROLE_ACCOUNTS = frozenset(
    {
        "abuse",
        "admin",
        "billing",
        "do-not-reply",
        "donotreply",
        "hostmaster",
        "info",
        "mailer-daemon",
        "marketing",
        "no-reply",
        "noc",
        "noreply",
        "postmaster",
        "root",
        "sales",
        "security",
        "support",
        "webmaster",
    }
)

#: The list by which a domain was judged: of the package that holds it, the version.
LIST_VERSION = f"disposable-email-domains {version('disposable-email-domains')}"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    decision: Decision
    reason: Reason
    review_until: dt.datetime
    """Until then the decision stands; afterwards the address has to be checked again."""


def judge(address: str, now: dt.datetime) -> Judgement:
    """The decision on an address, as of `now`."""
    decision, reason = _decide(address)
    return Judgement(
        decision=decision, reason=reason, review_until=now + dt.timedelta(days=REVIEW_WINDOW_DAYS[decision])
    )


def deliverable(address: str) -> str:
    """The address as a mail server takes it: its domain in ASCII. Raises: ValueError for one without sound syntax."""
    # no international mailbox names: they need SMTPUTF8, which few servers speak and Django's mail does not use
    parsed = email_validator.validate_email(address, check_deliverability=False, allow_smtputf8=False, strict=True)
    return str(parsed.ascii_email)


def _decide(address: str) -> tuple[Decision, Reason]:
    try:
        mailbox, _, domain = deliverable(address).lower().rpartition("@")
    except ValueError:
        return Decision.REJECT, Reason.SYNTAX
    if any(parent in blocklist for parent in _with_parents(domain)):
        return Decision.REJECT, Reason.DISPOSABLE_DOMAIN
    if mailbox.partition("+")[0] in ROLE_ACCOUNTS:
        return Decision.REVIEW, Reason.ROLE_ACCOUNT
    return Decision.ACCEPT, Reason.PLAIN


def _with_parents(domain: str) -> Iterator[str]:
    """`a.b.example.com`, `b.example.com`, `example.com`: providers hand out names below their own."""
    labels = domain.split(".")
    return (".".join(labels[start:]) for start in range(len(labels) - 1))
