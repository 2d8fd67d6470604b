"""The worker's tasks. Each is one call into the flow; the receipt, not the job, says what has happened.

Attempts are asynchronous here: the task hands them to the process's runner and waits without a thread, so that one
worker carries hundreds.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
import uuid
from concurrent.futures import Future
from functools import partial
from itertools import islice

from procrastinate import RetryStrategy
from procrastinate.contrib.django import app
from procrastinate.jobs import Job
from procrastinate.retry import RetryDecision

from receipts import bulk_replays, clock, flow, jobs, ledger, queued, retention, runs
from receipts.errors import ReceiptsError
from receipts.jobs import FIRST, HOUSEKEEPING, QUEUE, RUN_WORKFLOW, enqueue_bulk_replay, enqueue_run
from receipts.models import Receipt
from receipts.runner import Inflight, runner

log = logging.getLogger(__name__)


class Again(RetryStrategy):
    """So many times, so many seconds apart, by the database's clock, which the queue goes by: a worker whose own is
    ahead would have its jobs wait for it."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        decision = super().get_retry_decision(exception=exception, job=job)
        return decision and RetryDecision(retry_at=clock.counted_on() + dt.timedelta(seconds=self.wait))


#: A job is put back when its worker is told to stop, or the database is away; what it stands for is safe in its row,
#: and where all tries are used up `recover_jobs` finds that row.
AGAIN = Again(max_attempts=20, wait=2)
#: A workflow's run soon again; afterwards the tick continues it once a minute.
SOON = Again(max_attempts=3, wait=2)
#: Receipts that one turn in the settling pool opens, and turns at once: attempts settle in between.
OPENED_A_TURN, LANES = 10, 2
#: How long one job opens a run's receipts: less than a worker has that is told to stop, and far less than a job may
#: take before it counts as lost. The next part chooses anew.
OPENING_SECONDS = 20.0
#: How long one job carries a bulk replay on, and how often it looks whether there is room for the next receipt.
BULK_SECONDS, BULK_PAUSE_SECONDS = 5.0, 0.2


@app.task(name="receipts.run_attempt", queue=QUEUE, retry=AGAIN)
async def run_attempt(receipt_id: str, attempt: int) -> None:
    """Begin a queued attempt and see it to its end."""
    await _wait(await runner().in_settler(lambda: queued.begin_queued(uuid.UUID(receipt_id), attempt)))


@app.task(name="receipts.retry_attempt", queue=QUEUE, retry=AGAIN)
async def retry_attempt(receipt_id: str, attempt: int) -> None:
    """Continue a receipt that nobody watches, after a retryable end."""
    await _wait(await runner().in_settler(lambda: queued.retry_unwatched(uuid.UUID(receipt_id), attempt)))


@app.task(name=RUN_WORKFLOW, queue=QUEUE, retry=SOON)
async def run_workflow(run_id: str) -> None:
    """Choose a workflow's subjects and open their receipts; workers draft the first while the last are opened. What is
    left after some seconds is the next job's."""
    place = runner()
    plan = await place.in_settler(lambda: runs.choose(uuid.UUID(run_id)))
    if plan is None:
        return
    left, until = iter(plan.items), time.monotonic() + OPENING_SECONDS
    taken: list[int] = []
    refused: list[ReceiptsError] = []

    async def lane() -> None:
        while turn := list(islice(left, OPENED_A_TURN)):
            refused.extend(await place.in_settler(partial(runs.open_receipts, plan, turn)))
            taken.append(len(turn))
            if time.monotonic() > until:
                return

    try:
        async with asyncio.TaskGroup() as lanes:
            for _ in range(LANES):
                lanes.create_task(lane())
    except ExceptionGroup as broken:
        if broken.subgroup(ledger.Outdated) is None:
            raise broken.exceptions[0] from None
        log.warning("run %s: its workflow was chosen for again elsewhere; nothing more is opened here", run_id)
        return
    is_all = sum(taken) == len(plan.items)
    if not is_all and sum(taken) > len(refused):  # else the next part would get no further than this one
        await place.in_settler(partial(enqueue_run, plan.run.pk, plan.run.workflow, goes_on=True))
        return
    if refused:
        raise refused[0]
    await place.in_settler(lambda: runs.end_opening(plan))


@app.task(name="receipts.bulk_replay", queue=QUEUE, retry=AGAIN)
async def bulk_replay(bulk_id: str) -> None:
    """Carry a bulk replay on: a few receipts in flight, the next when one is settled. Then hand over to a new job, so
    that a worker which is told to stop never waits for the end of all of it."""
    place, key, until = runner(), uuid.UUID(bulk_id), time.monotonic() + BULK_SECONDS
    while await place.in_settler(partial(bulk_replays.carry_on, key)):
        if time.monotonic() > until:
            await place.in_settler(partial(enqueue_bulk_replay, key))
            return
        await asyncio.sleep(BULK_PAUSE_SECONDS)


async def _wait(inflight: Inflight | None) -> None:
    if inflight is not None:
        future: Future[Receipt | None] = inflight.future
        await asyncio.wrap_future(future)


@app.periodic(cron="* * * * *")
@app.task(name="receipts.sweep", queue=HOUSEKEEPING, priority=FIRST, queueing_lock="receipts.sweep", pass_context=False)
async def sweep(timestamp: int) -> None:
    """Settle what outlived its deadline, on any worker, once a minute."""
    settled = await runner().in_settler(flow.sweep)
    if settled:
        log.warning("%d receipts settled as abandoned", settled)


@app.periodic(cron="* * * * *")
@app.task(name="receipts.tick", queue=HOUSEKEEPING, priority=FIRST, queueing_lock="receipts.tick", pass_context=False)
async def tick(timestamp: int) -> None:
    """Open the workflow runs that are due, on any worker, once a minute; see those under way to their end."""
    await runner().in_settler(lambda: runs.tick(clock.now()))
    await runner().in_settler(bulk_replays.look_after)


@app.periodic(cron="17 * * * *")
@app.task(name="receipts.purge", queue=HOUSEKEEPING, priority=FIRST, queueing_lock="receipts.purge", pass_context=False)
async def purge(timestamp: int) -> None:
    """Delete sealed inputs that nothing may need any more, and what else has expired, once an hour."""
    await runner().in_settler(ledger.purge_sealed_inputs)
    await runner().in_settler(retention.purge_all)


@app.periodic(cron="* * * * *")
@app.task(
    name="receipts.recover_jobs",
    queue=HOUSEKEEPING,
    priority=FIRST,
    queueing_lock="receipts.recover_jobs",
    pass_context=False,
)
async def recover_jobs(timestamp: int) -> None:
    """Put back the jobs that nobody works on any more, and give one to receipts that have none; the attempts decide for
    themselves what is left to do."""
    found = await runner().in_settler(jobs.put_back)
    if found:
        log.warning("%d jobs put back, whose workers died or lost sight of them", found)
    lost = await runner().in_settler(queued.enqueue_lost)
    if lost:
        log.warning("%d receipts waited without a job, and have one again", lost)
