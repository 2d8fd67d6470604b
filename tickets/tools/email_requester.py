"""`email_requester`: drafts a message to the requester and puts it into the outbox; its delivery is the next receipt.

The model writes subject and body. To whom it goes is the ticket's and never an argument. A closed ticket may be mailed:
telling the requester how it ended is what usually comes after closing.
"""

from __future__ import annotations

import re
from typing import Any

from receipts.contracts import Applied, Arguments, Context, Effect, FollowOn, ReplayRule, Tool, ToolRefusal
from receipts.errors import NotFound
from tickets import actions
from tickets.models import OUTBOX_KEY
from tickets.tools.reading import ANY_TICKET, CONTRACTS, SUBJECT


def enqueue(arguments: Arguments, context: Context, receipt: Any) -> Applied:
    """Raises: ToolRefusal `ticket_gone`, `contact_rejected`."""
    try:
        message = actions.write_email(
            ticket_id=context.subject, subject=arguments["subject"], body=arguments["body"], receipt=receipt
        )
    except NotFound:
        raise ToolRefusal("ticket_gone") from None
    except actions.ContactRejected:
        raise ToolRefusal("contact_rejected") from None
    return Applied(
        result_ref=message.pk,
        context_moved=actions.conversation_moved(context.subject, context.version),
        follow_on=FollowOn(
            tool="deliver_email",
            subject=context.subject,
            key=f"{OUTBOX_KEY}{message.pk}",
            arguments={"ticket_id": context.subject, "message_id": message.pk},
        ),
    )


#: An encoded word of RFC 2047: mail programs show what it stands for, so the requester would read another subject.
_ENCODED_WORD = re.compile(r"=\?[^?\s]*\?[BbQq]\?")


def subject_is_what_it_says(arguments: Arguments) -> str | None:
    return "policy_subject" if _ENCODED_WORD.search(arguments["subject"]) else None


EMAIL_REQUESTER = Tool(
    name="email_requester",
    version=1,
    effect=Effect.OUTBOX,
    replay_rule=ReplayRule.NEVER,
    schema_path=CONTRACTS / "email_requester.v1.json",
    schema_sha256="6b009a2ddd4214ab94bb87464df84071b0da4cca876d0f03d990a1cf23d22220",
    instruction=(
        "You draft one e-mail to the person who opened a support ticket. From the lead's notes and the conversation, "
        "write a subject of one line, 5 to 150 characters, and a body of 20 to 4000 characters of plain text without "
        "markup, in the language of the conversation; the body alone may hold line breaks. Promise nothing that the "
        "notes do not say, and repeat no internal remarks."
    ),
    route_field="ticket_id",
    subject_form=SUBJECT,
    read=ANY_TICKET,
    apply=enqueue,
    policy=subject_is_what_it_says,
    # a message without its delivery's receipt is as wrong as one without its own
    evidence="""
        SELECT m.receipt_id, m.id FROM outbox m
        WHERE EXISTS (SELECT FROM tool_receipts d
                      WHERE d.idempotency_key = 'outbox:' || m.id AND d.user_id = m.created_by
                        AND d.tool_name = 'deliver_email')""",
)
