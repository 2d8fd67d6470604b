"""A look at a sealed input: who, when and why are on record before a word of it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from receipts import ledger
from receipts.models import Receipt, SealedInput, Verb
from receipts.sealing import Unsealable, sealer


class Found(StrEnum):
    """What a look came to."""

    OPENED = "opened"
    GONE = "gone"
    """Purged, because nothing may need it any more, or because it had expired."""
    EXPIRED = "expired"
    UNOPENABLE = "unopenable"
    """No key that is held opens it, or it was changed."""


@dataclass(frozen=True, kw_only=True)
class Disclosed:
    found: Found
    plain: dict[str, Any] | None = None
    """What was sealed, where it was opened."""


def disclose(*, user: Any, receipt: Receipt, reason: str) -> Disclosed:
    """Open the sealed input of a receipt, with the audit event in the same transaction.

    The caller has asked for the permission. `reason` is redacted. An input that cannot be shown is on record as well.
    """
    with transaction.atomic(durable=True):
        disclosed = _open(receipt)
        detail = {"reason": reason, "found": disclosed.found.value}
        ledger.record(ledger.Event(verb=Verb.VIEW_SEALED_INPUT, actor_id=user.pk, detail=detail), receipt=receipt)
    return disclosed


def _open(receipt: Receipt) -> Disclosed:
    in_time = ExpressionWrapper(Q(expires_at__gt=Now()), output_field=BooleanField())
    row = SealedInput.objects.filter(receipt=receipt).annotate(in_time=in_time).values("token", "in_time").first()
    if row is None:
        return Disclosed(found=Found.GONE)
    if not row["in_time"]:
        return Disclosed(found=Found.EXPIRED)
    try:
        return Disclosed(found=Found.OPENED, plain=sealer().unseal(row["token"]))
    except Unsealable:
        return Disclosed(found=Found.UNOPENABLE)
