"""The words for where a press stands. Every page, the side panel's script included, takes them from here.

Success is said of an `applied` row alone, failure of a `failed` one alone; everything else has words of its own.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import cache
from typing import Any

from receipts.errors import BY_CODE, REASONS, OutcomeUnknown, Owner
from receipts.explanations import Explanation, explain
from receipts.lifecycle import Status
from receipts.models import Receipt


@dataclass(frozen=True, kw_only=True)
class ToolWords:
    """How the pages speak of one tool. `{ticket}` and `{ref}` stand for the ticket and the result."""

    audience: str
    """Who will see the result. Fixed by us for each tool: a model cannot choose it."""
    done: str
    undone: str
    working: str
    nothing_yet: str
    """Said while it works or waits: what has not happened."""
    headline_done: str
    headline_failed: str
    headline_open: str
    label_draft: str = "Draft for {ticket}, not filed"
    label_done: str = "Filed on {ticket}"
    icon: str = "lock"
    """Beside the audience."""
    seen_by: str = "Internal: only your team sees it"
    """The audience in a few words, on the button itself."""

    def on(self, ticket: str, ref: str | None = None) -> dict[str, str]:
        """Every sentence, about this ticket and result."""
        return {name: text.format(ticket=ticket, ref=ref or "") for name, text in vars(self).items()}


TOOLS = {
    "file_followup": ToolWords(
        audience="Internal. Your support team sees it; nothing is sent to the customer.",
        done="Filed",
        undone="Not filed",
        working="Drafting",
        nothing_yet="nothing filed yet",
        headline_done="{ref} was filed on {ticket}",
        headline_failed="Nothing was filed on {ticket}",
        headline_open="A follow-up on {ticket} is being worked on",
    ),
    "close_ticket": ToolWords(
        audience="Internal. Your support team sees it on the closed ticket; nothing is sent to the customer.",
        done="Closed",
        undone="Not closed",
        working="Drafting",
        nothing_yet="nothing closed yet",
        headline_done="{ticket} was closed with {ref}",
        headline_failed="{ticket} was not closed by this",
        headline_open="A resolution of {ticket} is being worked on",
        label_draft="Draft for {ticket}, not closed",
        label_done="Resolution of {ticket}",
    ),
    "email_requester": ToolWords(
        audience="Goes out to the customer, to the requester's address.",
        icon="mail",
        seen_by="Goes out to the customer",
        done="Queued for sending",
        undone="Not queued",
        working="Drafting",
        nothing_yet="nothing queued yet",
        headline_done="{ref} to the requester of {ticket} was queued for sending",
        headline_failed="Nothing was queued for the requester of {ticket}",
        headline_open="An e-mail to the requester of {ticket} is being worked on",
        label_draft="Draft for {ticket}, not queued",
        label_done="E-mail of {ticket}, queued for sending",
    ),
    "deliver_email": ToolWords(
        audience="Goes out to the customer, to the requester's address.",
        icon="mail",
        seen_by="Goes out to the customer",
        done="Sent",
        undone="Not sent",
        working="Sending",
        nothing_yet="not confirmed yet",
        headline_done="{ref} was handed to the mail server",
        headline_failed="Nothing was sent to the requester of {ticket}",
        headline_open="An e-mail to the requester of {ticket} is on its way out",
    ),
    "check_contact_email": ToolWords(
        audience="Internal. Nothing is changed, and nothing is sent anywhere.",
        done="Checked",
        undone="Not checked",
        working="Checking",
        nothing_yet="no decision yet",
        headline_done="The requester's address on {ticket} was checked: {ref}",
        headline_failed="The requester's address on {ticket} was not checked",
        headline_open="The requester's address on {ticket} is being checked",
        label_done="Address of {ticket}",
    ),
}

#: What an argument is called where it is shown.
FIELDS = {
    "decision": "Decision",
    "summary": "Summary",
    "assignee": "Assignee",
    "due_on": "To be done by",
    "resolution": "Resolution",
    "subject": "Subject",
    "body": "Text",
    "email": "Address",
    "message_id": "Message",
}

#: What came of a check of the requester's address, and why.
DECISIONS = {"accept": "accepted", "review": "to be looked at", "reject": "not to be mailed"}
DECISION_REASONS = {
    "plain": "nothing speaks against it",
    "role_account": "a shared or unread mailbox",
    "disposable_domain": "a throw-away mail provider",
    "syntax": "no address that mail can be sent to",
}


#: What the error tables say of a model, said of a person who wrote the arguments.
BY_HAND = {
    "arg_mismatch": Explanation(
        sentence="What was written by hand names another ticket.",
        owner=Owner.YOU,
        next_step="Leave the ticket out: the page knows it. Then press anew.",
    ),
    "model_output_invalid": Explanation(
        sentence="What was written by hand does not fit the contract.",
        owner=Owner.YOU,
        next_step="Correct the fields and press anew.",
    ),
    "model_output_unsafe_text": Explanation(
        sentence="Holds characters that must not be stored, or nothing that can be seen.",
        owner=Owner.YOU,
        next_step="Remove invisible and control characters, and press anew.",
    ),
    "policy_assignee": Explanation(
        sentence="The assignee is not an active member of support.",
        owner=Owner.YOU,
        next_step="Choose an active colleague and press anew.",
    ),
    "policy_due_on": Explanation(
        sentence="The day by which it is to be done is over, or no day at all.",
        owner=Owner.YOU,
        next_step="Choose a day that is to come, and press anew.",
    ),
    "ticket_closed": Explanation(
        sentence="The ticket was closed before it could be filed.",
        owner=Owner.YOU,
        next_step="Reopen the ticket if the follow-up is still wanted, and press anew.",
    ),
}


def by_hand(name: str, otherwise: Explanation) -> Explanation:
    """Of a code or reason, where no model had a part in it."""
    return BY_HAND.get(name, otherwise)


def of_tool(name: str) -> ToolWords:
    """A tool that this version has no words for is spoken of as the first one was."""
    return TOOLS.get(name, TOOLS["file_followup"])


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
        Standing(name="unknown", words="Not known whether it was sent"),
    )
}


def standing(receipt: Receipt, now: dt.datetime) -> Standing:
    """Read from the row alone. `filing` never is: between the decision and the stamp only the press's stream knows."""
    match Status(receipt.status):
        case Status.APPLIED:
            name = "filed"
        case Status.FAILED if receipt.error_code == OutcomeUnknown.code:
            name = "unknown"
        case Status.FAILED:
            name = "not_filed"
        case Status.PENDING if receipt.is_overdue(now):
            name = "checking"
        case Status.PENDING if receipt.queued:
            name = "queued"
        case _:
            name = "drafting"
    return _standings(receipt.tool_name)[name]


@cache
def _standings(tool: str) -> dict[str, Standing]:
    """The states as this tool's words say them."""
    said = of_tool(tool)
    own = {
        "queued": f"Waiting to start — {said.nothing_yet}",
        "drafting": f"{said.working} — {said.nothing_yet}",
        "filed": said.done,
        "not_filed": said.undone,
    }
    return STANDINGS | {name: Standing(name=name, words=words) for name, words in own.items()}


def tables(ticket: str) -> dict[str, Any]:
    """The same words as data, for the side panel's script: it holds no sentences of its own about failures."""
    return {
        "tools": {
            tool: said.on(ticket) | {"standings": {name: standing.words for name, standing in _standings(tool).items()}}
            for tool, said in TOOLS.items()
        },
        "fields": FIELDS,
        "decisions": DECISIONS,
        "codes": {code: vars(explain(code, None)) for code in BY_CODE},
        "reasons": {reason: vars(explain("", reason)) for reason in REASONS},
        "byHand": {name: vars(said) for name, said in BY_HAND.items()},
    }


def person(user: Any) -> str:
    """A person's name, or the name they sign in with."""
    return str(user.get_full_name() or user.get_username())


def same_press(receipt: Receipt) -> str:
    """To somebody whose press had been answered already. Its row alone says with what."""
    if receipt.status == Status.APPLIED:
        return f"Already {of_tool(receipt.tool_name).done.lower()} · receipt {receipt.number}"
    return f"Already pressed · receipt {receipt.number}. Nothing ran a second time."
