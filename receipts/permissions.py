"""The powers over receipts by name, and the audit event of trying one without having it."""

from __future__ import annotations

import uuid
from typing import Any

from receipts import ledger
from receipts.errors import PermissionDenied
from receipts.models import Receipt, Verb

FILE = "receipts.file_followup"
SEES_ALL = "receipts.view_receipt"
RETRY = "receipts.retry_receipt"
REPLAY = "receipts.replay_receipt"
EXPORT = "receipts.export_receipt"
VIEW_SEALED = "receipts.view_sealedinput"

#: Permission → what it is for, as the event says it.
ACTIONS = {REPLAY: "replay", EXPORT: "export", VIEW_SEALED: "view_sealed_input"}


def refused(actor_id: uuid.UUID, action: str, **more: Any) -> ledger.Event:
    """The audit event of somebody who was refused something."""
    return ledger.Event(verb=Verb.ACCESS_REFUSED, actor_id=actor_id, detail={"action": action, **more})


def require(user: Any, permission: str, receipt: Receipt | None = None) -> None:
    """Raises: PermissionDenied, with an audit event that says who was refused what."""
    if user.has_perm(permission):
        return
    ledger.record(refused(user.pk, ACTIONS[permission]), receipt=receipt)
    raise PermissionDenied
