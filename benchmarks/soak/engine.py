"""One soak: load, faults beside it, then quiet, then the tally."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from benchmarks.processes import Process
from benchmarks.soak.clients import Clients, Press
from benchmarks.soak.mailbox import Mailbox
from benchmarks.soak.plan import Fault, Options, plan
from benchmarks.soak.product import Product
from benchmarks.soak.provider import Provider
from benchmarks.soak.tally import Tally, tally
from benchmarks.soak.watch import Watch

Say = Callable[[str], None]
WORKFLOW = "nightly_stale_tickets"

#: Nothing is under way: no attempt, no retry to come, no job of either, no run of a workflow.
_UNDER_WAY = """
SELECT (SELECT count(*) FROM tool_receipts WHERE status = 'pending'),
       (SELECT count(*) FROM tool_receipts WHERE status = 'failed' AND next_attempt_at > clock_timestamp()),
       (SELECT count(*) FROM procrastinate_jobs WHERE queue_name = 'attempts' AND status IN ('todo', 'doing')),
       (SELECT count(*) FROM runs WHERE finished_at IS NULL AND workflow LIKE 'nightly%' AND parent_id IS NULL)
"""
_JOBS = """
SELECT count(*) || ' ' || task_name || ' ' || status || CASE WHEN scheduled_at > now() THEN ' later' ELSE '' END
FROM procrastinate_jobs WHERE queue_name = 'attempts' AND status IN ('todo', 'doing')
GROUP BY task_name, status, scheduled_at > now()
"""
#: What a worker's minute brings, now. `receipts.recover_jobs` needs what is dead to be dead for longer: heartbeats of
#: workers that are silent, and jobs that began before any attempt that can still be alive.
_HASTEN = """
UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'
WHERE last_heartbeat < now() - interval '15 seconds';
UPDATE procrastinate_events SET at = at - interval '1 hour'
WHERE type = 'started' AND at BETWEEN now() - interval '10 minutes' AND now() - interval '20 seconds';
INSERT INTO procrastinate_jobs (queue_name, task_name, priority, queueing_lock, args)
SELECT 'default', name, 0, name, '{"timestamp": 0}'
FROM unnest(ARRAY['receipts.sweep', 'receipts.recover_jobs', 'receipts.tick']) AS name
ON CONFLICT DO NOTHING
"""
#: The workflows have been on their schedule for two days: last night's slot is due at once.
_OWE_A_SLOT = """
INSERT INTO schedules (workflow, cron, zone, since, seen_at)
SELECT name, cron, 'UTC', now() - interval '2 days', now()
FROM (VALUES ('nightly_stale_tickets', '0 3 * * *'), ('nightly_contact_review', '30 3 * * *')) AS w (name, cron)
"""


@dataclass
class Course:
    """What happened, as far as the soak itself did it."""

    faults: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    """Faults that found nothing to break: the process was down already."""
    load_seconds: float = 0.0
    quiet_after: float | None = None
    """Seconds from the load's end until nothing was under way; None: it did not come to that."""
    left: str = ""
    """What was still under way then."""


def run(options: Options, say: Say = lambda text: None) -> Tally:
    """Raises: EmbeddedPostgresError, TimeoutError where the product does not even start."""
    return asyncio.run(_soak(options, say))


async def _soak(options: Options, say: Say) -> Tally:
    provider, mailbox, course = Provider(options.seed, options.latency), Mailbox(options.seed), Course()
    await provider.open()
    await mailbox.open()
    try:
        async with Product(options, provider.url, mailbox.port) as product:
            desk = await product.desk()
            if options.stale:
                await product.desk("stale", str(options.stale // 2))
                await product.ask(_OWE_A_SLOT)
            await product.start()
            say(f"{options.webs} web processes, {options.workers} workers, PostgreSQL: all up")
            presses = presses_of(options, desk)
            watch = Watch(product)
            bases = [slot.base for slot in product.webs]
            async with Clients(bases, options.seed, options.deadline + 6.0) as clients:
                begun = time.monotonic()
                beside = [
                    asyncio.create_task(watch.run()),
                    asyncio.create_task(_progress(presses, course, provider, begun, say)),
                ]
                chaos = [
                    asyncio.create_task(_break(fault, product, provider, course, begun, say)) for fault in plan(options)
                ]
                if options.stale:
                    chaos.append(asyncio.create_task(_scheduled_run(product, options, course, begun)))
                try:
                    await _load(options, presses, clients, begun)
                    await asyncio.gather(*chaos)
                    course.load_seconds = time.monotonic() - begun
                    say("the load is over, nothing fails any more; waiting until nothing is under way")
                    await _quiet(product, options, course)
                finally:
                    for task in (*beside, *chaos):
                        task.cancel()
                    await asyncio.gather(*beside, *chaos, return_exceptions=True)
                    await provider.shut()
            return await tally(options, course, presses, clients.heard, watch, provider, mailbox, product)
    finally:
        await provider.shut()
        mailbox.shut()


def presses_of(options: Options, desk: dict[str, list[str]]) -> list[Press]:
    """The presses of this seed: half wait for JSON, a quarter reads a stream, a quarter does not wait."""
    chance = random.Random(f"{options.seed} presses")
    return [
        Press(
            name=f"press-{number}",
            token=chance.choice(desk["tokens"]),
            ticket=chance.choice(desk["closed"] if chance.random() < 0.03 else desk["tickets"]),
            what="emails" if chance.random() < 0.15 else "followups",
            way=chance.choice(("json", "json", "stream", "async")),
            twice=chance.random() < 0.05,
        )
        for number in range(options.filings)
    ]


async def _load(options: Options, presses: list[Press], clients: Clients, begun: float) -> None:
    chance = random.Random(f"{options.seed} arrivals")
    arrivals = sorted(chance.uniform(0, options.load_seconds) for _ in presses)

    async def carry(press: Press, at: float) -> None:
        await asyncio.sleep(max(0.0, begun + at - time.monotonic()))
        await clients.carry(press)

    under_way = [asyncio.create_task(carry(press, at)) for press, at in zip(presses, arrivals, strict=True)]
    try:
        _done, left = await asyncio.wait(under_way, timeout=options.load_seconds + options.quiet_seconds)
    finally:
        for task in under_way:
            task.cancel()
    for task in under_way:
        if task not in left and (error := task.exception()):
            raise error


async def _break(fault: Fault, product: Product, provider: Provider, course: Course, begun: float, say: Say) -> None:
    await asyncio.sleep(max(0.0, begun + fault.at - time.monotonic()))
    say(f"{fault.at:5.1f} s  {fault.kind}" + (f", {fault.seconds:.0f} s" if fault.seconds else ""))
    if fault.kind == "outage":
        await provider.outage(fault.seconds)
        done = True
    elif fault.kind == "kill-database":
        done = await product.kill_database(fault.seconds)
    elif fault.kind == "pause":
        done = await product.freeze(product.slots[fault.target % len(product.slots)], fault.seconds)
    else:
        slots = product.webs if fault.kind == "kill-web" else product.workers
        done = bool(slots) and product.kill(slots[fault.target % len(slots)])
    if done:
        course.faults[fault.kind] += 1
    else:
        course.missed += 1


async def _scheduled_run(product: Product, options: Options, course: Course, begun: float) -> None:
    """In the middle of the load more tickets have grown stale, and somebody runs the workflow by hand: three times,
    and the first two are killed while they work."""
    chance = random.Random(f"{options.seed} run")
    await asyncio.sleep(max(0.0, begun + 0.4 * options.load_seconds - time.monotonic()))
    while True:
        with suppress(Exception):  # the database may be down just now
            await product.desk("stale", str(options.stale - options.stale // 2))
            break
        await asyncio.sleep(1)
    for _ in range(2 if "kill-worker" in options.faults else 0):
        process = Process(
            "manage.py", "run_workflow", WORKFLOW, environ=product.environ, log=product.log("run"), bound=True
        )
        try:
            await asyncio.sleep(chance.uniform(3.0, 6.0))
        finally:
            if not process.ended:
                process.kill()
                course.faults["kill-run"] += 1
    for _ in range(5):
        command = ("manage.py", "run_workflow", WORKFLOW, "--no-wait")
        process = Process(*command, environ=product.environ, log=product.log("run"), bound=True)
        while not process.ended:
            await asyncio.sleep(0.2)
        if process.wait() == 0:
            break


async def _quiet(product: Product, options: Options, course: Course) -> None:
    begun = time.monotonic()
    while time.monotonic() < begun + (options.quiet_seconds if not options.hasten else options.quiet_seconds / 4):
        with suppress(psycopg.OperationalError):
            pending, to_come, jobs, runs = (await product.ask(_UNDER_WAY))[0]
            if not (pending or to_come or jobs or runs):
                course.quiet_after = time.monotonic() - begun
                return
            course.left = f"{pending} pending, {to_come} to be retried, {jobs} jobs, {runs} runs"
            if jobs:
                course.left += f" ({'; '.join(row[0] for row in await product.ask(_JOBS))})"
            if options.hasten:
                await product.ask(_HASTEN)
        await asyncio.sleep(2.0 if options.hasten else 1.0)


async def _progress(presses: list[Press], course: Course, provider: Provider, begun: float, say: Say) -> None:
    while True:
        await asyncio.sleep(5)
        outcomes = Counter(press.outcome or "open" for press in presses)
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(course.faults.items()))
        shown = ", ".join(f"{outcomes[name]} {name}" for name in ("applied", "failed", "open") if outcomes[name])
        left = f"; under way: {course.left}" if course.left else ""
        say(f"{time.monotonic() - begun:5.1f} s  {shown}; {provider.in_flight} calls in flight; {faults}{left}")
