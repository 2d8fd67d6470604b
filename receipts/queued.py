"""What a worker begins: attempts that were queued, and retries that nobody watches.

Each is named by receipt and attempt, so a job that runs twice finds its attempt begun, and does nothing.
"""

from __future__ import annotations

import logging
import time
import uuid

from django.conf import settings

from receipts import attempts, ledger, presses
from receipts.attempts import place
from receipts.errors import ContractGone, InputExpired, ReceiptsError, Superseded, TicketConflict
from receipts.lifecycle import Outcome, Status
from receipts.manifest import tool_of
from receipts.models import Receipt
from receipts.runner import Inflight

log = logging.getLogger(__name__)


def begin_queued(receipt_id: uuid.UUID, attempt: int) -> Inflight | None:
    """Begin a queued attempt in this process. None: it was begun, cancelled or swept before; nothing is to be done.

    Raises: Overloaded; its job comes back later.
    """
    receipt = ledger.read(receipt_id)
    if receipt is None or not receipt.queued or receipt.attempt != attempt or not _held(receipt):
        return None
    with place() as taken:
        begun = time.monotonic()
        started = ledger.begin(receipt, settings.ATTEMPT_DEADLINE_SECONDS)
        return None if started is None else _continue(taken, started, begun)


def retry_unwatched(receipt_id: uuid.UUID, attempt: int) -> Inflight | None:
    """Continue a receipt that failed retryably while nobody watched: the same receipt, next attempt, by the system.

    None: somebody else continued it, or another receipt of its lineage speaks for it now.
    Raises: Overloaded; the job comes back later.
    """
    receipt = ledger.read(receipt_id)
    if receipt is None or receipt.attempt != attempt or receipt.status != Status.FAILED or not receipt.retryable:
        return None
    if not _held(receipt):
        return None
    with place() as taken:
        begun = time.monotonic()
        try:
            started = ledger.reopen(
                receipt, actor_id=receipt.user_id, seconds=settings.ATTEMPT_DEADLINE_SECONDS, by_system=True
            )
        except Superseded:
            return None
        return None if started is None else _continue(taken, started, begun)


def _held(receipt: Receipt) -> bool:
    """Whether this worker holds the receipt's contract; another version of the product may."""
    try:
        tool_of(receipt)
    except ContractGone:
        log.warning("receipt %s waits for contract %s, which is not held here", receipt.pk, receipt.contract)
        return False
    return True


def _continue(taken: attempts.Place, receipt: Receipt, begun: float) -> Inflight | None:
    """Run an attempt whose private input lies sealed; where it cannot run, it is settled here."""
    context = ledger.context(tool_of(receipt), receipt.subject)
    if context is None:
        _refuse(receipt, TicketConflict(reason="ticket_gone"))
        return None
    try:
        given = presses.Input.of(attempts.unsealed(receipt))
    except InputExpired as expired:
        _refuse(receipt, expired)
        return None
    return taken.start(receipt, context, given, begun)


def _refuse(receipt: Receipt, error: ReceiptsError) -> None:
    ledger.settle_failed(receipt, error, replayable=tool_of(receipt).replayable(Outcome.FAILED))
