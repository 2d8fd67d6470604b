"""`file_followup`: an internal follow-up for a colleague. The hot path, so its change is one SQL statement."""

from __future__ import annotations

import datetime as dt

from django.utils import timezone

from receipts.contracts import Arguments, Effect, ReplayRule, Statement, Tool
from tickets.tools.reading import CONTRACTS, OPEN_TICKET, SUBJECT

# Shared locks: presses on one ticket do not wait for each other, while closing the ticket or deactivating the
# member waits for us, or we for them and then see what they did.
_FILING = """
ticket AS (SELECT t.id, t.status FROM fence, tickets t WHERE t.id = %(subject)s FOR SHARE OF t),
member AS (SELECT m.handle FROM fence, members m WHERE m.handle = %(argument_assignee)s AND m.active FOR SHARE OF m),
filed AS (
  INSERT INTO followups (id, ticket_id, summary, assignee, created_by, receipt_id, created_at{column})
  SELECT 'FUP-' || nextval('followup_number'), ticket.id, %(argument_summary)s, member.handle, fence.beneficiary,
         fence.id, clock_timestamp(){value}
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

_FILE = _FILING.format(column="", value="")
_FILE_WITH_DATE = _FILING.format(column=", due_on", value=", %(argument_due_on)s::date")


def due_on_is_to_come(arguments: Arguments) -> str | None:
    """`policy_due_on` for a day that no calendar has, or that is over where this product is."""
    if arguments["due_on"] is None:
        return None
    try:
        due_on = dt.date.fromisoformat(arguments["due_on"])
    except ValueError:
        return "policy_due_on"
    return "policy_due_on" if due_on < timezone.localdate() else None


_INSTRUCTION = (
    "You draft one internal follow-up for a support ticket. From the lead's notes and the conversation, write "
    "a summary of what has to be done next and why, in the language of the notes, 12 to 500 characters of plain "
    "text without markup, and pick the assignee from the allowed names: the one the notes ask for, else the "
    "best fit."
)

FILE_FOLLOWUP = Tool(
    name="file_followup",
    version=1,
    effect=Effect.WRITE,
    replay_rule=ReplayRule.UNLESS_APPLIED,
    schema_path=CONTRACTS / "file_followup.v1.json",
    schema_sha256="84d56ecb19ab6fa6caf592b376c8dca248f9cbac2149e3d57a13e6a0174d0d05",
    instruction=_INSTRUCTION,
    route_field="ticket_id",
    subject_form=SUBJECT,
    read=OPEN_TICKET,
    apply=Statement(sql=_FILE),
    evidence="SELECT receipt_id, id FROM followups",
)

FILE_FOLLOWUP_2 = Tool(
    name="file_followup",
    version=2,
    effect=Effect.WRITE,
    replay_rule=ReplayRule.UNLESS_APPLIED,
    schema_path=CONTRACTS / "file_followup.v2.json",
    schema_sha256="70dda8ec59bda4dd85d34f7e08ecd576275070c37c5c5b88dbf1e233a11f689e",
    instruction=f"{_INSTRUCTION} Where the notes name a day by which it has to be done, give it; never invent one.",
    route_field="ticket_id",
    subject_form=SUBJECT,
    read=OPEN_TICKET,
    policy=due_on_is_to_come,
    apply=Statement(sql=_FILE_WITH_DATE),
    evidence=FILE_FOLLOWUP.evidence,
)
