"""A ticket's conversation as its page shows it: the latest turns open, the earlier ones folded."""

from __future__ import annotations

from dataclasses import dataclass

from tickets.models import Message, Ticket

OPEN = 12
#: Turns sent to a browser at most. A page with more would take longer to lay out than to read.
SHOWN = 400


@dataclass(frozen=True, kw_only=True)
class Conversation:
    earlier: list[Message]
    """Folded away, oldest first."""
    latest: list[Message]
    """Open, oldest first."""
    hidden: int
    """Still older ones that the page leaves out."""


def conversation(ticket: Ticket) -> Conversation:
    newest_first = list(Message.objects.filter(ticket=ticket).order_by("-id")[: SHOWN + 1])
    hidden = 0
    if len(newest_first) > SHOWN:
        hidden = Message.objects.filter(ticket=ticket).count() - SHOWN
        newest_first = newest_first[:SHOWN]
    oldest_first = newest_first[::-1]
    return Conversation(earlier=oldest_first[:-OPEN], latest=oldest_first[-OPEN:], hidden=hidden)
