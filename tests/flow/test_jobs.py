"""Jobs stand or fall with the transaction that enqueues them, on a worker too."""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection, transaction
from django.utils import timezone
from procrastinate.contrib.django import app

from receipts import bulk_replays, jobs, runs
from receipts.bulk_plans import plan
from receipts.models import Receipt
from receipts_project.accounts.models import User
from tests.flow.conftest import Presser
from tests.flow.provider import Provider
from tests.flow.stale import stale_tickets
from tickets.workflows import NIGHTLY_STALE_TICKETS


def queued_jobs() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'receipts.retry_attempt'")
        count: int = cursor.fetchone()[0]
        return count


class TestWorkerSide:
    """While the worker's own asynchronous connector is in use."""

    def on_a_worker(self, receipt: Receipt, *, rolled_back: bool) -> None:
        def settle() -> None:
            try:
                with transaction.atomic():
                    jobs.enqueue_retry(receipt, timezone.now())
                    transaction.set_rollback(rolled_back)
            finally:
                connection.close()

        async def work() -> None:
            async with app.open_async():
                with ThreadPoolExecutor(8) as settlers:
                    settling = [asyncio.wrap_future(settlers.submit(settle)) for _ in range(20)]
                    await asyncio.wait_for(asyncio.gather(*settling), 30)

        with app.replace_connector(app.connector.get_worker_connector()):  # type: ignore[attr-defined]
            asyncio.run(work())

    def test_takes_the_job_back_with_its_transaction(self, press: Presser) -> None:
        self.on_a_worker(press(respond_async=True).receipt, rolled_back=True)

        assert queued_jobs() == 0

    def test_many_threads_enqueue_at_once(self, press: Presser) -> None:
        self.on_a_worker(press(respond_async=True).receipt, rolled_back=False)

        assert queued_jobs() == 20


def order() -> list[str]:
    """Of which receipts the queue gives out the jobs, one after the other; of a run's own job its task."""
    given: list[str] = []
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT id, task_name, args ->> 'receipt_id' FROM procrastinate_fetch_job_v2(NULL, NULL)")
            job, task, receipt = cursor.fetchone()
            if job is None:
                return given
            given.append(receipt or task)
            cursor.execute("SELECT procrastinate_finish_job_v1(%s, 'succeeded', true)", [job])


class TestOrder:
    def test_what_a_lead_asked_for_comes_before_what_a_schedule_opened(self, press: Presser) -> None:
        stale_tickets(3)
        run = runs.choose(runs.open_now(NIGHTLY_STALE_TICKETS))
        assert run
        runs.open_receipts(run, run.items)
        scheduled = [str(receipt.pk) for receipt in Receipt.objects.order_by("created_at")]
        asked_for = str(press(respond_async=True).receipt.pk)

        assert order() == ["receipts.run_workflow", asked_for, *scheduled]

    def test_so_it_does_before_a_bulk_replay(self, press: Presser, operator: User, desk: Provider) -> None:
        desk.fails(400)
        failed = press.settled()
        bulk = bulk_replays.start(user=operator, plan=plan([failed], {"status": "failed"}), reason="It is back.")
        bulk_replays.carry_on(bulk.pk)
        (item,) = bulk.items.all()
        asked_for = str(press(respond_async=True).receipt.pk)

        assert order() == ["receipts.bulk_replay", asked_for, str(item.new_receipt_id)]


class TestIndexes:
    def test_the_minutes_looks_read_by_indexes(self, desk: Provider) -> None:
        """On a backlog of some thousands; sequential scans are made dear, so what still scans has no index."""
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
                " SELECT 'attempts', 'receipts.run_' || CASE WHEN n % 100 = 0 THEN 'workflow' ELSE 'attempt' END,"
                " jsonb_build_object('run_id', n, 'receipt_id', n, 'attempt', 1) FROM generate_series(1, 5000) AS n;"
                " ANALYZE procrastinate_jobs"
            )
        plans: list[str] = []

        def explained(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
            execute(f"EXPLAIN {sql}", parameters, many, context)
            plans.extend(row[0] for row in context["cursor"].fetchall())
            return execute(sql, parameters, many, context)

        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL enable_seqscan = off")
            with connection.execute_wrapper(explained):
                jobs.put_back()
                jobs.without_job(100)
                jobs.is_run_enqueued(uuid.uuid4())
                jobs.failures_of_run(uuid.uuid4())

        assert not [line for line in plans if "Seq Scan" in line], "\n".join(plans)
        for index in ("receipt_pending_by_deadline", "receipt_failed_by", "receipts_job_by_run"):
            assert any(index in line for line in plans), "\n".join(plans)
