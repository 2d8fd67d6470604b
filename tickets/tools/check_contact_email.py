"""`check_contact_email`: may the requester be mailed? Reads only, asks no model, and may be replayed freely."""

from __future__ import annotations

from typing import Any

from receipts import clock
from receipts.contracts import Applied, Arguments, Context, Effect, ReplayRule, Tool
from tickets.contact import LIST_VERSION, judge
from tickets.tools.reading import ANY_TICKET, CONTRACTS, SUBJECT


def from_the_ticket(context: Context) -> Arguments:
    return {"ticket_id": context.subject, "email": context.facts["requester_email"]}


def check(arguments: Arguments, _context: Context, _receipt: Any) -> Applied:
    judged = judge(arguments["email"], clock.now())
    return Applied(
        result_ref=judged.decision.value,
        output={
            "decision": judged.decision.value,
            "reason": judged.reason.value,
            "review_until": judged.review_until.isoformat(timespec="seconds"),
            "list_version": LIST_VERSION,
        },
    )


CHECK_CONTACT_EMAIL = Tool(
    name="check_contact_email",
    version=1,
    effect=Effect.READ,
    replay_rule=ReplayRule.FREELY,
    schema_path=CONTRACTS / "check_contact_email.v1.json",
    schema_sha256="e55d3c1fe3405806a89310e657f20a70f52d7e899f092a2fa6fcb6196ba198b3",
    route_field="ticket_id",
    subject_form=SUBJECT,
    read=ANY_TICKET,
    derive=from_the_ticket,
    apply=check,
)
