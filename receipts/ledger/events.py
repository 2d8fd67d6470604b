"""Audit events, and the one deletion that the ledger knows."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from receipts.models import AuditEvent, Receipt, Verb
from receipts.statements import fetch_row


@dataclass(frozen=True, kw_only=True)
class Event:
    """An audit event that belongs to a write."""

    verb: Verb
    actor_id: uuid.UUID | None
    detail: dict[str, Any] = field(default_factory=dict)


_PURGE = """
WITH gone AS (
  DELETE FROM sealed_inputs USING tool_receipts r
  WHERE r.id = receipt_id AND (expires_at <= clock_timestamp() OR r.status = 'applied' AND r.effect <> 'read')
  RETURNING 1),
event AS (
  INSERT INTO audit_events (at, actor_id, verb, detail)
  SELECT clock_timestamp(), %(actor)s::uuid, 'purge', jsonb_build_object('sealed_inputs', count(*))
  FROM gone HAVING count(*) > 0)
SELECT count(*) FROM gone
"""


def purge_sealed_inputs(actor_id: uuid.UUID | None = None) -> int:
    """Delete the sealed inputs that have expired, or whose receipt is an applied write: nothing may run those again.

    How many. The audit event is in the same statement; none is written where nothing was deleted.
    """
    row = fetch_row(_PURGE, {"actor": actor_id})
    return int(row[0]) if row else 0


def record(event: Event, *, receipt: Receipt | None = None, run_id: uuid.UUID | None = None) -> AuditEvent:
    """Write an audit event in the caller's transaction: the deed and its event stand or fall together.

    About a receipt and its run, about a run alone, or about neither.
    """
    run_id = receipt.run_id if receipt else run_id
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO audit_events (at, actor_id, verb, receipt_id, run_id, detail)"
            " VALUES (clock_timestamp(), %s, %s, %s, %s, %s) RETURNING id, at",
            [
                event.actor_id,
                event.verb.value,
                receipt.id if receipt else None,
                run_id,
                json.dumps(event.detail),
            ],
        )
        key, at = cursor.fetchone()
    return AuditEvent(
        id=key, at=at, actor_id=event.actor_id, verb=event.verb, receipt=receipt, run_id=run_id, detail=event.detail
    )
