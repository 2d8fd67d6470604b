"""What every tool of this domain reads of its ticket, before a model speaks and before a change is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from receipts.contracts import Context, Read
from tickets.models import TICKET_ID, Ticket

CONTRACTS = Path(__file__).parents[1] / "contracts"
SUBJECT = re.compile(TICKET_ID)

#: What a prompt may hold of a ticket, and who can be assigned. Turns are read generously: the prompt itself is cut by
#: characters, newest first.
_READ = """
SELECT json_build_object(
    'title', t.subject,
    'status', t.status,
    'requester_email', t.requester_email,
    'turns', (SELECT coalesce(json_agg(json_build_array(m.author_name, left(m.body, 8000)) ORDER BY m.id DESC), '[]')
                FROM (SELECT * FROM messages WHERE ticket_id = t.id ORDER BY id DESC LIMIT 80) m),
    'last_message', (SELECT coalesce(max(id), 0) FROM messages WHERE ticket_id = t.id),
    'members', (SELECT coalesce(json_agg(handle ORDER BY handle), '[]') FROM members WHERE active)) AS context
FROM tickets t WHERE t.id = %(subject)s
"""


def ticket_context(subject: str, read: dict[str, Any]) -> Context:
    """For tools that work on an open ticket and choose among the members of support."""
    return Context(
        subject=subject,
        title=read["title"],
        conversation=tuple((author, text) for author, text in read["turns"]),
        choices={"assignee": tuple(read["members"])},
        version=str(read["last_message"]),
        refusal="ticket_closed" if read["status"] == Ticket.Status.CLOSED else None,
        facts={"requester_email": read["requester_email"]},
    )


def any_ticket_context(subject: str, read: dict[str, Any]) -> Context:
    """For tools that take a closed ticket as well."""
    return ticket_context(subject, read | {"status": Ticket.Status.OPEN})


OPEN_TICKET = Read(sql=_READ, build=ticket_context)
ANY_TICKET = Read(sql=_READ, build=any_ticket_context)
