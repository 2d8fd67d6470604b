"""The only writer of receipts, attempts, runs and audit events.

Every write is one compare-and-set statement on (id, attempt, status): whoever comes late hits zero rows, and what
hangs on the write does not happen either. Each phase is as few statements as its rules allow, in SQL, because the
two commits are the price of every press. Lock order: run → receipt → ticket.

Deadlines use the database's clock (`clock_timestamp()`), so that two machines cannot disagree about one row.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.db import DatabaseError, IntegrityError, connection, transaction

from receipts.contracts import Applied, Arguments, Context, Effect, Statement, Tool, ToolRefusal
from receipts.errors import Abandoned, ReceiptsError, Superseded
from receipts.ids import uuid7
from receipts.lifecycle import LIVE, Outcome, Status, outcome
from receipts.models import Attempt, AuditEvent, Receipt, Verb
from receipts.statements import fetch_row

_FIELDS = list(Receipt._meta.concrete_fields)
_ATTNAMES = [f.attname for f in _FIELDS]
_COLUMNS = ", ".join(f'"{f.column}"' for f in _FIELDS)


def _columns_of(table: str) -> str:
    return ", ".join(f'{table}."{f.column}"' for f in _FIELDS)


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


def context(tool: Tool, subject: str) -> Context | None:
    """What the tool's context is read from, now; None: there is no such subject."""
    if not tool.subject_form.fullmatch(subject):
        return None
    row = fetch_row(tool.read.sql, {"subject": subject})
    return None if row is None else tool.read.build(subject, row[0])


def live_in_lineage(root_id: uuid.UUID, but: uuid.UUID) -> uuid.UUID | None:
    """The other receipt of a lineage that is pending or applied, if there is one."""
    found = Receipt.objects.filter(root_id=root_id, status__in=LIVE).exclude(pk=but)
    return found.values_list("pk", flat=True).first()


# ── commit 1: open, begin, reopen ────────────────────────────────────────────────────────────────────────────────

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
    return _OPEN.format(read=read, columns=_columns_of("receipt"))


Enqueue = Callable[[Receipt], None]
"""Puts a job for a receipt into the queue, in the transaction that writes the receipt."""


def _with_job(write: Callable[[], Receipt | None], enqueue: Enqueue | None) -> Receipt | None:
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
    _must_be_its_own_transaction()
    if not opening.tool.subject_form.fullmatch(opening.subject):
        return None, None
    context: Context | None = None

    def write() -> Receipt | None:
        nonlocal context
        context, receipt = _open(opening)
        return receipt

    receipt = _with_job(write, enqueue)
    return context, receipt


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
    return tool.read.build(opening.subject, read), _receipt(columns) if columns[0] is not None else None


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
SELECT {_COLUMNS} FROM receipt
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
    _must_be_its_own_transaction()
    try:
        return _with_job(
            lambda: _one(
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
    error_code, error_reason, %(replayable)s::boolean, %(decision)s::jsonb,
    jsonb_build_object('effect', effect, 'result_ref', result_ref, 'error', %(error)s::jsonb)
  FROM receipt)
"""

_FIGURES = """
    arguments_json = %(arguments)s::jsonb, model = %(model)s, provider_host = %(provider_host)s,
    finish_reason = %(finish_reason)s, prompt_tokens = %(prompt_tokens)s, completion_tokens = %(completion_tokens)s,
    fill_ms = %(fill_ms)s
"""

_SETTLE_FAILED = f"""
WITH clock AS (SELECT clock_timestamp() AS now),
receipt AS (
  UPDATE tool_receipts
  SET status = 'failed', settled_at = now, http_status = %(http_status)s, error_code = %(code)s,
      error_reason = %(reason)s, retryable = %(retryable)s,
      next_attempt_at = now + make_interval(secs => %(again_in_seconds)s::float8), {_FIGURES}
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
    event: Event | None = None,
    only_overdue: bool = False,
    again_in_seconds: float | None = None,
    enqueue: Enqueue | None = None,
) -> Receipt | None:
    """Settle this attempt `failed`, with its attempt row and its event, in one statement and one commit.

    `again_in_seconds`: when the system will continue it by itself; `enqueue` writes the job for it.

    None: the attempt is no longer pending (or, with `only_overdue`, not past its deadline); nothing was written.
    """
    _must_be_its_own_transaction()
    decision = decision or Decision()
    came_to = outcome(Status.FAILED, error.retryable)
    parameters = {
        **_settling(receipt, decision, replayable),
        "outcome": came_to and came_to.value,
        "http_status": error.http_status,
        "code": error.code,
        "reason": error.reason,
        "retryable": error.retryable,
        "only_overdue": only_overdue,
        "sealed": decision.sealed,
        "error": json.dumps({"code": error.code, "reason": error.reason}),
        "event_verb": event.verb.value if event else None,
        "event_actor": event.actor_id if event else None,
        "event_detail": json.dumps(event.detail) if event else "{}",
        "again_in_seconds": again_in_seconds,
    }
    return _with_job(lambda: _one(_SETTLE_FAILED, parameters), enqueue)


# The timeouts come first and in the same round trip, because the fence itself may wait for a lock. Sent as one simple
# query, so the three are one transaction even where nobody opened one (PostgreSQL, "Multiple Statements in a Simple
# Query").
_TIMEOUTS = "SET LOCAL lock_timeout = %(lock_timeout_ms)s; SET LOCAL statement_timeout = %(statement_timeout_ms)s;"

_FENCE = f"""
SELECT id, coalesce(on_behalf_of, user_id) AS beneficiary FROM tool_receipts
WHERE id = %(id)s AND attempt = %(attempt)s AND {_PENDING} AND deadline_at > clock_timestamp()
FOR NO KEY UPDATE
"""  # noqa: S608

_STAMP = f"""
receipt AS (
  UPDATE tool_receipts
  SET status = 'applied', settled_at = now, applied_at = now, http_status = %(http_status)s,
      result_ref = change.result_ref, context_moved = change.moved,
      apply_ms = round(1000 * extract(epoch FROM now - transaction_timestamp())), {_FIGURES}
  FROM change, clock
  WHERE tool_receipts.id = %(id)s AND attempt = %(attempt)s AND {_PENDING} AND deadline_at > now
    AND change.refusal IS NULL
  RETURNING tool_receipts.*),
{_ATTEMPT}
"""  # noqa: S608

_STAMP_AFTER_FUNCTION = f"""
WITH change AS (SELECT %(result_ref)s::text AS result_ref, NULL::text AS refusal, %(moved)s::boolean AS moved),
clock AS (SELECT clock_timestamp() AS now),
{_STAMP}
SELECT {_COLUMNS} FROM receipt
"""  # noqa: S608

# The clock is read after the change. A change whose stamp came too late must not commit, hence the error.
_CHANGE_AND_STAMP = """
WITH fence AS MATERIALIZED ({fence}),
{change},
clock AS (SELECT clock_timestamp() AS now FROM change),
{stamp}
SELECT EXISTS (SELECT FROM fence), change.refusal,
       CASE WHEN change.refusal IS NULL AND receipt.id IS NULL AND EXISTS (SELECT FROM fence)
            THEN receipts_refuse_late_stamp() END,
       {columns}
FROM change LEFT JOIN receipt ON true
"""


@cache
def _statement_sql(change: str) -> str:
    body = _CHANGE_AND_STAMP.format(fence=_FENCE, change=change, stamp=_STAMP, columns=_columns_of("receipt"))
    return f"{_TIMEOUTS}\n{body}"


def apply(
    receipt: Receipt,
    tool: Tool,
    arguments: Arguments,
    context: Context,
    *,
    decision: Decision,
    lock_timeout_ms: int,
    statement_timeout_ms: int,
) -> Receipt:
    """Make the change and stamp `applied`, in one transaction: fence, change, stamp.

    The stamp is a compare-and-set, comes last and requires the deadline to lie ahead, so a late attempt's change
    rolls back with it.

    Raises: Fenced when the attempt no longer owns the row; ToolRefusal; whatever the tool's function raises;
    DatabaseError. After any of them nothing of this attempt is in the database, except where the connection broke
    during COMMIT: then only the row tells (`settle_failed` waits for it).
    """
    _must_be_its_own_transaction()
    settling = _settling(receipt, decision, tool.replayable(Outcome.OK)) | {
        "outcome": Outcome.OK.value,
        "http_status": 201 if receipt.effect != Effect.READ else 200,
        "error": None,
        "lock_timeout_ms": lock_timeout_ms,
        "statement_timeout_ms": statement_timeout_ms,
    }
    if isinstance(tool.apply, Statement):
        return _apply_statement(tool.apply, arguments, context, settling)
    return _apply_function(receipt, tool.apply, arguments, context, settling)


def _apply_statement(statement: Statement, arguments: Arguments, context: Context, settling: dict[str, Any]) -> Receipt:
    named = {f"argument_{name}": value for name, value in arguments.items()}
    about = {"subject": context.subject, "context_version": context.version}
    try:
        owned, refusal, _late, *columns = _last_row(_statement_sql(statement.sql), settling | about | named)
    except DatabaseError as error:
        if _constraint(error) == "stamp_comes_before_the_deadline":
            raise Fenced from error
        raise
    if not owned:
        raise Fenced
    if refusal is not None:
        raise ToolRefusal(refusal)
    stamped = _receipt(columns)
    assert stamped is not None  # noqa: S101 - the statement raises where nothing was stamped
    return stamped


def _apply_function(
    receipt: Receipt,
    change: Callable[[Arguments, Context, Receipt], Applied],
    arguments: Arguments,
    context: Context,
    settling: dict[str, Any],
) -> Receipt:
    with transaction.atomic(durable=True):
        if _last_row(f"{_TIMEOUTS}\n{_FENCE}", settling) is None:
            raise Fenced
        applied = change(arguments, context, receipt)
        stamped = _one(
            _STAMP_AFTER_FUNCTION,
            settling | {"result_ref": applied.result_ref, "moved": applied.context_moved},
        )
        if stamped is None:
            raise Fenced
    return stamped


def _last_row(statements: str, parameters: dict[str, Any]) -> Any:
    """The row of the last of several statements that are sent as one simple query."""
    with connection.cursor() as cursor:
        cursor.execute(statements, parameters)
        while cursor.nextset():
            pass
        return cursor.fetchone()


def _settling(receipt: Receipt, decision: Decision, replayable: bool) -> dict[str, Any]:
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
    }


def abandon(
    receipt: Receipt, *, replayable: bool, again_in_seconds: float | None = None, enqueue: Enqueue | None = None
) -> Receipt | None:
    """Settle an attempt whose time is over. None: it is not overdue, or somebody settled it first."""
    return settle_failed(
        receipt,
        Abandoned(reason="never_started" if receipt.started_at is None else "process_died"),
        replayable=replayable,
        only_overdue=True,
        again_in_seconds=again_in_seconds,
        enqueue=enqueue,
    )


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────


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
