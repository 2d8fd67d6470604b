"""Commit 2: make the change and stamp it, or stamp the failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import DatabaseError, connection, transaction

from receipts.contracts import (
    Applied,
    Arguments,
    Context,
    Effect,
    FollowOn,
    Handover,
    Statement,
    Tool,
    ToolRefusal,
)
from receipts.errors import ReceiptsError
from receipts.ids import uuid7
from receipts.ledger.events import Event
from receipts.ledger.opening import Enqueue, with_job
from receipts.ledger.rows import (
    COLUMNS,
    PENDING,
    columns_of,
    constraint_of,
    must_be_its_own_transaction,
    one,
    receipt_of,
)
from receipts.lifecycle import Outcome, Status, outcome
from receipts.models import Receipt
from receipts.redaction import redact


class Fenced(Exception):
    """The row has moved on: this attempt no longer owns it. Its transaction rolls back; read the row."""


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


Follow = Callable[[Receipt, FollowOn], None]
"""Opens the receipt that a change asks for, in the transaction that stamps the change."""


_ATTEMPT = """
attempt AS (
  INSERT INTO attempts (id, receipt_id, attempt, actor_id, started_at, finished_at, status, http_status, error_code,
    error_reason, replayable, model_decision, tool_result)
  SELECT %(attempt_id)s::uuid, id, attempt, actor_id, started_at, settled_at, %(outcome)s::text, http_status,
    error_code, error_reason, %(replayable)s::boolean, %(decision)s::jsonb,
    jsonb_build_object('effect', effect, 'result_ref', result_ref, 'error', %(error)s::jsonb) || %(output)s::jsonb
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
  WHERE id = %(id)s AND attempt = %(attempt)s AND {PENDING}
    AND (NOT %(only_overdue)s::boolean OR deadline_at <= now)
    AND (NOT %(only_queued)s::boolean OR started_at IS NULL)
  RETURNING tool_receipts.*),
{_ATTEMPT},
event AS (
  INSERT INTO audit_events (at, actor_id, verb, receipt_id, run_id, detail)
  SELECT now, %(event_actor)s::uuid, %(event_verb)s::text, id, run_id, %(event_detail)s::jsonb FROM receipt, clock
  WHERE %(event_verb)s::text IS NOT NULL),
sealed AS (
  UPDATE sealed_inputs SET token = %(sealed)s::bytea FROM receipt
  WHERE receipt_id = receipt.id AND %(sealed)s::bytea IS NOT NULL)
SELECT {COLUMNS} FROM receipt
"""  # noqa: S608


def settle_failed(
    receipt: Receipt,
    error: ReceiptsError,
    *,
    replayable: bool,
    decision: Decision | None = None,
    event: Event | None = None,
    only_overdue: bool = False,
    only_queued: bool = False,
    again_in_seconds: float | None = None,
    enqueue: Enqueue | None = None,
) -> Receipt | None:
    """Settle this attempt `failed`, with its attempt row and its event, in one statement and one commit.

    `again_in_seconds`: when the system will continue it by itself; `enqueue` writes the job for it.

    None: the attempt is no longer pending (or, with `only_overdue`, not past its deadline, or, with `only_queued`, was
    begun); nothing was written.
    """
    must_be_its_own_transaction()
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
        "only_queued": only_queued,
        "error": json.dumps({"code": error.code, "reason": error.reason}),
        "event_verb": event.verb.value if event else None,
        "event_actor": event.actor_id if event else None,
        "event_detail": json.dumps(event.detail) if event else "{}",
        "again_in_seconds": again_in_seconds,
    }
    return with_job(lambda: one(_SETTLE_FAILED, parameters), enqueue)


# The timeouts come first and in the same round trip, because the fence itself may wait for a lock. Sent as one simple
# query, so the three are one transaction even where nobody opened one (PostgreSQL, "Multiple Statements in a Simple
# Query").
_TIMEOUTS = "SET LOCAL lock_timeout = %(lock_timeout_ms)s; SET LOCAL statement_timeout = %(statement_timeout_ms)s;"

_FENCE = f"""
SELECT id, coalesce(on_behalf_of, user_id) AS beneficiary FROM tool_receipts
WHERE id = %(id)s AND attempt = %(attempt)s AND {PENDING} AND deadline_at > clock_timestamp()
FOR NO KEY UPDATE
"""  # noqa: S608

_STAMP = f"""
receipt AS (
  UPDATE tool_receipts
  SET status = 'applied', settled_at = now, applied_at = now, http_status = %(http_status)s,
      result_ref = change.result_ref, context_moved = change.moved,
      apply_ms = round(1000 * extract(epoch FROM now - transaction_timestamp())), {_FIGURES}
  FROM change, clock
  WHERE tool_receipts.id = %(id)s AND attempt = %(attempt)s AND {PENDING} AND deadline_at > now
    AND change.refusal IS NULL
  RETURNING tool_receipts.*),
{_ATTEMPT}
"""  # noqa: S608

_STAMP_AFTER_FUNCTION = f"""
WITH change AS (SELECT %(result_ref)s::text AS result_ref, NULL::text AS refusal, %(moved)s::boolean AS moved),
clock AS (SELECT clock_timestamp() AS now),
{_STAMP},
sealed AS (
  UPDATE sealed_inputs SET token = %(sealed)s::bytea FROM receipt
  WHERE receipt_id = receipt.id AND %(sealed)s::bytea IS NOT NULL)
SELECT {COLUMNS} FROM receipt
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
    body = _CHANGE_AND_STAMP.format(fence=_FENCE, change=change, stamp=_STAMP, columns=columns_of("receipt"))
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
    handed: Applied | None = None,
    follow: Follow | None = None,
) -> Receipt:
    """Make the change and stamp `applied`, in one transaction: fence, change, stamp.

    `handed` is what a Handover gave back: its change was made outside before, and is only stamped. `follow` opens the
    receipt that the change asks for.

    The stamp is a compare-and-set, comes last and requires the deadline to lie ahead, so a late attempt's change
    rolls back with it.

    Raises: Fenced when the attempt no longer owns the row; ToolRefusal; whatever the tool's function raises;
    DatabaseError. After any of them nothing of this attempt is in the database, except where the connection broke
    during COMMIT: then only the row tells (`settle_failed` waits for it).
    """
    must_be_its_own_transaction()
    settling = _settling(receipt, decision, tool.replayable(Outcome.OK)) | {
        "outcome": Outcome.OK.value,
        "http_status": 201 if receipt.effect != Effect.READ else 200,
        "error": None,
        "lock_timeout_ms": lock_timeout_ms,
        "statement_timeout_ms": statement_timeout_ms,
    }
    if isinstance(tool.apply, Statement):
        return _apply_statement(tool.apply, arguments, context, settling)
    if isinstance(tool.apply, Handover):
        if handed is None:
            raise TypeError(f"{tool.contract} changes nothing here: it is handed over first")
        return _stamp_after(lambda: handed, settling, follow)
    change = tool.apply
    return _stamp_after(lambda: change(arguments, context, receipt), settling, follow)


def _apply_statement(statement: Statement, arguments: Arguments, context: Context, settling: dict[str, Any]) -> Receipt:
    named = {f"argument_{name}": value for name, value in arguments.items()}
    about = {"subject": context.subject, "context_version": context.version}
    try:
        owned, refusal, _late, *columns = _last_row(_statement_sql(statement.sql), settling | about | named)
    except DatabaseError as error:
        if constraint_of(error) == "stamp_comes_before_the_deadline":
            raise Fenced from error
        raise
    if not owned:
        raise Fenced
    if refusal is not None:
        raise ToolRefusal(refusal)
    stamped = receipt_of(columns)
    assert stamped is not None  # noqa: S101 - the statement raises where nothing was stamped
    return stamped


def _stamp_after(change: Callable[[], Applied], settling: dict[str, Any], follow: Follow | None) -> Receipt:
    with transaction.atomic(durable=True):
        if _last_row(f"{_TIMEOUTS}\n{_FENCE}", settling) is None:
            raise Fenced
        applied = change()
        output = {} if applied.output is None else {"output": redact(applied.output)}
        stamped = one(
            _STAMP_AFTER_FUNCTION,
            settling | {"result_ref": applied.result_ref, "moved": applied.context_moved, "output": json.dumps(output)},
        )
        if stamped is None:
            raise Fenced
        if applied.follow_on is not None and follow is not None:
            follow(stamped, applied.follow_on)
    stamped.output = output.get("output")
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
        "output": "{}",
        "sealed": decision.sealed,
    }


def abandon(
    receipt: Receipt,
    error: ReceiptsError,
    *,
    replayable: bool,
    again_in_seconds: float | None = None,
    enqueue: Enqueue | None = None,
) -> Receipt | None:
    """Settle an attempt whose time is over with what is known of it. None: it is not overdue, or somebody settled it
    first."""
    return settle_failed(
        receipt,
        error,
        replayable=replayable,
        only_overdue=True,
        again_in_seconds=again_in_seconds,
        enqueue=enqueue,
    )
