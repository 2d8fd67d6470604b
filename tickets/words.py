"""The words for where a press stands. Every page, the side panel's script included, takes them from here.

Success is said of an `applied` row alone, failure of a `failed` one alone; everything else has words of its own.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from receipts.errors import BY_CODE, REASONS, Owner
from receipts.lifecycle import Status
from receipts.models import Receipt

#: Who will see the result of a tool. Fixed by us for each tool: a model cannot choose it.
AUDIENCE = {
    "file_followup": "Internal. Your support team sees it; nothing is sent to the customer.",
}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a press stands, for people."""

    name: str
    """Chooses icon and colour: `filed`, `drafting`, …"""
    words: str
    """The line itself."""


STANDINGS = {
    standing.name: standing
    for standing in (
        Standing(name="idle", words="Nothing pressed yet"),
        Standing(name="checking", words="Not confirmed yet — checking"),
        Standing(name="queued", words="Waiting to start — nothing filed yet"),
        Standing(name="drafting", words="Drafting — nothing filed yet"),
        Standing(name="filing", words="Filing…"),
        Standing(name="complete", words="Draft complete — waiting for confirmation"),
        Standing(name="filed", words="Filed"),
        Standing(name="not_filed", words="Not filed"),
    )
}


def standing(receipt: Receipt, now: dt.datetime) -> Standing:
    """Read from the row alone."""
    match Status(receipt.status):
        case Status.APPLIED:
            name = "filed"
        case Status.FAILED:
            name = "not_filed"
        case Status.PENDING if receipt.is_overdue(now):
            name = "checking"
        case Status.PENDING if receipt.queued:
            name = "queued"
        case Status.PENDING if receipt.arguments_json:
            name = "filing"
        case _:
            name = "drafting"
    return STANDINGS[name]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why it was not filed, whose turn it is, and what to do now."""

    sentence: str
    owner: str
    next_step: str


def explain(code: str, reason: str | None) -> Explanation:
    """The sentences that the error tables hold for a code and its finer reason.

    A row may be older or newer than this version and name what the tables do not know; then it says just that.
    """
    finer = REASONS.get(reason or "")
    if finer:
        return Explanation(sentence=finer.sentence, owner=finer.owner, next_step=finer.next_step)
    error = BY_CODE.get(code)
    if error is None:
        return Explanation(
            sentence=f"The reason is stored as “{code}”, which this version does not know.",
            owner=Owner.OPERATOR,
            next_step="Give the receipt to an operator.",
        )
    return Explanation(sentence=sentence_case(error.default_detail), owner=error.owner, next_step=error.next_step)


def sentence_case(detail: str) -> str:
    """`argument fill failed` → `Argument fill failed.` The wire quotes some details without capital and stop."""
    return detail[:1].upper() + detail[1:] + ("" if detail.endswith((".", "!", "?")) else ".")


def tables() -> dict[str, Any]:
    """The same words as data, for the side panel's script: it holds no sentences of its own about failures."""
    return {
        "standings": {name: standing.words for name, standing in STANDINGS.items()},
        "codes": {code: vars(explain(code, None)) for code in BY_CODE},
        "reasons": {reason: vars(explain("", reason)) for reason in REASONS},
    }


def person(user: Any) -> str:
    """A person's name, or the name they sign in with."""
    return str(user.get_full_name() or user.get_username())


def number(receipt_id: object) -> str:
    """The receipt's short name, `R-1f3a90bc`: the random end of its id, because ids of one day begin alike."""
    return f"R-{str(receipt_id)[-8:]}"
