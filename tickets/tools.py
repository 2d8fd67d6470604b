"""The tools of this domain: where a contract meets a table. The only module that joins receipts and tickets.

To add a tool: one schema file in `contracts/`, one function that makes the change, one line in `TOOLS`, a migration
that widens the constraint `receipt_tool_allowed`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from receipts.contracts import Context, Effect, Read, ReplayRule, Statement, Tool
from tickets.models import TICKET_ID, Ticket

CONTRACTS = Path(__file__).parent / "contracts"

#: What a prompt may hold of a ticket, and who can be assigned. Turns are read generously: the prompt itself is cut by
#: characters, newest first.
_READ_TICKET = """
SELECT json_build_object(
    'title', t.subject,
    'status', t.status,
    'turns', (SELECT coalesce(json_agg(json_build_array(m.author_name, left(m.body, 8000)) ORDER BY m.id DESC), '[]')
                FROM (SELECT * FROM messages WHERE ticket_id = t.id ORDER BY id DESC LIMIT 80) m),
    'last_message', (SELECT coalesce(max(id), 0) FROM messages WHERE ticket_id = t.id),
    'members', (SELECT coalesce(json_agg(handle ORDER BY handle), '[]') FROM members WHERE active)) AS context
FROM tickets t WHERE t.id = %(subject)s
"""


def ticket_context(subject: str, read: dict[str, Any]) -> Context:
    return Context(
        subject=subject,
        title=read["title"],
        conversation=tuple((author, text) for author, text in read["turns"]),
        choices={"assignee": tuple(read["members"])},
        version=str(read["last_message"]),
        refusal="ticket_closed" if read["status"] == Ticket.Status.CLOSED else None,
    )


# Shared locks: presses on one ticket do not wait for each other, while closing the ticket or deactivating the
# member waits for us, or we for them and then see what they did.
_FILE = """
ticket AS (SELECT t.id, t.status FROM fence, tickets t WHERE t.id = %(subject)s FOR SHARE OF t),
member AS (SELECT m.handle FROM fence, members m WHERE m.handle = %(argument_assignee)s AND m.active FOR SHARE OF m),
filed AS (
  INSERT INTO followups (id, ticket_id, summary, assignee, created_by, receipt_id, created_at)
  SELECT 'FUP-' || nextval('followup_number'), ticket.id, %(argument_summary)s, member.handle, fence.beneficiary,
         fence.id, clock_timestamp()
  FROM fence, ticket, member WHERE ticket.status <> 'closed'
  RETURNING id),
change AS (
  SELECT (SELECT id FROM filed) AS result_ref,
         CASE WHEN NOT EXISTS (SELECT FROM ticket) THEN 'ticket_gone'
              WHEN (SELECT status FROM ticket) = 'closed' THEN 'ticket_closed'
              WHEN NOT EXISTS (SELECT FROM member) THEN 'policy_assignee' END AS refusal,
         (SELECT coalesce(max(id), 0)::text FROM messages WHERE ticket_id = %(subject)s) <> %(context_version)s
           AS moved)
"""

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
    subject_form=re.compile(TICKET_ID),
    read=Read(sql=_READ_TICKET, build=ticket_context),
    apply=Statement(sql=_FILE),
    evidence="SELECT receipt_id, id FROM followups",
)

TOOLS = (FILE_FOLLOWUP,)
