"""`manage.py worker`: carries queued attempts, retries, sweeps and schedules. Any number, on any machines."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from procrastinate.contrib.django import app
from procrastinate.exceptions import ConnectorException

from receipts import checks, clock, jobs, runner

log = logging.getLogger(__name__)

#: As the web process: an attempt ends within 30 s; settling it takes moments.
DRAIN_SECONDS = 35.0
#: How often a worker comes back to a queue that it lost, and how long it waits before.
COMEBACKS, COMEBACK_SECONDS = 5, 2.0
#: The sweep, the tick, the recovery and the purge, each in a place that attempts cannot take.
HOUSEKEEPERS = 4


class Command(BaseCommand):
    help = (
        "Runs a worker until SIGTERM or Ctrl-C: queued attempts, system retries, sweeps, schedules. It then takes "
        "nothing new, lets what is in flight end, and gives the rest back to the queue."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--concurrency",
            type=int,
            default=settings.MAX_IN_FLIGHT,
            help=f"attempts in flight at once, 1 to MAX_IN_FLIGHT ({settings.MAX_IN_FLIGHT})",
        )

    def handle(self, *args: Any, concurrency: int, **options: Any) -> None:
        if not 1 <= concurrency <= settings.MAX_IN_FLIGHT:
            raise CommandError(
                f"--concurrency is 1 to {settings.MAX_IN_FLIGHT}, and not {concurrency}: MAX_IN_FLIGHT says how many "
                "attempts one process has places for."
            )
        checks.require_sound()
        name = f"{socket.gethostname()}:{os.getpid()}"
        self.stdout.write(f"worker {name}, up to {concurrency} attempts at once; Ctrl-C ends it")
        if failed := jobs.failed_for_good():
            self.stdout.write(
                f"{failed} job{'' if failed == 1 else 's'} failed for good of late; the console lists them"
            )
        clock.now()  # asked here, since a job that fails is put off where nothing may be asked
        connection.close()
        with app.replace_connector(app.connector.get_worker_connector()):  # type: ignore[attr-defined]
            asyncio.run(self.work(name, concurrency))
        runner.drain(DRAIN_SECONDS)

    async def work(self, name: str, concurrency: int) -> None:
        """Two of the library's workers in one process: however many attempts wait or run, the minute's work goes on."""
        async with app.open_async():
            workers = [
                asyncio.create_task(carry(jobs.QUEUE, name=name, concurrency=concurrency)),
                asyncio.create_task(carry(jobs.HOUSEKEEPING, name=f"{name} housekeeping", concurrency=HOUSEKEEPERS)),
            ]
            stop_on_signals(workers)
            await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)  # one that breaks takes the other along
            for worker in workers:
                if not worker.cancelling():  # a second time would end what it lets end
                    worker.cancel()
            for ended in await asyncio.gather(*workers, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended


async def carry(queue: str, *, name: str, concurrency: int) -> None:
    """Work on a queue until cancelled; then take nothing new, and let what is under way end.

    Who was frozen or cut off from the database may find itself struck off the list of workers: it comes back under a
    new number, a few times. Raises: ConnectorException where that does not help.
    """
    for left in reversed(range(COMEBACKS)):
        try:
            await app.run_worker_async(
                queues=[queue],
                name=name,
                concurrency=concurrency,
                shutdown_graceful_timeout=DRAIN_SECONDS,
                fetch_job_polling_interval=1.0,
                # the receipt is the history; a table of finished jobs only slows the queue down
                delete_jobs="successful",
                install_signal_handlers=False,
            )
            return
        except ConnectorException as error:
            if not left:
                raise
            log.warning("the queue was lost (%s); coming back to it", type(error.__cause__ or error).__name__)
            await asyncio.sleep(COMEBACK_SECONDS)


def stop_on_signals(workers: list[asyncio.Task[None]], say: Callable[[], None] | None = None) -> None:
    """The first signal lets what is under way end; the second one ends at once, as Python does."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if say is not None:
            say()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        for worker in workers:
            worker.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
