"""`manage.py run_workflow NAME`: a workflow's run, now, with its progress on the terminal; `--dry-run` only looks."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
import uuid
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.utils import timezone
from procrastinate.contrib.django import app

from receipts import checks, ledger, runner, runs, workflows
from receipts.jobs import QUEUE, is_run_enqueued
from receipts.management.commands.worker import DRAIN_SECONDS, carry, stop_on_signals
from receipts.models import Run
from receipts.told import API, run_progress
from receipts.workflows import Workflow

#: Subjects that a dry run names.
SHOWN = 20
#: Between two looks at the ledger; between two lines where no terminal can redraw one.
LOOK_SECONDS, LINE_SECONDS = 0.5, 5.0
BAR = 24
#: As a shell says that Ctrl-C ended something.
INTERRUPTED = 130


class Command(BaseCommand):
    help = (
        "Runs a scheduled workflow now, beside its schedule: opens its receipts, works on them as a worker does, and "
        "shows how far it is. Ctrl-C takes nothing new and leaves the rest to the workers. Ends with status 0 when all "
        "were applied."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help=", ".join(workflows.registry.names()))
        parser.add_argument("--dry-run", action="store_true", help="say which tickets it would take, and write nothing")
        parser.add_argument("--no-wait", action="store_true", help="open the run, and leave all of it to the workers")

    def handle(self, *args: Any, name: str, dry_run: bool, no_wait: bool, **options: Any) -> None:
        try:
            workflow = workflows.registry.get(name)
        except KeyError:
            known = ", ".join(workflows.registry.names())
            raise CommandError(f"There is no workflow {name}. There are: {known}.") from None
        if dry_run:
            self.look(workflow)
            return
        checks.require_sound()
        run_id = runs.open_now(workflow)
        self.stdout.write(f"{workflow.title}\nrun {run_id}")
        if no_wait:
            self.stdout.write(f"The workers carry it out; see {where(run_id)}")
            return
        sys.exit(self.carry(run_id))

    def look(self, workflow: Workflow) -> None:
        shown, count = [], 0
        for count, item in enumerate(workflow.subjects(timezone.now()), 1):
            if count <= SHOWN:
                shown.append(item.subject)
        more = [f"… and {count - SHOWN} more"] if count > SHOWN else []
        self.stdout.write("\n".join([*shown, *more, f"{count} tickets; nothing was written"]))

    # ── carrying ─────────────────────────────────────────────────────────────────────────────────────────────────

    def carry(self, run_id: uuid.UUID) -> int:
        """Work until the run has ended or somebody stops us. The exit status."""
        connection.close()
        with app.replace_connector(app.connector.get_worker_connector()):  # type: ignore[attr-defined]
            asyncio.run(self.work(run_id))
        runner.drain(DRAIN_SECONDS)
        progress = run_progress(Run.objects.get(pk=run_id))
        self.tell_end(progress)
        if progress["finished_at"] is None:
            if look_at(run_id)["given_up"]:
                self.stdout.write("Not all of its receipts could be opened; the workers try again, a few times.")
                return 1
            self.stdout.write(f"Stopped. What is queued stays queued for the workers; see {where(run_id)}")
            return INTERRUPTED
        return 0 if progress["applied"] == progress["planned"] else 1

    async def work(self, run_id: uuid.UUID) -> None:
        async with app.open_async():
            name = f"run_workflow {socket.gethostname()}:{os.getpid()}"
            worker = asyncio.create_task(carry(QUEUE, name=name, concurrency=settings.MAX_IN_FLIGHT))
            stop_on_signals([worker], self.say_stopping)
            watcher = asyncio.create_task(self.watch(run_id))
            # the worker ends first when a signal has stopped it, or with an error
            await asyncio.wait((worker, watcher), return_when=asyncio.FIRST_COMPLETED)
            for task in (worker, watcher):
                if not task.cancelling():  # a second time would end what the worker lets end
                    task.cancel()
            for ended in await asyncio.gather(worker, watcher, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended

    def say_stopping(self) -> None:
        self.stdout.write(f"\nStopping: what is being drafted may end ({DRAIN_SECONDS:.0f} s at most).")
        self.stdout.flush()

    async def watch(self, run_id: uuid.UUID) -> None:
        """Show how far the run is, until it has ended, or its job has failed for good: its log says why.

        The end is noticed here rather than with the next tick.
        """
        line = Line(self.stdout)
        while True:
            progress = await runner.runner().in_settler(lambda: look_at(run_id))
            line.show(progress)
            if progress["finished_at"] is not None or progress["given_up"]:
                line.end(progress)
                return
            await asyncio.sleep(LOOK_SECONDS)

    def tell_end(self, progress: dict[str, Any]) -> None:
        left = progress["pending"] + progress["retrying"]
        self.stdout.write(
            f"{progress['applied']} applied, {progress['failed']} failed"
            + (f", {left} under way" if left else "")
            + f", of {progress['planned'] or 0}"
        )
        for failure in progress["failures"]:
            again = " (will be retried)" if failure["retrying"] else ""
            self.stdout.write(f"  {failure['receipts']} × {failure['sentence']}{again}")


def look_at(run_id: uuid.UUID) -> dict[str, Any]:
    """The run's progress, and whether it is `given_up` before all were opened; stamps its end where all is settled."""
    enqueued = is_run_enqueued(run_id)  # asked first: the job ends after its last receipt
    run = Run.objects.get(pk=run_id)
    progress = run_progress(run)
    if run.planned is not None and not progress["pending"] and not progress["retrying"] and ledger.finish_run(run_id):
        progress = run_progress(Run.objects.get(pk=run_id))
    opening = run.planned is None or progress["opened"] < run.planned
    return progress | {"given_up": opening and not enqueued and progress["finished_at"] is None}


def where(run_id: uuid.UUID) -> str:
    return f"{API}/runs/{run_id}"


class Line:
    """Progress in words: one line that is redrawn on a terminal, a new line every few seconds elsewhere."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self._redraws = out.isatty()
        self._begun = time.monotonic()
        self._last = -LINE_SECONDS

    def show(self, progress: dict[str, Any]) -> None:
        seconds = time.monotonic() - self._begun
        if self._redraws:
            self._out.write(f"\r\x1b[2K{words(progress, seconds)}", ending="")
            self._out.flush()
        elif seconds - self._last >= LINE_SECONDS:
            self._last = seconds
            self._out.write(words(progress, seconds))
            self._out.flush()

    def end(self, progress: dict[str, Any]) -> None:
        """The last look, which stays."""
        self._out.write("" if self._redraws else words(progress, time.monotonic() - self._begun))


def words(progress: dict[str, Any], seconds: float) -> str:
    """`[######······] 120 of 400  118 applied, 2 failed, 80 pending  25/s, 11 s left`"""
    planned, settled = progress["planned"], progress["applied"] + progress["failed"]
    if planned is None:
        return "choosing"
    full = BAR if not planned else BAR * settled // planned
    parts = [
        f"[{'#' * full}{'·' * (BAR - full)}] {settled} of {planned}",
        ", ".join(
            f"{progress[name]} {name}" for name in ("applied", "failed", "retrying", "pending") if progress[name]
        ),
    ]
    rate = settled / seconds if seconds > 0 else 0.0
    if rate and settled < planned:
        parts.append(f"{rate:.0f}/s, {(planned - settled) / rate:.0f} s left")
    return "  ".join(filter(None, parts))
