"""Jobs stand or fall with the transaction that enqueues them, on a worker too."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from django.db import connection, transaction
from django.utils import timezone
from procrastinate.contrib.django import app

from receipts import jobs
from receipts.models import Receipt
from tests.flow.conftest import Presser


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
