"""The scheduled workflows of this domain: what they are called, when they run, and which tickets they concern."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import connection

from receipts.workflows import Item, Workflow

#: Another run, or a lead, is at this ticket with this tool, or the system retries it: a second draft would be one too
#: many. Asked of each ticket's own receipts, which leaves the planner one index: it believes what was pending when it
#: last counted, and set thousands of tickets against thousands of receipts once a large run was half open.
_UNDER_WAY = """
coalesce((SELECT bool_or(r.tool_name = %(tool)s AND (r.status = 'pending'
            OR r.status = 'failed' AND r.next_attempt_at IS NOT NULL AND r.created_at > %(retried)s))
          FROM tool_receipts r WHERE r.subject = t.id), false)
"""

# ── nightly_stale_tickets ────────────────────────────────────────────────────────────────────────────────────────

#: Tickets that nobody answered, the longest wait first. Once a follow-up is filed, the next waits for the requester
#: to write again: a ticket is not followed up every night.
_STALE = f"""
SELECT t.id, last.created_at
FROM tickets t
JOIN LATERAL (SELECT author, created_at FROM messages WHERE ticket_id = t.id ORDER BY id DESC LIMIT 1) last
  ON last.author = 'requester' AND last.created_at <= %(before)s
WHERE t.status IN ('open', 'waiting')
  AND NOT EXISTS (SELECT FROM followups f WHERE f.ticket_id = t.id AND f.created_at >= last.created_at)
  AND NOT {_UNDER_WAY}
ORDER BY last.created_at, t.id
"""  # noqa: S608


def stale_tickets(moment: dt.datetime) -> Iterator[Item]:
    """Open and waiting tickets whose last word is the requester's, and at least STALE_AFTER_DAYS old."""
    before = moment - dt.timedelta(days=settings.STALE_AFTER_DAYS)
    for ticket, last in _rows(_STALE, moment, before=before, tool="file_followup"):
        yield Item(subject=ticket, body={"notes": stale_notes(last, moment)})


def stale_notes(last: dt.datetime, moment: dt.datetime) -> str:
    """What a lead would have noted: the facts, and nothing that the ticket does not say anyway."""
    days = (moment - last).days
    return (
        f"The requester has had no reply for {days} {'day' if days == 1 else 'days'}: the last message is theirs, of "
        f"{last.astimezone(dt.UTC):%d %B %Y, %H:%M} UTC. Nobody has pressed for this; a schedule found it. "
        "Say what is still open and what has to be done next, so that they get an answer."
    )


NIGHTLY_STALE_TICKETS = Workflow(
    name="nightly_stale_tickets",
    title="Drafts a follow-up for every ticket that has waited too long for a reply.",
    cron="0 3 * * *",
    tool="file_followup",
    subjects=stale_tickets,
    parameters=lambda: {"stale_after_days": settings.STALE_AFTER_DAYS},
)

# ── nightly_contact_review ───────────────────────────────────────────────────────────────────────────────────────

#: Tickets that are not closed and were never checked, or whose check has to be looked at again; the oldest first.
_UNCHECKED = f"""
SELECT t.id
FROM tickets t
LEFT JOIN LATERAL (
  SELECT r.id, a.tool_result -> 'output' ->> 'review_until' AS review_until
  FROM tool_receipts r JOIN attempts a ON a.receipt_id = r.id AND a.attempt = r.attempt
  WHERE r.subject = t.id AND r.tool_name = %(tool)s AND r.status = 'applied'
  ORDER BY r.created_at DESC, r.id DESC LIMIT 1) newest ON true
WHERE t.status IN ('open', 'waiting')
  AND (newest.id IS NULL OR newest.review_until::timestamptz <= %(moment)s)
  AND NOT {_UNDER_WAY}
ORDER BY t.created_at, t.id
"""  # noqa: S608


def unchecked_contacts(moment: dt.datetime) -> Iterator[Item]:
    """Tickets that are not closed whose contact has no check that still holds."""
    for (ticket,) in _rows(_UNCHECKED, moment, tool="check_contact_email"):
        yield Item(subject=ticket)


NIGHTLY_CONTACT_REVIEW = Workflow(
    name="nightly_contact_review",
    title="Checks the requester's address of every new ticket, and again when its review is due.",
    cron="30 3 * * *",
    tool="check_contact_email",
    subjects=unchecked_contacts,
)

WORKFLOWS = (NIGHTLY_STALE_TICKETS, NIGHTLY_CONTACT_REVIEW)


def _rows(sql: str, moment: dt.datetime, **parameters: Any) -> list[tuple[Any, ...]]:
    retried = moment - dt.timedelta(seconds=settings.RETRY_WITHIN_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute(sql, {"moment": moment, "retried": retried, **parameters})
        return list(cursor.fetchall())
