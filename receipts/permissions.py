"""Powers whose refusal is worth an audit event: who tried what without being allowed to."""

from __future__ import annotations

from typing import Any

from receipts import ledger
from receipts.errors import PermissionDenied
from receipts.models import Receipt, Verb

EXPORT, VIEW_SEALED = "receipts.export_receipt", "receipts.view_sealedinput"

#: Permission → what it is for, as the event says it.
ACTIONS = {EXPORT: "export", VIEW_SEALED: "view_sealed_input"}


def require(user: Any, permission: str, receipt: Receipt | None = None) -> None:
    """Raises: PermissionDenied, with an audit event that says who was refused what."""
    if user.has_perm(permission):
        return
    detail = {"action": ACTIONS[permission]}
    ledger.record(ledger.Event(verb=Verb.ACCESS_REFUSED, actor_id=user.pk, detail=detail), receipt=receipt)
    raise PermissionDenied
