"""The only writer of receipts, attempts, runs and audit events.

Every write is one compare-and-set statement on (id, attempt, status): whoever comes late hits zero rows, and what
hangs on the write does not happen either. Each phase is as few statements as its rules allow, in SQL, because the
two commits are the price of every press. Lock order: run → receipt → ticket.

Deadlines use the database's clock (`clock_timestamp()`), so that two machines cannot disagree about one row.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, IntegrityError, connection, transaction

from receipts.contracts import Applied, Arguments, Effect, Tool
from receipts.errors import Abandoned, ReceiptsError, Superseded
from receipts.ids import uuid7
from receipts.lifecycle import LIVE, Outcome, Status, outcome
from receipts.models import Attempt, AuditEvent, Receipt, Verb
from receipts.statements import fetch_row

_FIELDS = list(Receipt._meta.concrete_fields)
_ATTNAMES = [f.attname for f in _FIELDS]
_COLUMNS = ", ".join(f'"{f.column}"' for f in _FIELDS)
_JSON_COLUMN = _ATTNAMES.index("arguments_json")

# A row is found by its primary key, always. Spelled plainly, the condition lets the planner walk the small index of
# pending receipts instead, and between two vacuums that holds an entry for every receipt there has been.
_PENDING = "(status = 'pending') IS TRUE"


class Fenced(Exception):
    """The row has moved on: this attempt no longer owns it. Its transaction rolls back; read the row."""


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


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the model proposed and how it was judged: the attempt's `model_decision`, and figures for the receipt."""

    record: dict[str, Any] | None = None
    """JSON-safe and redacted; None when no model was asked."""
    arguments: Arguments | None = None
    """The validated arguments, redacted, or None."""
    sealed: bytes | None = None
    """A new sealed input that holds the exact arguments too, where a replay may need them."""
    model: str | None = None
    provider_host: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    fill_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Event:
    """An audit event that belongs to a write."""

    verb: Verb
    actor_id: uuid.UUID | None
    detail: dict[str, Any] = field(default_factory=dict)


def _receipt(row: Sequence[Any] | None) -> Receipt | None:
    if row is None:
        return None
    values = list(row)
    # jsonb arrives as text on Django's connections
    values[_JSON_COLUMN] = json.loads(values[_JSON_COLUMN])
    return Receipt.from_db(connection.alias, _ATTNAMES, values)


def _one(sql: str, parameters: dict[str, Any]) -> Receipt | None:
    return _receipt(fetch_row(sql, parameters))


def _must_be_its_own_transaction() -> None:
    """Commit 1 has to be visible to others before the provider is called, so it cannot hide in a transaction."""
    if connection.in_atomic_block:
        raise RuntimeError("the ledger commits for itself: call it outside transaction.atomic")


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


def find(user_id: uuid.UUID, idempotency_key: str) -> Receipt | None:
    """The receipt of a person's key."""
    return _one(
        f"SELECT {_COLUMNS} FROM tool_receipts WHERE idempotency_key = %(key)s AND user_id = %(user)s",  # noqa: S608
        {"key": idempotency_key, "user": user_id},
    )


def read(receipt_id: uuid.UUID) -> Receipt | None:
    """The row as it is now."""
    return _one(f"SELECT {_COLUMNS} FROM tool_receipts WHERE id = %(id)s", {"id": receipt_id})  # noqa: S608


def overdue(receipt: Receipt) -> bool:
    """Whether a pending receipt's time is over, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s <= clock_timestamp()", [receipt.deadline_at])
        return receipt.status == Status.PENDING and bool(cursor.fetchone()[0])


def overdue_ids(limit: int) -> list[uuid.UUID]:
    """Pending receipts past their deadline, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM tool_receipts WHERE status = 'pending' AND deadline_at <= clock_timestamp()"
            " ORDER BY deadline_at LIMIT %s",
            [limit],
        )
        return [row[0] for row in cursor.fetchall()]


def live_in_lineage(root_id: uuid.UUID, but: uuid.UUID) -> uuid.UUID | None:
    """The other receipt of a lineage that is pending or applied, if there is one."""
    found = Receipt.objects.filter(root_id=root_id, status__in=LIVE).exclude(pk=but)
    return found.values_list("pk", flat=True).first()


# ── commit 1: open, begin, reopen ────────────────────────────────────────────────────────────────────────────────

_OPEN = f"""
WITH clock AS (SELECT clock_timestamp() AS now),
receipt AS (
  INSERT INTO tool_receipts (
    id, user_id, on_behalf_of, actor_id, idempotency_key, request_fingerprint, run_id, tool_name, contract_version,
    contract_sha256, effect, subject, input_hash, arguments_json, status, attempt, context_moved, root_id, created_at,
    started_at, start_by, deadline_at)
  SELECT %(id)s::uuid, %(user)s::uuid, %(on_behalf_of)s::uuid, %(actor)s::uuid, %(key)s, %(fingerprint)s::bytea,
    %(run)s::uuid, %(tool)s, %(version)s::int, %(sha256)s, %(effect)s, %(subject)s, %(input_hash)s, '{{}}', 'pending',
    1, false, %(id)s::uuid, now,
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
SELECT {_COLUMNS} FROM receipt
"""  # noqa: S608 - column names from the model


def open_receipt(opening: Opening) -> Receipt | None:
    """Insert the receipt `pending`, its run and its sealed input, in one statement and one commit.

    None: the person has used this key before; nothing was written. A press has begun with this statement; a queued
    receipt waits for `begin`.
    """
    _must_be_its_own_transaction()
    tool = opening.tool
    return _one(
        _OPEN,
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


_BEGIN = f"""
UPDATE tool_receipts
SET started_at = clock_timestamp(), deadline_at = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
WHERE id = %(id)s AND attempt = %(attempt)s AND {_PENDING} AND started_at IS NULL
  AND start_by > clock_timestamp()
RETURNING {_COLUMNS}
"""  # noqa: S608


def begin(receipt: Receipt, seconds: float) -> Receipt | None:
    """Start a queued attempt; its deadline runs from now. None: another worker has it, or its time to start is over."""
    _must_be_its_own_transaction()
    return _one(_BEGIN, {"id": receipt.id, "attempt": receipt.attempt, "seconds": seconds})


_REOPEN = f"""
WITH clock AS (SELECT clock_timestamp() AS now),
receipt AS (
  UPDATE tool_receipts
  SET status = 'pending', attempt = attempt + 1, actor_id = %(actor)s, arguments_json = '{{}}', context_moved = false,
      started_at = CASE WHEN %(queued)s::boolean THEN NULL ELSE now END,
      start_by = CASE WHEN %(queued)s::boolean THEN now + make_interval(secs => %(seconds)s::float8) END,
      deadline_at = now + make_interval(secs => %(seconds)s::float8),
      settled_at = NULL, http_status = NULL, error_code = NULL, error_reason = NULL, retryable = NULL, model = NULL,
      provider_host = NULL, finish_reason = NULL, prompt_tokens = NULL, completion_tokens = NULL, fill_ms = NULL,
      apply_ms = NULL
  FROM clock
  WHERE id = %(id)s AND attempt = %(attempt)s AND (status = 'failed') IS TRUE AND retryable
  RETURNING tool_receipts.*),
event AS (
  INSERT INTO audit_events (at, actor_id, verb, receipt_id, run_id, detail)
  SELECT now, %(actor)s::uuid, 'retry', id, run_id, jsonb_build_object('attempt', attempt) FROM receipt, clock)
SELECT {_COLUMNS} FROM receipt
"""  # noqa: S608


def reopen(receipt: Receipt, *, actor_id: uuid.UUID, seconds: float, queued: bool = False) -> Receipt | None:
    """Retry: the same receipt, next attempt, with its audit event. None: another worker got there first.

    Raises: Superseded when another receipt of the lineage is pending or applied; the row stays untouched.
    """
    _must_be_its_own_transaction()
    try:
        return _one(
            _REOPEN,
            {
                "id": receipt.id,
                "attempt": receipt.attempt,
                "actor": actor_id,
                "seconds": seconds,
                "queued": queued,
            },
        )
    except IntegrityError as error:
        if _constraint(error) != "one_live_write_per_lineage":
            raise
        winner = live_in_lineage(receipt.root_id, but=receipt.id)
        raise Superseded(receipt_id=str(winner) if winner else None) from error


def _constraint(error: DatabaseError) -> str | None:
    diagnosis = getattr(error.__cause__, "diag", None)
    return getattr(diagnosis, "constraint_name", None)


# ── commit 2: settle ─────────────────────────────────────────────────────────────────────────────────────────────

_ATTEMPT = """
attempt AS (
  INSERT INTO attempts (id, receipt_id, attempt, actor_id, started_at, finished_at, status, http_status, error_code,
    error_reason, replayable, model_decision, tool_result)
  SELECT %(attempt_id)s::uuid, id, attempt, actor_id, started_at, settled_at, %(outcome)s::text, http_status,
    error_code, error_reason, %(replayable)s::boolean, %(decision)s::jsonb, %(result)s::jsonb
  FROM receipt)
"""

_FIGURES = """
    arguments_json = %(arguments)s::jsonb, model = %(model)s, provider_host = %(provider_host)s,
    finish_reason = %(finish_reason)s, prompt_tokens = %(prompt_tokens)s, completion_tokens = %(completion_tokens)s,
    fill_ms = %(fill_ms)s, apply_ms = %(apply_ms)s
"""

_SETTLE_FAILED = f"""
WITH clock AS (SELECT clock_timestamp() AS now),
receipt AS (
  UPDATE tool_receipts
  SET status = 'failed', settled_at = now, http_status = %(http_status)s, error_code = %(code)s,
      error_reason = %(reason)s, retryable = %(retryable)s, {_FIGURES}
  FROM clock
  WHERE id = %(id)s AND attempt = %(attempt)s AND {_PENDING}
    AND (NOT %(only_overdue)s::boolean OR deadline_at <= now)
  RETURNING tool_receipts.*),
{_ATTEMPT},
event AS (
  INSERT INTO audit_events (at, actor_id, verb, receipt_id, run_id, detail)
  SELECT now, %(event_actor)s::uuid, %(event_verb)s::text, id, run_id, %(event_detail)s::jsonb FROM receipt, clock
  WHERE %(event_verb)s::text IS NOT NULL),
sealed AS (
  UPDATE sealed_inputs SET token = %(sealed)s::bytea FROM receipt
  WHERE receipt_id = receipt.id AND %(sealed)s::bytea IS NOT NULL)
SELECT {_COLUMNS} FROM receipt
"""  # noqa: S608


def settle_failed(
    receipt: Receipt,
    error: ReceiptsError,
    *,
    replayable: bool,
    decision: Decision | None = None,
    apply_ms: int | None = None,
    event: Event | None = None,
    only_overdue: bool = False,
) -> Receipt | None:
    """Settle this attempt `failed`, with its attempt row and its event, in one statement and one commit.

    None: the attempt is no longer pending (or, with `only_overdue`, not past its deadline); nothing was written.
    """
    _must_be_its_own_transaction()
    decision = decision or Decision()
    came_to = outcome(Status.FAILED, error.retryable)
    return _one(
        _SETTLE_FAILED,
        {
            **_settling(receipt, decision, apply_ms, replayable),
            "outcome": came_to and came_to.value,
            "http_status": error.http_status,
            "code": error.code,
            "reason": error.reason,
            "retryable": error.retryable,
            "only_overdue": only_overdue,
            "sealed": decision.sealed,
            "result": json.dumps(
                {"effect": receipt.effect, "result_ref": None, "error": {"code": error.code, "reason": error.reason}}
            ),
            "event_verb": event.verb.value if event else None,
            "event_actor": event.actor_id if event else None,
            "event_detail": json.dumps(event.detail) if event else "{}",
        },
    )


# One round trip: the timeouts come first, because the fence itself may wait for a lock.
_FENCE = f"""
SET LOCAL lock_timeout = %s;
SET LOCAL statement_timeout = %s;
SELECT 1 FROM tool_receipts
WHERE id = %s AND attempt = %s AND {_PENDING} AND deadline_at > clock_timestamp()
FOR NO KEY UPDATE
"""  # noqa: S608

_STAMP = f"""
WITH clock AS (SELECT clock_timestamp() AS now),
receipt AS (
  UPDATE tool_receipts
  SET status = 'applied', settled_at = now, applied_at = now, http_status = %(http_status)s,
      result_ref = %(result_ref)s, context_moved = %(context_moved)s, {_FIGURES}
  FROM clock
  WHERE id = %(id)s AND attempt = %(attempt)s AND {_PENDING} AND deadline_at > now
  RETURNING tool_receipts.*),
{_ATTEMPT}
SELECT {_COLUMNS} FROM receipt
"""  # noqa: S608


def apply(
    receipt: Receipt,
    mutate: Callable[[], Applied],
    *,
    decision: Decision,
    replayable: bool,
    lock_timeout_ms: int,
    statement_timeout_ms: int,
) -> Receipt:
    """Make the change and stamp `applied`, in one transaction: fence, mutate, stamp.

    The stamp is a compare-and-set, comes last and requires the deadline to lie ahead, so a late attempt's change
    rolls back with it.

    Raises: Fenced when the attempt no longer owns the row; whatever `mutate` raises; DatabaseError. After any of
    them nothing of this attempt is in the database, except where the connection broke during COMMIT: then only the
    row tells (`settle_failed` waits for it).
    """
    begun = time.monotonic()
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_FENCE, [lock_timeout_ms, statement_timeout_ms, receipt.id, receipt.attempt])
        while cursor.nextset():
            pass  # to the fence's own row
        if cursor.fetchone() is None:
            raise Fenced
        applied = mutate()
        apply_ms = round((time.monotonic() - begun) * 1000)
        stamped = _one(
            _STAMP,
            {
                **_settling(receipt, decision, apply_ms, replayable),
                "outcome": Outcome.OK.value,
                "http_status": 201 if receipt.effect != Effect.READ else 200,
                "result_ref": applied.result_ref,
                "context_moved": applied.context_moved,
                "result": json.dumps({"effect": receipt.effect, "result_ref": applied.result_ref, "error": None}),
            },
        )
        if stamped is None:
            raise Fenced
    return stamped


def _settling(receipt: Receipt, decision: Decision, apply_ms: int | None, replayable: bool) -> dict[str, Any]:
    return {
        "id": receipt.id,
        "attempt": receipt.attempt,
        "attempt_id": uuid7(),
        "replayable": replayable,
        "decision": None if decision.record is None else json.dumps(decision.record),
        "arguments": json.dumps(decision.arguments or {}),
        "model": decision.model,
        "provider_host": decision.provider_host,
        "finish_reason": decision.finish_reason,
        "prompt_tokens": decision.prompt_tokens,
        "completion_tokens": decision.completion_tokens,
        "fill_ms": decision.fill_ms,
        "apply_ms": apply_ms,
    }


def abandon(receipt: Receipt, *, replayable: bool) -> Receipt | None:
    """Settle an attempt whose time is over. None: it is not overdue, or somebody settled it first."""
    reason = "never_started" if receipt.started_at is None else "process_died"
    return settle_failed(receipt, Abandoned(reason=reason), replayable=replayable, only_overdue=True)


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────


def record(event: Event, *, receipt: Receipt | None = None) -> AuditEvent:
    """Write an audit event in the caller's transaction: the deed and its event stand or fall together."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO audit_events (at, actor_id, verb, receipt_id, run_id, detail)"
            " VALUES (clock_timestamp(), %s, %s, %s, %s, %s) RETURNING id, at",
            [
                event.actor_id,
                event.verb.value,
                receipt.id if receipt else None,
                receipt.run_id if receipt else None,
                json.dumps(event.detail),
            ],
        )
        key, at = cursor.fetchone()
    return AuditEvent(id=key, at=at, actor_id=event.actor_id, verb=event.verb, receipt=receipt, detail=event.detail)


def last_attempt(receipt: Receipt) -> Attempt | None:
    """The row of the receipt's current attempt; None while it runs."""
    return Attempt.objects.filter(receipt_id=receipt.id, attempt=receipt.attempt).first()
