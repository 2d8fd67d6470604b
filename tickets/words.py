"""The words for where a press stands. Every page, the side panel's script included, takes them from here.

Success is said of an `applied` row alone, failure of a `failed` one alone; everything else has words of its own.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from receipts.errors import BY_CODE, REASONS
from receipts.explanations import explain
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
    """Read from the row alone. `filing` never is: between the decision and the stamp only the press's stream knows."""
    match Status(receipt.status):
        case Status.APPLIED:
            name = "filed"
        case Status.FAILED:
            name = "not_filed"
        case Status.PENDING if receipt.is_overdue(now):
            name = "checking"
        case Status.PENDING if receipt.queued:
            name = "queued"
        case _:
            name = "drafting"
    return STANDINGS[name]


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


def same_press(receipt: Receipt) -> str:
    """To somebody whose press had been answered already. Its row alone says with what."""
    if receipt.status == Status.APPLIED:
        return f"Already filed · receipt {receipt.number}"
    return f"Already pressed · receipt {receipt.number}. Nothing ran a second time."
