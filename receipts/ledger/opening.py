"""Commit 1: open, begin, reopen; each with the job that may belong to it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import IntegrityError, connection, transaction

from receipts.contracts import Context, Tool
from receipts.errors import Superseded
from receipts.ids import uuid7
from receipts.ledger.rows import (
    COLUMNS,
    PENDING,
    columns_of,
    constraint_of,
    live_in_lineage,
    must_be_its_own_transaction,
    one,
    receipt_of,
)
from receipts.models import Receipt
from receipts.statements import fetch_row


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What is known of a receipt before the model is called."""

    user_id: uuid.UUID
    idempotency_key: str
    fingerprint: bytes
    tool: Tool
    subject: str
    input_hash: str
    workflow: str
    trigger: str
    manifest: dict[str, Any]
    sealed: bytes
    sealed_days: int
    seconds: float
    """Until the deadline of a press; until `start_by` of a queued receipt."""
    queued: bool = False
    actor_id: uuid.UUID | None = None
    on_behalf_of_id: uuid.UUID | None = None
    parent_run_id: uuid.UUID | None = None


_OPEN = """
WITH subject AS MATERIALIZED ({read}),
clock AS (SELECT clock_timestamp() AS now FROM subject),
receipt AS (
  INSERT INTO tool_receipts (
    id, user_id, on_behalf_of, actor_id, idempotency_key, request_fingerprint, run_id, tool_name, contract_version,
    contract_sha256, effect, subject, input_hash, arguments_json, status, attempt, context_moved, root_id, created_at,
    started_at, start_by, deadline_at)
  SELECT %(id)s::uuid, %(user)s::uuid, %(on_behalf_of)s::uuid, %(actor)s::uuid, %(key)s, %(fingerprint)s::bytea,
    %(run)s::uuid, %(tool)s, %(version)s::int, %(sha256)s, %(effect)s, %(subject)s, %(input_hash)s, '{{}}'::jsonb,
    'pending', 1, false, %(id)s::uuid, now,
    CASE WHEN %(queued)s::boolean THEN NULL ELSE now END,
    CASE WHEN %(queued)s::boolean THEN now + make_interval(secs => %(seconds)s::float8) END,
    now + make_interval(secs => %(seconds)s::float8)
  FROM clock
  ON CONFLICT (idempotency_key, user_id) DO NOTHING
  RETURNING *),
run AS (
  INSERT INTO runs (id, workflow, trigger, parent_id, actor_id, started_at, manifest)
  SELECT %(run)s::uuid, %(workflow)s, %(trigger)s, %(parent)s::uuid, %(actor)s::uuid, now, %(manifest)s::jsonb
  FROM receipt, clock),
sealed AS (
  INSERT INTO sealed_inputs (receipt_id, token, created_at, expires_at)
  SELECT id, %(sealed)s::bytea, now, now + make_interval(days => %(sealed_days)s::int) FROM receipt, clock)
SELECT subject.context, {columns} FROM subject LEFT JOIN receipt ON true
"""


@cache
def _open_sql(read: str) -> str:
    return _OPEN.format(read=read, columns=columns_of("receipt"))


Enqueue = Callable[[Receipt], None]
"""Puts a job for a receipt into the queue, in the transaction that writes the receipt."""


def with_job(write: Callable[[], Receipt | None], enqueue: Enqueue | None) -> Receipt | None:
    """A write, and the job that belongs to it, in one transaction; without a job the write commits by itself."""
    if enqueue is None:
        return write()
    with transaction.atomic(durable=True):
        receipt = write()
        if receipt is not None:
            enqueue(receipt)
        return receipt


def open_receipt(opening: Opening, enqueue: Enqueue | None = None) -> tuple[Context | None, Receipt | None]:
    """Read the subject's context and insert the receipt `pending`, its run and its sealed input: one statement, one
    commit.

    No context: there is no such subject. No receipt: the person has used this key before. Then nothing was written.
    A press has begun with this statement; a queued receipt waits for `begin`, and `enqueue` puts its job beside it.
    """
    must_be_its_own_transaction()
    if not opening.tool.subject_form.fullmatch(opening.subject):
        return None, None
    context: Context | None = None

    def write() -> Receipt | None:
        nonlocal context
        context, receipt = _open(opening)
        return receipt

    receipt = with_job(write, enqueue)
    return context, receipt


def open_follow_on(opening: Opening, enqueue: Enqueue) -> None:
    """Open a queued receipt and its job in the caller's transaction: the next tool call that a change asks for.

    Raises: RuntimeError where its key was used before or its subject is gone; the change then rolls back too.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("a follow-on stands or falls with the change that asks for it")
    _context, receipt = _open(opening)
    if receipt is None:
        raise RuntimeError(f"the follow-on {opening.idempotency_key} cannot be opened")
    enqueue(receipt)


def _open(opening: Opening) -> tuple[Context | None, Receipt | None]:
    tool = opening.tool
    row = fetch_row(
        _open_sql(tool.read.sql),
        {
            "id": uuid7(),
            "run": uuid7(),
            "user": opening.user_id,
            "actor": opening.actor_id or opening.user_id,
            "on_behalf_of": opening.on_behalf_of_id,
            "key": opening.idempotency_key,
            "fingerprint": opening.fingerprint,
            "tool": tool.name,
            "version": tool.version,
            "sha256": tool.schema_sha256,
            "effect": tool.effect.value,
            "subject": opening.subject,
            "input_hash": opening.input_hash,
            "queued": opening.queued,
            "seconds": opening.seconds,
            "workflow": opening.workflow,
            "trigger": opening.trigger,
            "parent": opening.parent_run_id,
            "manifest": json.dumps(opening.manifest),
            "sealed": opening.sealed,
            "sealed_days": opening.sealed_days,
        },
    )
    if row is None:
        return None, None
    read, *columns = row
    return tool.read.build(opening.subject, read), receipt_of(columns) if columns[0] is not None else None


_BEGIN = f"""
UPDATE tool_receipts
SET started_at = now, deadline_at = now + make_interval(secs => %(seconds)s::float8)
FROM (SELECT clock_timestamp() AS now) AS clock
WHERE id = %(id)s AND attempt = %(attempt)s AND {PENDING} AND started_at IS NULL
  AND start_by > clock_timestamp()
RETURNING {COLUMNS}
"""  # noqa: S608


def begin(receipt: Receipt, seconds: float) -> Receipt | None:
    """Start a queued attempt; its deadline runs from now. None: another worker has it, or its time to start is over."""
    must_be_its_own_transaction()
    return one(_BEGIN, {"id": receipt.id, "attempt": receipt.attempt, "seconds": seconds})


_REOPEN = f"""
WITH clock AS (SELECT clock_timestamp() AS now),
receipt AS (
  UPDATE tool_receipts
  SET status = 'pending', attempt = attempt + 1, actor_id = %(actor)s, arguments_json = '{{}}', context_moved = false,
      started_at = CASE WHEN %(queued)s::boolean THEN NULL ELSE now END,
      start_by = CASE WHEN %(queued)s::boolean THEN now + make_interval(secs => %(seconds)s::float8)
                      WHEN %(by_system)s::boolean THEN now END,
      deadline_at = now + make_interval(secs => %(seconds)s::float8),
      settled_at = NULL, http_status = NULL, error_code = NULL, error_reason = NULL, retryable = NULL, model = NULL,
      provider_host = NULL, finish_reason = NULL, prompt_tokens = NULL, completion_tokens = NULL, fill_ms = NULL,
      apply_ms = NULL, next_attempt_at = NULL
  FROM clock
  WHERE id = %(id)s AND attempt = %(attempt)s AND (status = 'failed') IS TRUE AND retryable
  RETURNING tool_receipts.*),
event AS (
  INSERT INTO audit_events (at, actor_id, verb, receipt_id, run_id, detail)
  SELECT now, %(event_actor)s::uuid, 'retry', id, run_id, jsonb_build_object('attempt', attempt) FROM receipt, clock)
SELECT {COLUMNS} FROM receipt
"""  # noqa: S608


def reopen(
    receipt: Receipt,
    *,
    actor_id: uuid.UUID,
    seconds: float,
    by_system: bool = False,
    enqueue: Enqueue | None = None,
) -> Receipt | None:
    """Retry: the same receipt, next attempt, with its audit event. None: another worker got there first.

    With `enqueue` the attempt is queued: `seconds` is its time to start, and the job is written beside it.

    Raises: Superseded when another receipt of the lineage is pending or applied; the row stays untouched.
    """
    must_be_its_own_transaction()
    try:
        return with_job(
            lambda: one(
                _REOPEN,
                {
                    "id": receipt.id,
                    "attempt": receipt.attempt,
                    "actor": actor_id,
                    "event_actor": None if by_system else actor_id,
                    "seconds": seconds,
                    "queued": enqueue is not None,
                    "by_system": by_system,
                },
            ),
            enqueue,
        )
    except IntegrityError as error:
        if constraint_of(error) != "one_live_write_per_lineage":
            raise
        winner = live_in_lineage(receipt.root_id, but=receipt.id)
        raise Superseded(receipt_id=str(winner[0]) if winner else None) from error
