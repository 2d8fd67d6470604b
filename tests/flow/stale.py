"""Tickets that wait for a reply, and a provider that drafts for whichever is asked about."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from django.utils import timezone

from tests.factories import make_ticket
from tests.flow.provider import GOOD, Provider, completion
from tickets.models import Message, Ticket


def ticket_of(request: dict[str, Any]) -> str:
    """Which ticket a request to the provider is about."""
    ticket: str = json.loads(request["messages"][-1]["content"])["ticket"]["id"]
    return ticket


def drafts_for_any(provider: Provider) -> None:
    provider.answer = lambda request: (200, completion(GOOD | {"ticket_id": ticket_of(request)}))


def say(ticket: Ticket | str, *, by: str = "requester", days_ago: float = 5, now: dt.datetime | None = None) -> Message:
    return Message.objects.create(
        ticket_id=ticket if isinstance(ticket, str) else ticket.pk,
        author=by,
        author_name=by.title(),
        body="Any news?",
        created_at=(now or timezone.now()) - dt.timedelta(days=days_ago),
    )


def stale_tickets(count: int, **fields: Any) -> list[str]:
    """`TCK-2001` and so on: the requester's last word is five days old, of the first the oldest."""
    ids = [f"TCK-{2001 + number}" for number in range(count)]
    for number, ticket in enumerate(ids):
        make_ticket(ticket, **fields)
        say(ticket, days_ago=6 - number / 1000)
    return ids
