"""What can be pressed on a ticket's page: one form for each tool that people press, its address and its words."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from receipts.errors import ReceiptsError
from tickets import words
from tickets.models import Ticket

if TYPE_CHECKING:
    from tickets.by_hand import Field


@dataclass(frozen=True, kw_only=True)
class Press:
    """One button of the ticket page."""

    what: str
    """The last part of its address, the same on the page and in the API: `followups`."""
    tool: str
    button: str
    """Says what will happen."""
    by_hand: str = ""
    """The button of the form in which a person writes everything."""
    title: str = ""
    """Of the folded form; empty for the one that is always open."""
    label: str = ""
    """Of the notes; empty: there is nothing to say, the route knows the arguments."""
    placeholder: str = ""
    closed: str = ""
    """Said on a closed ticket; empty where that is no obstacle."""

    @property
    def anchor(self) -> str:
        """Where its form stands on the page."""
        return "press" if self is MAIN else f"press-{self.what}"


MAIN = Press(
    what="followups",
    tool="file_followup",
    button="Draft follow-up and file it",
    by_hand="File it as written",
    label="Notes for the follow-up",
    placeholder="What has to happen next, why, and who should do it?",
    closed="This ticket is closed. A follow-up can be filed only on an open one.",
)
CLOSE = Press(
    what="resolutions",
    tool="close_ticket",
    button="Draft the resolution and close the ticket",
    by_hand="Close the ticket with this",
    title="Draft a resolution and close",
    label="Notes for the resolution",
    placeholder="What was the cause, and what was done?",
    closed="This ticket is closed already.",
)
EMAIL = Press(
    what="emails",
    tool="email_requester",
    button="Draft the e-mail and send it",
    by_hand="Send it as written",
    title="Draft an e-mail to the requester",
    label="Notes for the e-mail",
    placeholder="What should the requester be told?",
)
CHECK = Press(what="contact-checks", tool="check_contact_email", button="Check contact address")

PRESSES = {press.what: press for press in (MAIN, CLOSE, EMAIL, CHECK)}
BY_TOOL = {press.tool: press for press in PRESSES.values()}


#: The forms in which something is typed.
TYPED = tuple(press for press in PRESSES.values() if press.label)


@dataclass(frozen=True, kw_only=True)
class ByHand:
    """The form beside it in which a person writes what the model would."""

    key: str
    """Its own idempotency key."""
    fields: list[Field]
    opened: bool
    refusal: ReceiptsError | None = None

    @property
    def has_errors(self) -> bool:
        return any(field.error for field in self.fields)


@dataclass(frozen=True, kw_only=True)
class Form:
    """One of them on one page."""

    press: Press
    ticket: Ticket
    key: str
    """The idempotency key: one for each form and page, so that a press happens once."""
    notes: str = ""
    seen: int = 0
    """The version of the kept notes that these grow from; a save without script says it."""
    saved_at: dt.datetime | None = None
    """When these very notes were saved."""
    others: str = ""
    """Other notes that are kept for this form: from another tab or device, or older ones beside a receipt's."""
    refusal: ReceiptsError | None = None
    by_hand: ByHand | None = None

    @property
    def audience(self) -> str:
        """Who will see the result; an e-mail names the address that it goes to."""
        if self.press is EMAIL:
            return f"Goes out to the customer, to {self.ticket.requester_email}."
        return words.of_tool(self.press.tool).audience

    @property
    def audience_icon(self) -> str:
        return words.of_tool(self.press.tool).icon

    @property
    def seen_by(self) -> str:
        """The audience in a few words: stands on the button."""
        return words.of_tool(self.press.tool).seen_by

    @property
    def suffix(self) -> str:
        """Tells the ids of this form from the main one's."""
        return "" if self.press is MAIN else f"-{self.press.what}"

    @property
    def undone(self) -> str:
        return words.of_tool(self.press.tool).undone

    @property
    def opened(self) -> bool:
        """Unfolded from the start: there is something in it to look at."""
        return bool(self.notes or self.others or self.refusal)
