"""The order of things: file, retry, sweep. No HTTP.

One street: checks → ledger (commit 1) → fill → tool.apply + ledger (commit 2). A press in the browser, the API, a
retry and a scheduled run all walk it; they differ in what they wait for.
"""

from __future__ import annotations

import hmac
import logging
import math
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from receipts import fill, ledger, presses, throttle
from receipts.contracts import Arguments, Context, Tool, ToolRefusal, registry
from receipts.errors import (
    ApplyFailed,
    ArgMismatch,
    DatabaseUnavailable,
    DeadlineExceeded,
    FillInvalid,
    IdempotencyInFlight,
    IdempotencyKeyReused,
    InternalError,
    InvalidRequest,
    NotFound,
    Overloaded,
    PermissionDenied,
    ReceiptsError,
    Throttled,
    TicketConflict,
    from_row,
)
from receipts.keys import parse_key
from receipts.lifecycle import Outcome, Status, outcome
from receipts.models import Receipt, SealedInput, Trigger, Verb
from receipts.redaction import input_hash, redact
from receipts.runner import Inflight, Runner, runner
from receipts.sealing import Unsealable, sealer
from receipts.serializers import DECISION

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Filing:
    """Where a press stands when the flow has done its part."""

    receipt: Receipt
    """The row: pending when an attempt was begun or is queued, settled when the ledger answered."""
    deduplicated: bool
    """Answered from the ledger; nothing ran."""
    inflight: Inflight | None = None
    """The attempt that this call began in this process."""


@dataclass(frozen=True, kw_only=True)
class _Press:
    """One press after its checks."""

    user: Any
    tool: Tool
    subject: str
    key: str
    notes: str
    fingerprint: bytes
    trigger: Trigger
    queued: bool
    begun: float
    """Monotonic seconds when it began: every budget counts from here."""


# ── file ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def file(
    *,
    tool: str,
    user: Any,
    subject: str,
    key: str | None,
    body: Callable[[], Any],
    trigger: Trigger = Trigger.PRESS,
    respond_async: bool = False,
) -> Filing:
    """Check a press, open its receipt (commit 1) and begin its attempt; or answer it from the ledger.

    `key` is the header as it came; `body` is called when its turn in the order of checks has come, and may raise
    InvalidRequest. The order: permission → throttle → ticket → key → body → fingerprint → state.

    Raises: PermissionDenied, Throttled, NotFound, IdempotencyKeyRequired, IdempotencyKeyInvalid, InvalidRequest,
        TicketMismatch, IdempotencyKeyReused, IdempotencyInFlight, Superseded, Overloaded.
    """
    begun = time.monotonic()
    contract = registry.newest(tool)
    if not user.has_perm("receipts.file_followup"):
        raise PermissionDenied
    _throttle(user.pk, key)
    try:
        parsed = parse_key(key)
        valid = presses.validate(body(), subject=subject)
    except ReceiptsError:
        # the ticket's turn comes first; a sound press reads it in the statement that opens the receipt
        if ledger.context(contract, subject) is None:
            raise NotFound from None
        raise
    press = _Press(
        user=user,
        tool=contract,
        subject=subject,
        key=parsed,
        notes=valid.notes,
        fingerprint=presses.fingerprint(route=tool, subject=subject, body=valid),
        trigger=trigger,
        queued=respond_async,
        begun=begun,
    )
    return _open_or_answer(press)


def _throttle(user_id: uuid.UUID, key: str | None) -> None:
    """Raises: Throttled, unless the ledger can answer this key without a fill."""
    rate = throttle.Rate.parse(settings.THROTTLE_PRESSES)
    if rate is None:
        return
    seconds = throttle.seconds_until_next_press(user_id, rate)
    if seconds and not _known_answer(user_id, key):
        raise Throttled(retry_after=seconds)


def _known_answer(user_id: uuid.UUID, key: str | None) -> Receipt | None:
    """The receipt of this key, if it is answered without running anything."""
    try:
        receipt = ledger.find(user_id, parse_key(key))
    except ReceiptsError:
        return None
    if receipt is None or receipt.overdue or (receipt.status == Status.FAILED and receipt.retryable):
        return None
    return receipt


def _open_or_answer(press: _Press) -> Filing:
    try:
        runner().reserve()
    except Overloaded:
        if _known_answer(press.user.pk, press.key):
            return _answer(press)
        raise
    started = False
    try:
        context, receipt = ledger.open_receipt(_opening(press))
        if context is None:
            raise NotFound
        filing = Filing(receipt=receipt, deduplicated=False) if receipt else _answer(press)
        if filing.deduplicated:
            return filing
        filing.receipt.user = press.user
        inflight = _start(filing.receipt, context, press.notes, press.begun)
        started = True
        return Filing(receipt=filing.receipt, deduplicated=False, inflight=inflight)
    finally:
        if not started:
            runner().release()


def _opening(press: _Press) -> ledger.Opening:
    return ledger.Opening(
        user_id=press.user.pk,
        idempotency_key=press.key,
        fingerprint=press.fingerprint,
        tool=press.tool,
        subject=press.subject,
        input_hash=input_hash(press.subject, press.notes),
        workflow=press.tool.name,
        trigger=press.trigger.value,
        manifest=manifest(press.tool),
        sealed=sealer().seal({"notes": press.notes}),
        sealed_days=settings.SEALED_INPUT_DAYS,
        seconds=settings.START_BY_SECONDS if press.queued else settings.ATTEMPT_DEADLINE_SECONDS,
        queued=press.queued,
    )


def _answer(press: _Press) -> Filing:
    """What the ledger says to a key that was used before; a retryable end is reopened, by exactly one caller.

    Raises: IdempotencyKeyReused, IdempotencyInFlight, Superseded.
    """
    for _ in range(3):
        receipt = ledger.find(press.user.pk, press.key)
        if receipt is None:
            break
        receipt.user = press.user
        if not hmac.compare_digest(bytes(receipt.request_fingerprint), press.fingerprint):
            raise IdempotencyKeyReused(receipt_id=str(receipt.pk))
        if receipt.status == Status.APPLIED or (receipt.status == Status.FAILED and not receipt.retryable):
            return Filing(receipt=receipt, deduplicated=True)
        reopened = _take_over(receipt, press.user, queued=press.queued)
        if reopened is not None:
            return Filing(receipt=reopened, deduplicated=False)
        # another caller got there first: read what it did
    raise IdempotencyInFlight(receipt_id=str(receipt.pk) if receipt else None, retry_after=1)


def _take_over(receipt: Receipt, user: Any, *, queued: bool) -> Receipt | None:
    """Reopen a receipt that failed retryably, or whose time is over. None: another caller was first.

    Raises: IdempotencyInFlight while its attempt may still end; Superseded.
    """
    if receipt.status == Status.PENDING:
        if not ledger.overdue(receipt):
            raise IdempotencyInFlight(receipt_id=str(receipt.pk), retry_after=_seconds_left(receipt))
        abandoned = ledger.abandon(receipt, replayable=_tool_of(receipt).replayable(Outcome.RETRYABLE))
        if abandoned is None:
            return None
        receipt = abandoned
    seconds = settings.START_BY_SECONDS if queued else settings.ATTEMPT_DEADLINE_SECONDS
    return ledger.reopen(receipt, actor_id=user.pk, seconds=seconds, queued=queued)


def _seconds_left(receipt: Receipt) -> int:
    left = math.ceil((receipt.deadline_at - timezone.now()).total_seconds())
    return max(1, min(5, left))


def _tool_of(receipt: Receipt) -> Tool:
    """The contract that the receipt was opened with: a retry never moves to another version."""
    return registry.get(receipt.tool_name, receipt.contract_version)


def manifest(tool: Tool) -> dict[str, Any]:
    """The context that travels with a run: everything that could make it differ from another one."""
    return {
        "app_version": settings.VERSION,
        "contracts": {tool.contract: tool.schema_sha256},
        "provider_host": provider().host,
        "model": settings.COMPLETIONS_MODEL,
        "mode": settings.COMPLETIONS_MODE,
        "budgets": {
            "fill_seconds": settings.FILL_BUDGET_SECONDS,
            "attempt_seconds": settings.ATTEMPT_DEADLINE_SECONDS,
            "apply_lock_ms": settings.APPLY_LOCK_TIMEOUT_MS,
            "apply_statement_ms": settings.APPLY_STATEMENT_TIMEOUT_MS,
        },
    }


def provider() -> fill.Provider:
    """The provider that the settings name."""
    return fill.Provider(
        url=settings.COMPLETIONS_URL,
        api_key=settings.COMPLETIONS_API_KEY,
        auth=settings.COMPLETIONS_AUTH,
        model=settings.COMPLETIONS_MODEL,
        mode=settings.COMPLETIONS_MODE,
        stream=settings.COMPLETIONS_STREAM,
        extra=settings.COMPLETIONS_EXTRA,
    )


# ── retry ────────────────────────────────────────────────────────────────────────────────────────────────────────


def retry(*, user: Any, receipt: Receipt, respond_async: bool = False) -> Filing:
    """Continue the same receipt after a retryable end: its owner, or somebody who may retry others' receipts.

    The notes come from the sealed input. An applied or permanently failed receipt is answered, not run.

    Raises: PermissionDenied, Throttled, NotFound (the ticket is gone), IdempotencyInFlight, Superseded, Overloaded,
        InvalidRequest when the sealed input has expired.
    """
    begun = time.monotonic()
    owner = receipt.user_id == user.pk
    if not user.has_perm("receipts.file_followup" if owner else "receipts.retry_receipt"):
        raise PermissionDenied
    if receipt.status == Status.APPLIED or (receipt.status == Status.FAILED and not receipt.retryable):
        return Filing(receipt=receipt, deduplicated=True)
    _throttle(user.pk, None)
    notes = unsealed(receipt)["notes"]
    context = ledger.context(_tool_of(receipt), receipt.subject)
    if context is None:
        raise NotFound
    place = runner()
    place.reserve()
    started = False
    try:
        reopened = _take_over(receipt, user, queued=respond_async)
        if reopened is None:
            raise IdempotencyInFlight(receipt_id=str(receipt.pk), retry_after=1)
        inflight = _start(reopened, context, notes, begun)
        started = True
        return Filing(receipt=reopened, deduplicated=False, inflight=inflight)
    finally:
        if not started:
            place.release()


def unsealed(receipt: Receipt) -> dict[str, Any]:
    """The private input of a receipt. Raises: InvalidRequest when it has expired, was purged or cannot be opened."""
    sealed = SealedInput.objects.filter(receipt_id=receipt.pk, expires_at__gt=timezone.now()).first()
    if sealed is None:
        raise InvalidRequest("The notes of this receipt are no longer kept. Press anew with the notes.")
    try:
        return sealer().unseal(bytes(sealed.token))
    except Unsealable as error:
        log.error("sealed input of receipt %s cannot be opened", receipt.pk)
        raise InvalidRequest(
            "The notes of this receipt cannot be opened any more. Press anew with the notes."
        ) from error


# ── one attempt ──────────────────────────────────────────────────────────────────────────────────────────────────


def _start(receipt: Receipt, context: Context, notes: str, begun: float) -> Inflight:
    """Hand an opened attempt to this process's runner."""

    async def attempt(place: Runner, inflight: Inflight) -> Receipt | None:
        at, row = begun, receipt
        if row.queued:
            at = time.monotonic()
            started = await place.in_settler(lambda: ledger.begin(row, settings.ATTEMPT_DEADLINE_SECONDS))
            if started is None:  # somebody else began it, or it waited too long
                return await place.in_settler(lambda: ledger.read(row.pk))
            row = started
        tool = _tool_of(row)
        filled = await _fill(tool, context, notes, place, inflight, at)
        decision = _decision(filled)
        if decision.arguments is not None:
            inflight.decide(decision.arguments)
        return await place.settle(inflight, lambda: settle(row, tool, context, notes, filled, decision, at))

    return runner().start(receipt.pk, attempt)


async def _fill(
    tool: Tool, context: Context, notes: str, place: Runner, inflight: Inflight, begun: float
) -> fill.Filled | ReceiptsError:
    left = settings.FILL_BUDGET_SECONDS - (time.monotonic() - begun)
    try:
        return await fill.fill(
            tool,
            context,
            notes,
            provider=provider(),
            client=place.client,
            budget_seconds=max(0.0, left),
            on_draft=inflight.write,
        )
    except Exception:  # a fault of ours must still settle the row
        log.exception("the fill of receipt %s broke", inflight.receipt_id)
        return InternalError()


def settle(
    receipt: Receipt,
    tool: Tool,
    context: Context,
    notes: str,
    filled: fill.Filled | ReceiptsError,
    decision: ledger.Decision,
    begun: float,
) -> Receipt | None:
    """Commit 2: make the change and stamp it, or stamp the failure. The row as it is afterwards, whoever wrote it."""
    if isinstance(filled, fill.Filled) and filled.arguments is not None:
        done = _apply(receipt, tool, context, filled.arguments, decision, begun)
        if isinstance(done, Receipt):
            return _told(done, receipt, decision)
        error, arguments = done, filled.arguments
    else:
        error = filled.error if isinstance(filled, fill.Filled) and filled.error else _as_error(filled)
        arguments = None
    if arguments is not None:
        # exact arguments are kept, sealed, where a replay without the model may need them
        decision = _with_sealed(decision, {"notes": notes, "arguments": arguments})
    came_to = outcome(Status.FAILED, error.retryable) or Outcome.FAILED
    settled = ledger.settle_failed(
        receipt, error, decision=decision, replayable=tool.replayable(came_to), event=_event(receipt, error)
    )
    if settled is None:  # fenced: the row belongs to another attempt, or was settled from outside
        return ledger.read(receipt.pk)
    settled.retry_after = error.retry_after
    return _told(settled, receipt, decision)


def _as_error(filled: fill.Filled | ReceiptsError) -> ReceiptsError:
    return filled if isinstance(filled, ReceiptsError) else InternalError()


def _apply(
    receipt: Receipt, tool: Tool, context: Context, arguments: Arguments, decision: ledger.Decision, begun: float
) -> Receipt | ReceiptsError:
    """The applied row, or the error to settle with; then nothing of this attempt is in the database."""
    left_ms = int((settings.ATTEMPT_DEADLINE_SECONDS - (time.monotonic() - begun)) * 1000)
    if left_ms <= 0:
        return DeadlineExceeded(reason="attempt_deadline")
    try:
        return ledger.apply(
            receipt,
            tool,
            arguments,
            context,
            decision=decision,
            lock_timeout_ms=settings.APPLY_LOCK_TIMEOUT_MS,
            statement_timeout_ms=min(settings.APPLY_STATEMENT_TIMEOUT_MS, left_ms),
        )
    except ledger.Fenced:
        return DeadlineExceeded(reason="attempt_deadline")
    except ToolRefusal as refusal:
        return (
            FillInvalid(reason=refusal.reason)
            if refusal.reason == "policy_assignee"
            else TicketConflict(reason=refusal.reason)
        )
    except (DatabaseError, InterfaceError) as error:
        return _apply_failed(receipt, error)
    except Exception:
        log.exception("the tool %s broke at receipt %s", tool.contract, receipt.pk)
        return InternalError()


def _apply_failed(receipt: Receipt, error: Exception) -> ApplyFailed:
    """After a broken COMMIT the change may be there: settling waits for the row's lock and then finds it applied."""
    sqlstate = getattr(error.__cause__, "sqlstate", None)
    log.warning("apply of receipt %s failed: %s %s", receipt.pk, type(error).__name__, sqlstate or "")
    connection.close()
    reasons = {"55P03": "lock_timeout", "57014": "statement_timeout"}
    return ApplyFailed(reason=reasons.get(sqlstate or "", "database_error"))


def _decision(filled: fill.Filled | ReceiptsError) -> ledger.Decision:
    """What the model said, redacted: its decision is kept also where it was refused."""
    if isinstance(filled, ReceiptsError):
        return ledger.Decision()
    facts = filled.facts
    usage = facts.usage or {}
    record = facts.as_json()
    record["proposed"] = redact(record["proposed"])
    return ledger.Decision(
        record=record,
        # what passed the gates is what was proposed, redacted once
        arguments=record["proposed"] if filled.arguments is not None else None,
        model=record["model"],
        provider_host=facts.provider_host,
        finish_reason=record["finish_reason"],
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens"),
        fill_ms=facts.fill_ms,
    )


def _with_sealed(decision: ledger.Decision, private: dict[str, Any]) -> ledger.Decision:
    return replace(decision, sealed=sealer().seal(private))


def _event(receipt: Receipt, error: ReceiptsError) -> ledger.Event | None:
    """A model that names another ticket is a security event."""
    if not isinstance(error, ArgMismatch):
        return None
    return ledger.Event(verb=Verb.RETARGET_REFUSED, actor_id=None, detail={"attempt": receipt.attempt})


def _told(settled: Receipt, began_as: Receipt, decision: ledger.Decision) -> Receipt:
    """Carry over what this process knows, so that answering needs no further query."""
    setattr(settled, DECISION, decision.record)
    if "user" in began_as._state.fields_cache:
        settled.user = began_as.user
    return settled


# ── waiting and answering ────────────────────────────────────────────────────────────────────────────────────────


def wait(filing: Filing) -> Receipt:
    """Block until the attempt is settled; the row as it is then. No connection is held meanwhile.

    Raises: DatabaseUnavailable when the attempt ended without settling its row, which the sweep will do;
        OperationalError when the row cannot even be read.
    """
    if filing.inflight is None:
        return filing.receipt
    connection.close()
    try:
        # longer than any attempt can take: fill budget, then apply and settle under their own timeouts
        settled = filing.inflight.wait(settings.ATTEMPT_DEADLINE_SECONDS + 30)
    except Exception:  # the runner has logged it; what became of the change, only the row can say
        settled = None
    settled = settled or ledger.read(filing.receipt.pk)
    if settled is None or settled.status == Status.PENDING:
        raise DatabaseUnavailable(receipt_id=str(filing.receipt.pk), retry_after=_seconds_left(filing.receipt))
    return settled


def answer_of(receipt: Receipt) -> Receipt:
    """The receipt, when it may be called a success; else raises the error that its row owes."""
    if receipt.status == Status.APPLIED:
        return receipt
    if receipt.status == Status.PENDING:
        raise IdempotencyInFlight(receipt_id=str(receipt.pk), retry_after=_seconds_left(receipt))
    raise from_row(
        receipt.error_code or "",
        receipt.error_reason,
        retryable=receipt.retryable,
        receipt_id=str(receipt.pk),
        retry_after=receipt.retry_after,
    )


# ── sweep ────────────────────────────────────────────────────────────────────────────────────────────────────────


def sweep(limit: int = 1000) -> int:
    """Settle pending receipts whose deadline has passed as `abandoned`. How many were settled here.

    One receipt a transaction; another sweeper, the worker itself or a retrying client may be first, and that is fine.
    """
    settled = 0
    for receipt_id in ledger.overdue_ids(limit):
        receipt = ledger.read(receipt_id)
        if receipt is None:
            continue
        try:
            replayable = _tool_of(receipt).replayable(Outcome.RETRYABLE)
        except KeyError:  # a contract that this version no longer holds
            replayable = False
        settled += ledger.abandon(receipt, replayable=replayable) is not None
    return settled
