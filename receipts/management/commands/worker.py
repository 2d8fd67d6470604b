"""`manage.py worker`: carries queued attempts, retries, sweeps and schedules. Any number, on any machines."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from procrastinate.contrib.django import app

from receipts import checks, clock, runner

#: As the web process: an attempt ends within 30 s; settling it takes moments.
DRAIN_SECONDS = 35.0


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
            help=f"attempts in flight at once ({settings.MAX_IN_FLIGHT})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        checks.require_sound()
        name = f"{socket.gethostname()}:{os.getpid()}"
        self.stdout.write(f"worker {name}, up to {options['concurrency']} attempts at once; Ctrl-C ends it")
        clock.now()  # asked here, since a job that fails is put off where nothing may be asked
        connection.close()
        with app.replace_connector(app.connector.get_worker_connector()):  # type: ignore[attr-defined]
            asyncio.run(self.work(name, options["concurrency"]))
        runner.drain(DRAIN_SECONDS)

    async def work(self, name: str, concurrency: int) -> None:
        async with app.open_async():
            await app.run_worker_async(
                name=name,
                concurrency=concurrency,
                shutdown_graceful_timeout=DRAIN_SECONDS,
                fetch_job_polling_interval=1.0,
                # the receipt is the history; a table of finished jobs only slows the queue down
                delete_jobs="successful",
            )
