"""What can be done with tickets, apart from filing. Each verb is one transaction."""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from receipts.errors import NotFound
from tickets.models import Member, Message, Ticket


@transaction.atomic
def open_ticket(
    *,
    subject: str,
    requester_name: str,
    requester_email: str,
    message: str = "",
    priority: str = Ticket.Priority.NORMAL,
    assignee: Member | None = None,
    language: str = "en",
) -> Ticket:
    """A new ticket with the next number, and the requester's first message if there is one."""
    now = timezone.now()
    ticket = Ticket.objects.create(
        id=_next_id(),
        subject=subject,
        requester_name=requester_name,
        requester_email=requester_email,
        priority=priority,
        assignee=assignee,
        language=language,
        created_at=now,
        updated_at=now,
    )
    if message:
        Message.objects.create(
            ticket=ticket,
            author=Message.Author.REQUESTER,
            author_name=requester_name,
            body=message,
            created_at=now,
        )
    return ticket


def _next_id() -> str:
    """The next number that is free: tickets that were brought in may have taken some ahead of the sequence."""
    while True:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 'TCK-' || nextval('ticket_number')")
            number = str(cursor.fetchone()[0])
        if not Ticket.objects.filter(pk=number).exists():
            return number


@transaction.atomic
def change_ticket(*, ticket_id: str, changes: dict[str, Any]) -> Ticket:
    """Set `subject`, `status`, `priority` or `assignee`, last writer wins.

    Waits for filings that hold the ticket's shared lock, so a filing either precedes the closing or sees it.
    Raises: NotFound.
    """
    ticket = Ticket.objects.select_for_update(no_key=True).filter(pk=ticket_id).first()
    if ticket is None:
        raise NotFound
    if changes:
        for name, value in changes.items():
            setattr(ticket, name, value)
        ticket.updated_at = timezone.now()
        ticket.save(update_fields=[*changes, "updated_at"])
    return ticket
