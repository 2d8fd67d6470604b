"""Who decided each field of what a press came to: the route, the model, a person or the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from receipts.lifecycle import Status
from tickets.story import Story
from tickets.words import FIELDS, person

#: What the route decides has a name of its own here; the press's own pages leave it out.
LABELS = FIELDS | {"ticket_id": "Ticket"}


@dataclass(frozen=True, kw_only=True)
class Field:
    """One line of the comparison."""

    name: str
    label: str
    proposed: Any
    """By the model; None: it proposed nothing here."""
    applied: Any
    """None: nothing was applied."""
    author: str

    @property
    def differs(self) -> bool:
        """The model proposed something else than what was applied."""
        return self.proposed is not None and self.applied is not None and self.proposed != self.applied


def fields_of(story: Story) -> list[Field]:
    """The arguments first, in the contract's order, then what only the server decides."""
    proposed = story.proposed or {}
    decided = {name: (value, author) for name, value, author in story.arguments}
    fields = [
        _field(name, proposed.get(name), *decided.get(name, (None, "nobody: it was refused")))
        for name in dict.fromkeys([*decided, *proposed])
    ]
    return fields + (_by_the_server(story) if story.receipt.status == Status.APPLIED else [])


def _field(name: str, proposed: Any, applied: Any, author: str) -> Field:
    return Field(name=name, label=LABELS.get(name, name), proposed=proposed, applied=applied, author=author)


def _by_the_server(story: Story) -> list[Field]:
    receipt = story.receipt
    owner = receipt.on_behalf_of or receipt.user
    return [
        _field("Result", None, receipt.result_ref, "the server"),
        _field("In the name of", None, person(owner), "the sign-in, read by the server"),
    ]
