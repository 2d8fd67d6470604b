"""Receipts that were really pressed, with their input sealed under our keys; and the ledger, byte for byte."""

from __future__ import annotations

import uuid

from django.db import connection

from receipts import flow
from receipts.models import Receipt
from receipts_project.accounts.models import User
from tests.factories import make_ticket
from tickets.models import Ticket

NOTES = "Customer still blocked on SSO."


def pressed(user: User, ticket: str = "TCK-1008", notes: str = NOTES) -> Receipt:
    """Through the flow, to its end."""
    filing = flow.file(
        tool="file_followup", user=user, subject=ticket, key=f"key-{uuid.uuid4()}", body=lambda: {"notes": notes}
    )
    return flow.wait(filing)


def pressed_on_tickets_of_their_own(user: User, count: int) -> list[Receipt]:
    """A receipt on each of `TCK-3001` and so on."""
    return [pressed(user, make_ticket(f"TCK-{3001 + number}").pk) for number in range(count)]


def refused_by_its_ticket(user: User, ticket: str = "TCK-1008") -> Receipt:
    """Drafted and validated, then refused by the ticket, which was reopened since: the arguments are kept too."""
    Ticket.objects.filter(pk=ticket).update(status="closed")
    receipt = pressed(user, ticket)
    Ticket.objects.filter(pk=ticket).update(status="open")
    assert receipt.error_code == "ticket_conflict"
    return receipt


def rows() -> list[str]:
    """Receipts, events, runs and sealed inputs, byte for byte, in their order."""
    found: list[str] = []
    with connection.cursor() as cursor:
        for table, order in (("tool_receipts", "id"), ("audit_events", "id"), ("runs", "id"), ("sealed_inputs", "1")):
            cursor.execute(f"SELECT to_jsonb(t)::text FROM {table} t ORDER BY {order}")
            found += [row[0] for row in cursor.fetchall()]
    return found
