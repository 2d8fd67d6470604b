"""What can be done with tickets, apart from filing. Each verb is one transaction."""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction
from django.db.models import Max

from receipts import clock
from receipts.errors import NotFound
from receipts.models import Receipt
from tickets import contact
from tickets.models import Member, Message, OutgoingEmail, Resolution, Ticket


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
    now = clock.now()
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
    ticket = _locked(ticket_id)
    _change(ticket, changes)
    return ticket


class MovedMeanwhile(Exception):
    """The ticket is not where it was when somebody decided to move it. It stays where it is now."""

    def __init__(self, ticket: Ticket) -> None:
        super().__init__(ticket.pk)
        self.ticket = ticket


@transaction.atomic
def place_ticket(*, ticket_id: str, seen: str, status: str, assignee: str) -> Ticket:
    """Give the ticket this status and assignee (a member's handle, empty for nobody), if it still is where it was seen.

    `seen`: the `place` that it had then. What is there already is left alone, so that a second click changes nothing.
    Raises: NotFound, MovedMeanwhile.
    """
    ticket = _locked(ticket_id)
    if (ticket.status, ticket.assignee_id or "") == (status, assignee):
        return ticket
    if ticket.place != seen:
        raise MovedMeanwhile(ticket)
    _change(ticket, {"status": status, "assignee_id": assignee or None})
    return ticket


def _locked(ticket_id: str) -> Ticket:
    """Raises: NotFound."""
    ticket = Ticket.objects.select_for_update(no_key=True).filter(pk=ticket_id).first()
    if ticket is None:
        raise NotFound
    return ticket


def _change(ticket: Ticket, changes: dict[str, Any]) -> None:
    if changes:
        for name, value in changes.items():
            setattr(ticket, name, value)
        ticket.updated_at = clock.now()
        ticket.save(update_fields=[*changes, "updated_at"])


# ── what a receipt stands for ────────────────────────────────────────────────────────────────────────────────────


class AlreadyClosed(Exception):
    """There is nothing left to close."""


class ContactRejected(Exception):
    """The requester's address is none that mail may be sent to."""


@transaction.atomic
def resolve_ticket(*, ticket_id: str, text: str, receipt: Receipt) -> Resolution:
    """Write down how the ticket ended, and close it. Raises: NotFound, AlreadyClosed."""
    ticket = _locked(ticket_id)
    if ticket.is_closed:
        raise AlreadyClosed
    resolution = Resolution.objects.create(
        id=_numbered("RES", "resolution_number"),
        ticket=ticket,
        text=text,
        created_by_id=receipt.on_behalf_of_id or receipt.user_id,
        receipt=receipt,
        created_at=clock.now(),
    )
    _change(ticket, {"status": Ticket.Status.CLOSED})
    return resolution


@transaction.atomic
def write_email(*, ticket_id: str, subject: str, body: str, receipt: Receipt) -> OutgoingEmail:
    """Put a message to the ticket's requester into the outbox. Raises: NotFound, ContactRejected.

    The lock keeps the ticket, and with it the address, as it is until the message is committed.
    """
    ticket = _locked(ticket_id)
    now = clock.now()
    if contact.judge(ticket.requester_email, now).decision is contact.Decision.REJECT:
        raise ContactRejected
    return OutgoingEmail.objects.create(
        id=_numbered("MSG", "outgoing_email_number"),
        ticket=ticket,
        to_address=contact.deliverable(ticket.requester_email),
        subject=subject,
        body=body,
        created_by_id=receipt.on_behalf_of_id or receipt.user_id,
        receipt=receipt,
        created_at=now,
    )


def conversation_moved(ticket_id: str, version: str) -> bool:
    """Whether somebody has written on the ticket since its conversation was at `version`."""
    newest = Message.objects.filter(ticket_id=ticket_id).aggregate(newest=Max("id"))["newest"]
    return str(newest or 0) != version


def _numbered(prefix: str, sequence: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(%s::regclass)", [sequence])
        return f"{prefix}-{cursor.fetchone()[0]}"
