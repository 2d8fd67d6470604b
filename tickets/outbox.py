"""What became of the e-mails in the outbox: told by their deliveries' receipts, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from receipts.models import Receipt
from tickets.models import OUTBOX_KEY, OutgoingEmail


def deliveries(emails: Iterable[OutgoingEmail]) -> dict[str, Receipt]:
    """Message id → the receipt of its delivery. One query for a page."""
    keys = {f"{OUTBOX_KEY}{email.pk}": email.pk for email in emails}
    found = Receipt.objects.filter(tool_name="deliver_email", idempotency_key__in=keys)
    return {keys[receipt.idempotency_key]: receipt for receipt in found}
