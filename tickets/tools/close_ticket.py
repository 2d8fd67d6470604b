"""`close_ticket`: drafts how the ticket was resolved, writes that down and closes it, in one transaction."""

from __future__ import annotations

from typing import Any

from receipts.contracts import Applied, Arguments, Context, Effect, ReplayRule, Tool, ToolRefusal
from receipts.errors import NotFound
from tickets import actions
from tickets.tools.reading import CONTRACTS, OPEN_TICKET, SUBJECT


def close(arguments: Arguments, context: Context, receipt: Any) -> Applied:
    """Raises: ToolRefusal `ticket_gone`, `ticket_closed`."""
    try:
        resolution = actions.resolve_ticket(ticket_id=context.subject, text=arguments["resolution"], receipt=receipt)
    except NotFound:
        raise ToolRefusal("ticket_gone") from None
    except actions.AlreadyClosed:
        raise ToolRefusal("ticket_closed") from None
    return Applied(result_ref=resolution.pk, context_moved=actions.conversation_moved(context.subject, context.version))


CLOSE_TICKET = Tool(
    name="close_ticket",
    version=1,
    effect=Effect.WRITE,
    replay_rule=ReplayRule.UNLESS_APPLIED,
    schema_path=CONTRACTS / "close_ticket.v1.json",
    schema_sha256="ffbcfa2c49d1fb09810ff54b168682ac76926900093b0eaac8c4bc5baf25d28b",
    instruction=(
        "You write down how a support ticket was resolved, for the team's records. From the lead's notes and the "
        "conversation, say what the cause was and what was done, in the language of the notes, 20 to 1000 characters "
        "of plain text without markup. Claim nothing that neither the notes nor the conversation say."
    ),
    route_field="ticket_id",
    subject_form=SUBJECT,
    read=OPEN_TICKET,
    apply=close,
    evidence="SELECT receipt_id, id FROM resolutions",
)
