"""What was done on a ticket, as its page lists it: each with its receipt, and whether the reader may open that."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from receipts.models import Attempt, Receipt
from tickets import words
from tickets.models import Followup, OutgoingEmail, Resolution, Ticket
from tickets.outbox import deliveries


@dataclass(frozen=True, kw_only=True)
class Mailed:
    """An e-mail to the requester, and how its delivery stands."""

    email: OutgoingEmail
    delivery: Receipt | None


@dataclass(frozen=True, kw_only=True)
class ContactCheck:
    """The latest decision on the requester's address."""

    decision: str
    reason: str
    review_until: dt.datetime
    stands: bool
    """Its day has not come yet."""


@dataclass(frozen=True, kw_only=True)
class Done:
    followups: list[Followup]
    resolutions: list[Resolution]
    emails: list[Mailed]
    open_to_reader: set[Any]
    """Receipts among these that the reader may open."""
    contact: ContactCheck | None


def done_on(ticket: Ticket, visible: QuerySet[Receipt], now: dt.datetime) -> Done:
    """Newest first. `visible`: the receipts that the reader may see."""
    followups = list(Followup.objects.filter(ticket=ticket).select_related("created_by").order_by("-created_at"))
    resolutions = list(Resolution.objects.filter(ticket=ticket).select_related("created_by").order_by("-created_at"))
    emails = list(OutgoingEmail.objects.filter(ticket=ticket).select_related("created_by").order_by("-created_at"))
    delivered = deliveries(emails)
    receipts = {delivery.pk for delivery in delivered.values()}
    receipts |= {followup.receipt_id for followup in followups}
    receipts |= {resolution.receipt_id for resolution in resolutions}
    receipts |= {email.receipt_id for email in emails}
    return Done(
        followups=followups,
        resolutions=resolutions,
        emails=[Mailed(email=email, delivery=delivered.get(email.pk)) for email in emails],
        open_to_reader=set(visible.filter(pk__in=receipts).values_list("pk", flat=True)),
        contact=contact_check(ticket, now),
    )


def contact_check(ticket: Ticket, now: dt.datetime) -> ContactCheck | None:
    """The latest check's decision, whoever made it; None where there was none."""
    checks = Receipt.objects.filter(subject=ticket.pk, tool_name="check_contact_email", status="applied")
    latest = checks.order_by("-created_at", "-id").first()
    if latest is None:
        return None
    attempt = Attempt.objects.get(receipt=latest, attempt=latest.attempt)
    output = attempt.tool_result["output"]
    review_until = dt.datetime.fromisoformat(output["review_until"])
    return ContactCheck(
        decision=words.DECISIONS[output["decision"]],
        reason=words.DECISION_REASONS[output["reason"]],
        review_until=review_until,
        stands=now < review_until,
    )
