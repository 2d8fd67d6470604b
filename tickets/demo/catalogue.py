"""All demo tickets, and the one function that puts them into an empty or a lived-in database."""

from __future__ import annotations

import datetime as dt

from django.db import connection, transaction

from tickets.demo import english, hostile, languages, migration
from tickets.demo.people import members
from tickets.demo.script import DemoTicket
from tickets.models import Member, Message, Ticket

TICKETS: tuple[DemoTicket, ...] = (
    *english.TICKETS,
    *languages.TICKETS,
    *migration.TICKETS,
    *hostile.TICKETS,
)

#: Only ever forward: tickets that people opened since keep their numbers theirs.
_PAST_THE_DEMO = "SELECT setval('ticket_number', %(last)s) FROM ticket_number WHERE last_value < %(last)s"


@transaction.atomic
def seed(now: dt.datetime) -> int:
    """Add the members and tickets that are missing; what exists stays as people left it.

    Returns the number of tickets added.
    """
    Member.objects.bulk_create(members(), ignore_conflicts=True)
    names = {member.handle: member.name for member in members()}
    existing = set(Ticket.objects.filter(id__in=[demo.id for demo in TICKETS]).values_list("id", flat=True))
    missing = [demo for demo in TICKETS if demo.id not in existing]
    Ticket.objects.bulk_create([demo.row(now) for demo in missing])
    Message.objects.bulk_create([message for demo in missing for message in demo.messages(now, names)])
    with connection.cursor() as cursor:
        cursor.execute(_PAST_THE_DEMO, {"last": max(demo.number for demo in TICKETS)})
    return len(missing)
