"""The order of things: file, retry, cancel, sweep. No HTTP.

What a worker begins is in `receipts.queued`, what an operator replays in `receipts.replay`.

One street: checks → ledger (commit 1) → fill → tool.apply + ledger (commit 2). A press in the browser, the API, a
retry and a scheduled run all walk it; they differ in what they wait for.
"""

from __future__ import annotations

import datetime as dt
import hmac
import logging
import math
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from django.conf import settings
from django.db import connection

from receipts import attempts, clock, ledger, permissions, presses, runner, throttle, unwatched
from receipts.attempts import place
from receipts.contracts import Effect, Handover, Tool, registry
from receipts.errors import (
    AlreadySettled,
    Cancelled,
    ContractGone,
    DatabaseUnavailable,
    IdempotencyInFlight,
    IdempotencyKeyReused,
    NotFound,
    Overloaded,
    PermissionDenied,
    ReceiptsError,
    from_row,
)
from receipts.jobs import enqueue_attempt
from receipts.keys import parse_key
from receipts.lifecycle import Outcome, Status
from receipts.manifest import tool_of
from receipts.models import Receipt, Trigger, Verb
from receipts.openings import opening_of
from receipts.runner import Inflight
from receipts.settlement import lost

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
    given: presses.Input
    trigger: Trigger
    queued: bool
    begun: float
    """Monotonic seconds when it began: every budget counts from here."""
    parent_run_id: uuid.UUID | None = None
    """The run of the workflow that pressed."""

    @cached_property
    def opening(self) -> ledger.Opening:
        return opening_of(
            tool=self.tool,
            subject=self.subject,
            given=self.given,
            user_id=self.user.pk,
            key=self.key,
            trigger=self.trigger,
            queued=self.queued,
            parent_run_id=self.parent_run_id,
        )


# ── file ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def file(
    *,
    tool: str,
    user: Any,
    subject: str,
    key: str | None,
    body: Callable[[], Any],
    respond_async: bool = False,
) -> Filing:
    """Check a press, open its receipt (commit 1) and begin its attempt; or answer it from the ledger.

    `key` is the header as it came; `body` is called when its turn in the order of checks has come, and may raise
    InvalidRequest. The order: permission → throttle → ticket → key → body → fingerprint → state.

    Raises: PermissionDenied, Throttled, NotFound, IdempotencyKeyRequired, IdempotencyKeyInvalid, InvalidRequest,
        TicketMismatch, IdempotencyKeyReused, IdempotencyInFlight, Superseded, Overloaded.
    """
    begun = time.monotonic()
    contract = registry.current(tool, settings.CONTRACTS)
    if not user.has_perm(permissions.FILE):
        raise PermissionDenied
    with throttle.turn(user.pk, answerable=lambda: _known_answer(user.pk, key)):
        parsed, given = _in_order(contract, subject, key, body)
        press = _Press(
            user=user,
            tool=contract,
            subject=subject,
            key=parsed,
            given=given,
            trigger=Trigger.PRESS,
            queued=respond_async,
            begun=begun,
        )
        return _open_or_answer(press)


def queue(
    *,
    tool: str,
    user: Any,
    subject: str,
    key: str,
    body: Mapping[str, Any],
    trigger: Trigger,
    parent_run_id: uuid.UUID | None,
    beside: Callable[[], None] | None = None,
) -> Receipt:
    """Press for a service: open a receipt that a worker begins, with its job, under the workflow's run.

    The same key again is answered with its receipt as it is, and runs nothing: what failed, the system retries. No
    throttle, which is for people and their scripts. `beside` runs in the transaction that opens the receipt, and may
    still undo it.

    Raises: PermissionDenied, NotFound, InvalidRequest, IdempotencyKeyReused.
    """
    contract = registry.current(tool, settings.CONTRACTS)
    if not user.has_perm(permissions.FILE):
        raise PermissionDenied
    given = presses.validate(body, subject=subject, tool=contract)
    press = _Press(
        user=user,
        tool=contract,
        subject=subject,
        key=key,
        given=given,
        trigger=trigger,
        queued=True,
        begun=time.monotonic(),
        parent_run_id=parent_run_id,
    )

    def enqueue(opened: Receipt) -> None:
        if beside is not None:
            beside()
        enqueue_attempt(opened)

    context, receipt = ledger.open_receipt(press.opening, enqueue)
    if context is None:
        raise NotFound
    if receipt is None:
        receipt = ledger.find(user.pk, key)
        assert receipt is not None  # noqa: S101 - the key is taken, and receipts are never removed
        _answered(press, receipt)
    return receipt


def _in_order(tool: Tool, subject: str, key: str | None, body: Callable[[], Any]) -> tuple[str, presses.Input]:
    """Key and body, after the ticket: a sound press reads its ticket in the statement that opens the receipt, so it is
    looked for here only when something else is wrong.

    Raises: NotFound; what is wrong with key or body.
    """
    try:
        return parse_key(key), presses.validate(body(), subject=subject, tool=tool)
    except ReceiptsError:
        if ledger.context(tool, subject) is None:
            raise NotFound from None
        raise


def _known_answer(user_id: uuid.UUID, key: str | None) -> Receipt | None:
    """The receipt of this key, if it is answered without running anything."""
    try:
        receipt = ledger.find(user_id, parse_key(key))
    except ReceiptsError:
        return None
    if receipt is None or receipt.may_run_again:
        return None
    return receipt


def _open_or_answer(press: _Press) -> Filing:
    if press.queued:
        return _queue_or_answer(press)
    try:
        with place() as taken:
            context, receipt = ledger.open_receipt(press.opening)
            if context is None:
                raise NotFound
            filing = Filing(receipt=receipt, deduplicated=False) if receipt else _answer(press)
            if filing.deduplicated:
                return filing
            filing.receipt.user = press.user
            # of a takeover's budget the wait for the row is no part
            begun = press.begun if receipt else time.monotonic()
            inflight = taken.start(filing.receipt, context, press.given, begun)
            return Filing(receipt=filing.receipt, deduplicated=False, inflight=inflight)
    except Overloaded:
        # nothing may begin here; the ticket's turn and what the ledger knows still come first
        if ledger.context(press.tool, press.subject) is None:
            raise NotFound from None
        known = _known_answer(press.user.pk, press.key)
        if known is None:
            raise
        return _answered(press, known) or _in_flight(known)


def _queue_or_answer(press: _Press) -> Filing:
    """The same for a worker to begin: the job is written with the receipt."""
    context, receipt = ledger.open_receipt(press.opening, enqueue_attempt)
    if context is None:
        raise NotFound
    if receipt is None:
        return _answer(press)
    receipt.user = press.user
    return Filing(receipt=receipt, deduplicated=False)


def _answer(press: _Press) -> Filing:
    """What the ledger says to a key that was used before; a retryable end is reopened, by exactly one caller.

    Raises: IdempotencyKeyReused, IdempotencyInFlight, Superseded.
    """
    for _ in range(3):
        receipt = ledger.find(press.user.pk, press.key)
        if receipt is None:
            break
        answered = _answered(press, receipt)
        if answered is not None:
            return answered
        reopened = _take_over(receipt, press.user, queued=press.queued)
        if reopened is not None:
            return Filing(receipt=reopened, deduplicated=False)
        # another caller got there first: read what it did
    raise IdempotencyInFlight(receipt_id=str(receipt.pk) if receipt else None, retry_after=1)


def _answered(press: _Press, receipt: Receipt) -> Filing | None:
    """The settled answer that the ledger holds for this press; None where it is pending or may run again.

    Raises: IdempotencyKeyReused.
    """
    receipt.user = press.user
    if not hmac.compare_digest(bytes(receipt.request_fingerprint), press.opening.fingerprint):
        raise IdempotencyKeyReused(receipt_id=str(receipt.pk))
    if receipt.ended:
        return Filing(receipt=receipt, deduplicated=True)
    return None


def _in_flight(receipt: Receipt) -> NoReturn:
    raise IdempotencyInFlight(receipt_id=str(receipt.pk), retry_after=_seconds_left(receipt))


def _take_over(receipt: Receipt, user: Any, *, queued: bool) -> Receipt | None:
    """Reopen a receipt that failed retryably, or whose time is over. None: another caller was first.

    Raises: IdempotencyInFlight while its attempt may still end; Superseded; ContractGone.
    """
    tool_of(receipt)
    if receipt.status == Status.PENDING:
        if not ledger.overdue(receipt):
            _in_flight(receipt)
        abandoned = _abandon(receipt)
        if abandoned is None:
            return None
        receipt = abandoned
    seconds = settings.START_BY_SECONDS if queued else settings.ATTEMPT_DEADLINE_SECONDS
    return ledger.reopen(receipt, actor_id=user.pk, seconds=seconds, enqueue=enqueue_attempt if queued else None)


def _seconds_left(receipt: Receipt) -> int:
    left = math.ceil((receipt.deadline_at - clock.now()).total_seconds())
    return max(1, min(5, left))


# ── retry ────────────────────────────────────────────────────────────────────────────────────────────────────────


def retry(*, user: Any, receipt: Receipt, respond_async: bool = False) -> Filing:
    """Continue the same receipt after a retryable end: its owner, or somebody who may retry others' receipts.

    The notes come from the sealed input. An applied or permanently failed receipt is answered, not run.

    Raises: PermissionDenied, Throttled, NotFound (the ticket is gone), IdempotencyInFlight, Superseded, Overloaded,
        ContractGone, InputExpired.
    """
    if not may_retry(user, receipt):
        ledger.record(permissions.refused(user.pk, "retry"), receipt=receipt)
        raise PermissionDenied
    if receipt.ended:
        return Filing(receipt=receipt, deduplicated=True)
    with throttle.turn(user.pk):
        return _retry(user, receipt, respond_async)


def may_retry(user: Any, receipt: Receipt) -> bool:
    """Its owner, as long as they may file, or whoever may retry others' receipts: then their own replays, too."""
    owner = receipt.user_id == user.pk and user.has_perm(permissions.FILE)
    return owner or bool(user.has_perm(permissions.RETRY))


def _retry(user: Any, receipt: Receipt, respond_async: bool) -> Filing:
    given = presses.Input.of(attempts.unsealed(receipt))
    context = ledger.context(tool_of(receipt), receipt.subject)
    if context is None:
        raise NotFound
    if respond_async:
        return Filing(receipt=_taken_over(receipt, user, queued=True), deduplicated=False)
    with place() as taken:
        begun = time.monotonic()
        reopened = _taken_over(receipt, user, queued=False)
        return Filing(receipt=reopened, deduplicated=False, inflight=taken.start(reopened, context, given, begun))


def _taken_over(receipt: Receipt, user: Any, *, queued: bool) -> Receipt:
    """Raises: IdempotencyInFlight also when another caller was first; Superseded."""
    reopened = _take_over(receipt, user, queued=queued)
    if reopened is None:
        raise IdempotencyInFlight(receipt_id=str(receipt.pk), retry_after=1)
    log.info("receipt %s is retried, attempt %d", receipt.pk, reopened.attempt)
    return reopened


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────────────────


def cancel(*, user: Any, receipt: Receipt) -> Receipt:
    """Settle a pending receipt as `cancelled`, before it is filed: its owner, or who may retry others' receipts.

    Retryable, so the same key files it after all. An attempt under way finds its row settled and changes nothing; the
    provider's call is ended where it runs in this process. A receipt that was cancelled before is answered as it is.

    Raises: PermissionDenied; AlreadySettled, also where it is leaving for the other side.
    """
    may = permissions.FILE if receipt.user_id == user.pk else permissions.RETRY
    if not user.has_perm(may):
        raise PermissionDenied
    cancelled = _cancelled(user, receipt)
    if cancelled is None:
        raise AlreadySettled(receipt_id=str(receipt.pk))
    cancelled.user = receipt.user
    return cancelled


def _cancelled(user: Any, receipt: Receipt) -> Receipt | None:
    now = ledger.read(receipt.pk)
    if now is None or now.error_code == Cancelled.code:
        return now
    if now.status != Status.PENDING:
        return None
    try:
        tool = tool_of(now)
        replayable = tool.replayable(Outcome.RETRYABLE)
        leaves = isinstance(tool.apply, Handover)
    except ContractGone:
        replayable, leaves = False, now.effect == Effect.OUTBOX
    event = ledger.Event(verb=Verb.CANCEL, actor_id=user.pk, detail={"attempt": now.attempt})
    settled = ledger.settle_failed(now, Cancelled(), replayable=replayable, event=event, only_queued=leaves)
    if settled is not None:
        runner.stop(settled.pk, settled.attempt)
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
    if settled is not None and settled.attempt != filing.receipt.attempt and settled.status == Status.PENDING:
        _in_flight(settled)  # another caller took it over, and works on it now
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
        settled += receipt is not None and _abandon(receipt) is not None
    return settled


def _abandon(receipt: Receipt) -> Receipt | None:
    """None: it is not overdue, or somebody settled it first."""
    if _is_anothers(receipt):
        return None
    error, replayable = lost(receipt)
    return ledger.abandon(receipt, error, replayable=replayable, **unwatched.again(receipt, error))


def _is_anothers(receipt: Receipt) -> bool:
    """Whether to leave it to a version of the product that holds its contract: that one knows whether it may have left.

    For an hour; a contract that nobody holds any more leaves doubt.
    """
    if receipt.effect != Effect.OUTBOX or receipt.started_at is None:
        return False
    try:
        tool_of(receipt)
    except ContractGone:
        fresh: bool = clock.now() < receipt.deadline_at + dt.timedelta(hours=1)
        return fresh
    return False
