"""What a worker begins: attempts that were queued, and retries that nobody watches.

Each is named by receipt and attempt, so a job that runs twice finds its attempt begun, and does nothing. While the
provider's circuit is open they are held: a job of the same name comes back later, and the receipt says so once. The
same goes for a worker that lacks the contract or a free place, without a word to the receipt.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import transaction

from receipts import attempts, circuit, clock, jobs, ledger, permissions, presses
from receipts.attempts import place
from receipts.errors import (
    ContractGone,
    InputExpired,
    Overloaded,
    PermissionDenied,
    ReceiptsError,
    Superseded,
    TicketConflict,
)
from receipts.jobs import enqueue_attempt, enqueue_retry
from receipts.lifecycle import Outcome, Status
from receipts.manifest import provider, tool_of
from receipts.models import AuditEvent, Receipt, Verb
from receipts.runner import Inflight

log = logging.getLogger(__name__)


Enqueue = Callable[[Receipt, dt.datetime], None]

#: Until a worker of another version may have the job: while a new version is rolled out, some hold a contract that
#: others do not.
OTHER_VERSION_SECONDS = 30.0
#: Receipts without a job that one look helps to a new one; the next look is a minute later.
LOST_MAX = 2000


def begin_queued(receipt_id: uuid.UUID, attempt: int) -> Inflight | None:
    """Begin a queued attempt in this process. None: it was begun, cancelled or swept before, is held, or was left for
    another worker."""
    receipt = ledger.read(receipt_id)
    if receipt is None or not receipt.queued or receipt.attempt != attempt:
        return None
    try:
        return _begin(receipt)
    except (ContractGone, Overloaded) as elsewhere:
        _put_off(receipt, elsewhere, enqueue_attempt)
        return None


def _begin(receipt: Receipt) -> Inflight | None:
    """Raises: ContractGone, Overloaded."""
    given = _given(receipt)
    with _place(receipt, given) as taken:
        if isinstance(taken, circuit.Hold):
            _hold(receipt, receipt.attempt, taken, enqueue_attempt)
            return None
        begun = time.monotonic()
        started = ledger.begin(receipt, settings.ATTEMPT_DEADLINE_SECONDS)
        return None if started is None else _continue(taken, started, given, begun)


def retry_unwatched(receipt_id: uuid.UUID, attempt: int) -> Inflight | None:
    """Continue a receipt that failed retryably while nobody watched: the same receipt, next attempt, by the system.

    None: somebody else continued it, another receipt of its lineage speaks for it now, it is held, or was left for
    another worker.
    """
    receipt = ledger.read(receipt_id)
    if receipt is None or receipt.attempt != attempt or receipt.status != Status.FAILED or not receipt.retryable:
        return None
    try:
        return _retry(receipt)
    except (ContractGone, Overloaded) as elsewhere:
        _put_off(receipt, elsewhere, enqueue_retry)
        return None


def _retry(receipt: Receipt) -> Inflight | None:
    """Raises: ContractGone, Overloaded."""
    given = _given(receipt)
    with _place(receipt, given) as taken:
        if isinstance(taken, circuit.Hold):
            _hold(receipt, receipt.attempt + 1, taken, enqueue_retry)
            return None
        begun = time.monotonic()
        try:
            started = ledger.reopen(
                receipt, actor_id=receipt.user_id, seconds=settings.ATTEMPT_DEADLINE_SECONDS, by_system=True
            )
        except Superseded:
            return None
        return None if started is None else _continue(taken, started, given, begun)


def enqueue_lost() -> int:
    """Give a job to receipts that wait for one and have none, for the minute's work of any worker. How many."""
    lost = Receipt.objects.filter(pk__in=jobs.without_job(LOST_MAX))
    return sum(
        _come_back(receipt, clock.now(), enqueue_attempt if receipt.queued else enqueue_retry) for receipt in lost
    )


def _given(receipt: Receipt) -> presses.Input | InputExpired:
    """What the attempt works from, or that it is gone: then its attempt has to begin to be refused by name."""
    try:
        return presses.Input.of(attempts.unsealed(receipt))
    except InputExpired as expired:
        return expired


@contextmanager
def _place(receipt: Receipt, given: presses.Input | InputExpired) -> Iterator[attempts.Place | circuit.Hold]:
    """A place to begin in, or the hold that the provider's circuit puts on what asks a model.

    Raises: ContractGone, Overloaded.
    """
    asks_model = tool_of(receipt).derive is None and isinstance(given, presses.Input) and given.arguments is None
    host = provider().host
    with place() as taken:
        hold = circuit.may_begin(receipt.pk, host) if asks_model else None
        try:
            yield hold or taken
        finally:
            if not taken.started:
                circuit.give_back(receipt.pk, host)


def _hold(receipt: Receipt, attempt: int, hold: circuit.Hold, enqueue: Enqueue) -> None:
    """Have the same come back when the circuit may let it. The receipt gets one event for each attempt that is held."""

    def say_so() -> None:
        if not AuditEvent.objects.filter(receipt=receipt, verb=Verb.HOLD, detail__attempt=attempt).exists():
            detail = {
                "attempt": attempt,
                "provider": hold.provider,
                "reason": hold.reason,
                "until": hold.until.isoformat(timespec="seconds"),
            }
            ledger.record(ledger.Event(verb=Verb.HOLD, actor_id=None, detail=detail), receipt=receipt)

    _come_back(receipt, hold.until, enqueue, say_so)


def _put_off(receipt: Receipt, why: ContractGone | Overloaded, enqueue: Enqueue) -> None:
    """Have the same come back soon, perhaps to another worker; not all at once."""
    seconds = OTHER_VERSION_SECONDS
    if isinstance(why, Overloaded):
        seconds = float(why.retry_after or 2)
    else:
        log.warning("receipt %s waits for contract %s, which is not held here", receipt.pk, receipt.contract)
    seconds *= random.uniform(1.0, 1.5)  # noqa: S311 - jitter, no secret
    _come_back(receipt, clock.now() + dt.timedelta(seconds=seconds), enqueue)


def _come_back(receipt: Receipt, at: dt.datetime, enqueue: Enqueue, beside: Callable[[], None] | None = None) -> bool:
    """Enqueue the same for then, in a job of its own: what a job may fail at is counted per job, and waiting is no
    failure. False: somebody began or settled it meanwhile, or the system would not continue it any more by then.

    `beside` is written in the same transaction.
    """
    if receipt.status == Status.FAILED and at >= circuit.retried_until(receipt):
        return False
    with transaction.atomic(durable=True):
        unmoved = Receipt.objects.filter(pk=receipt.pk, attempt=receipt.attempt, status=receipt.status)
        if not unmoved.filter(started_at=receipt.started_at).select_for_update(no_key=True).values_list("pk"):
            return False
        if beside is not None:
            beside()
        enqueue(receipt, at)
    return True


def _continue(
    taken: attempts.Place, receipt: Receipt, given: presses.Input | InputExpired, begun: float
) -> Inflight | None:
    """Run an attempt that has begun; where it cannot run, it is settled here."""
    on_their_own = receipt.actor_id == receipt.user_id  # not where somebody else retried it
    if receipt.replay_of_id is not None and on_their_own and not receipt.user.has_perm(permissions.REPLAY):
        denied = permissions.refused(receipt.user_id, permissions.ACTIONS[permissions.REPLAY])
        _refuse(receipt, PermissionDenied(reason="role_taken"), denied)
        return None
    context = ledger.context(tool_of(receipt), receipt.subject)
    if context is None:
        _refuse(receipt, TicketConflict(reason="ticket_gone"))
        return None
    if isinstance(given, InputExpired):
        _refuse(receipt, given)
        return None
    return taken.start(receipt, context, given, begun)


def _refuse(receipt: Receipt, error: ReceiptsError, event: ledger.Event | None = None) -> None:
    ledger.settle_failed(receipt, error, replayable=tool_of(receipt).replayable(Outcome.FAILED), event=event)
