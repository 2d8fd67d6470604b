"""The tools of this domain: where a contract meets a table. The only module that joins receipts and tickets.

To add a tool: one schema file in `contracts/`, a `prepare` and an `apply`, one line in `TOOLS`, a migration that
widens the constraint `receipt_tool_allowed`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from receipts.contracts import Applied, Arguments, Context, Effect, ReplayRule, Tool, ToolRefusal
from receipts.models import Receipt
from receipts.statements import fetch_row
from tickets.models import Ticket

TICKET_ID = re.compile(r"TCK-[A-Z0-9]{1,32}")
CONTRACTS = Path(__file__).parent / "contracts"

#: Turns of a conversation that are read for a prompt; the prompt itself is cut by characters, newest first.
CONVERSATION_TURNS = 80

_READ_TICKET = """
SELECT t.subject, t.status,
       (SELECT coalesce(json_agg(json_build_array(m.author_name, left(m.body, 8000)) ORDER BY m.id DESC), '[]')
          FROM (SELECT * FROM messages WHERE ticket_id = t.id ORDER BY id DESC LIMIT %(turns)s) m),
       (SELECT coalesce(max(id), 0) FROM messages WHERE ticket_id = t.id),
       (SELECT coalesce(array_agg(handle ORDER BY handle), '{}') FROM members WHERE active)
FROM tickets t WHERE t.id = %(ticket)s
"""


def prepare_ticket(subject: str) -> Context | None:
    """What the prompt may hold of a ticket, and who can be assigned, in one query. None: no such ticket."""
    if not TICKET_ID.fullmatch(subject):
        return None
    row = fetch_row(_READ_TICKET, {"turns": CONVERSATION_TURNS, "ticket": subject})
    if row is None:
        return None
    title, status, turns, last_message, members = row
    return Context(
        subject=subject,
        title=title,
        conversation=tuple((author, text) for author, text in turns),
        choices={"assignee": tuple(members)},
        version=str(last_message),
        refusal="ticket_closed" if status == Ticket.Status.CLOSED else None,
    )


# Shared locks: presses on one ticket do not wait for each other, while closing the ticket or deactivating the
# member waits for us, or we for them and then see what they did.
_FILE = """
WITH ticket AS (SELECT id, status FROM tickets WHERE id = %(ticket)s FOR SHARE),
     member AS (SELECT handle FROM members WHERE handle = %(assignee)s AND active FOR SHARE),
     filed AS (
       INSERT INTO followups (id, ticket_id, summary, assignee, created_by, receipt_id, created_at)
       SELECT 'FUP-' || nextval('followup_number'), ticket.id, %(summary)s, member.handle, %(user)s::uuid,
              %(receipt)s::uuid,
              clock_timestamp()
       FROM ticket, member WHERE ticket.status <> 'closed'
       RETURNING id)
SELECT (SELECT status FROM ticket), (SELECT handle FROM member), (SELECT id FROM filed),
       (SELECT coalesce(max(id), 0) FROM messages WHERE ticket_id = %(ticket)s)
"""


def apply_file_followup(arguments: Arguments, context: Context, receipt: Receipt) -> Applied:
    """File the follow-up, if the ticket is open and the assignee still active under lock.

    Raises: ToolRefusal with `ticket_gone`, `ticket_closed` or `policy_assignee`.
    """
    status, member, followup, last_message = _filed(arguments, context, receipt)
    if status is None:
        raise ToolRefusal("ticket_gone")
    if status == Ticket.Status.CLOSED:
        raise ToolRefusal("ticket_closed")
    if member is None:
        raise ToolRefusal("policy_assignee")
    return Applied(result_ref=followup, context_moved=str(last_message) != context.version)


def _filed(arguments: Arguments, context: Context, receipt: Receipt) -> tuple[Any, ...]:
    row = fetch_row(
        _FILE,
        {
            "ticket": context.subject,
            "assignee": arguments["assignee"],
            "summary": arguments["summary"],
            # a replay files in the name of the person it is on behalf of
            "user": receipt.on_behalf_of_id or receipt.user_id,
            "receipt": receipt.id,
        },
    )
    return row or (None, None, None, None)


FILE_FOLLOWUP = Tool(
    name="file_followup",
    version=1,
    effect=Effect.WRITE,
    replay_rule=ReplayRule.UNLESS_APPLIED,
    schema_path=CONTRACTS / "file_followup.v1.json",
    schema_sha256="84d56ecb19ab6fa6caf592b376c8dca248f9cbac2149e3d57a13e6a0174d0d05",
    instruction=(
        "You draft one internal follow-up for a support ticket. From the lead's notes and the conversation, write "
        "a summary of what has to be done next and why, in the language of the notes, 12 to 500 characters of plain "
        "text without markup, and pick the assignee from the allowed names: the one the notes ask for, else the "
        "best fit."
    ),
    route_field="ticket_id",
    prepare=prepare_ticket,
    apply=apply_file_followup,
)

TOOLS = (FILE_FOLLOWUP,)
