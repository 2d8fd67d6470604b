"""Runs attempts apart from the request: a client that hangs up changes nothing.

One background thread with one asyncio loop a process carries every fill in flight; a bounded pool of threads
settles. The loop starts with the first attempt and belongs to the process id, so a forked server worker gets its own.
The exit hook of the server calls `drain`, which lets attempts in flight end.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import queue
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from django.conf import settings
from django.db import connection

from receipts.errors import Overloaded
from receipts.fill import Client
from receipts.models import Receipt

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


Settling = Callable[[], Receipt | None]
"""The settling of an attempt, as the thread that waits for it is given it."""


class Inflight:
    """An attempt that runs in this process: its future row, and what can be told of it meanwhile."""

    def __init__(self, receipt_id: uuid.UUID, number: int) -> None:
        self.receipt_id = receipt_id
        self.number = number
        self.future: Future[Receipt | None] = Future()
        self._lock = threading.Lock()
        self._draft = ""
        self._decision: dict[str, Any] | None = None
        self._listeners: list[queue.SimpleQueue[None]] = []
        self._waiter: Future[Settling | None] | None = None
        self._filling: asyncio.Task[Any] | None = None
        self.stopped = False
        self.future.add_done_callback(lambda _: self._ended())

    def write(self, delta: str) -> None:
        """More of the draft has arrived."""
        with self._lock:
            self._draft += delta
        self._ring()

    def decide(self, proposal: dict[str, Any]) -> None:
        """The proposal has passed the gates."""
        with self._lock:
            self._decision = proposal
        self._ring()

    @contextmanager
    def filling(self) -> Iterator[None]:
        """While the provider writes, and only then, the attempt can be stopped. On the loop."""
        self._filling = asyncio.current_task()
        try:
            yield
        finally:
            self._filling = None

    def stop(self) -> None:
        """End the provider's call, if it is under way; what is being settled is left alone. On the loop."""
        if self._filling is not None:
            self.stopped = True
            self._filling.cancel()

    def so_far(self) -> tuple[str, dict[str, Any] | None]:
        """(draft text so far, validated proposal or None)"""
        with self._lock:
            return self._draft, self._decision

    def listen(self) -> queue.SimpleQueue[None]:
        """A bell that rings when there is more to tell; ring once at the start."""
        bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        bell.put(None)
        with self._lock:
            self._listeners.append(bell)
        return bell

    def unlisten(self, bell: queue.SimpleQueue[None]) -> None:
        with self._lock:
            self._listeners.remove(bell)

    def _ring(self) -> None:
        with self._lock:
            for bell in self._listeners:
                bell.put(None)

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def wait(self, seconds: float) -> Receipt | None:
        """Block until the attempt has ended: the settled row, or None where it could not be settled.

        The first to wait also does the settling, when its turn has come: that thread has nothing else to do, and
        two changes of thread a press are saved. Raises: what broke the attempt; TimeoutError after `seconds`.
        """
        with self._lock:
            if self._waiter is not None or self.future.done():
                offered = None
            else:
                offered = self._waiter = Future()
        if offered is None:
            return self.future.result(seconds)
        try:
            handover = offered.result(seconds)
        except TimeoutError:
            with self._lock:
                if self._waiter is offered:  # not taken yet: from now on it is the pool's to settle
                    self._waiter = None
                    raise
            handover = offered.result()
        return self.future.result(seconds) if handover is None else handover()

    def take_waiter(self) -> Future[Settling | None] | None:
        """The thread that waits for this attempt, if there is one; nobody can offer themselves afterwards."""
        with self._lock:
            waiter, self._waiter = self._waiter, Future()
            return waiter

    def _ended(self) -> None:
        self._ring()
        waiter = self.take_waiter()
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


Attempt = Callable[["Runner", Inflight], Awaitable[Receipt | None]]


class Runner:
    """The loop and the pool of one process."""

    def __init__(self) -> None:
        self.client: Client
        self._free = settings.MAX_IN_FLIGHT
        self._lock = threading.Lock()
        self._inflight: dict[uuid.UUID, Inflight] = {}
        self._draining = False
        self._settling = threading.BoundedSemaphore(settings.SETTLE_THREADS)
        self._settlers = ThreadPoolExecutor(settings.SETTLE_THREADS, thread_name_prefix="settle")
        self._outside = ThreadPoolExecutor(settings.HANDOVER_THREADS, thread_name_prefix="hand-over")
        self._loop = new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="attempts", daemon=True)
        self._thread.start()
        ready.result()

    def _run(self, ready: Future[None]) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open(ready))
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _open(self, ready: Future[None]) -> None:
        self.client = await Client().__aenter__()
        ready.set_result(None)

    async def _close(self) -> None:
        """End what is still under way: its rows stay pending, and the sweep settles them."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.client.__aexit__(None, None, None)

    # ── places ───────────────────────────────────────────────────────────────────────────────────────────────────

    def reserve(self) -> None:
        """Take a place before the receipt is opened.

        Raises: Overloaded when all are taken, or the process is ending.
        """
        with self._lock:
            if self._free <= 0 or self._draining:
                raise Overloaded(retry_after=2)
            self._free -= 1

    def release(self) -> None:
        """Give a place back that no attempt used."""
        with self._lock:
            self._free += 1

    def find(self, receipt_id: uuid.UUID) -> Inflight | None:
        """The attempt of a receipt that runs here, if it runs here."""
        return self._inflight.get(receipt_id)

    def stop(self, receipt_id: uuid.UUID, number: int) -> None:
        """End the provider's call of an attempt that runs here: its row has been settled from outside."""
        inflight = self.find(receipt_id)
        if inflight is not None and inflight.number == number:  # the next attempt may have begun meanwhile
            self._loop.call_soon_threadsafe(inflight.stop)

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, receipt_id: uuid.UUID, number: int, attempt: Attempt) -> Inflight:
        """Run an attempt, the receipt's so-manieth, in a place that was reserved; the place comes back when it ends."""
        inflight = Inflight(receipt_id, number)
        with self._lock:
            self._inflight[receipt_id] = inflight
        self._loop.call_soon_threadsafe(self._spawn, inflight, attempt)
        return inflight

    def _spawn(self, inflight: Inflight, attempt: Attempt) -> None:
        task = self._loop.create_task(self._carry(inflight, attempt))
        self._tasks.add(task)  # the loop itself keeps only weak references
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, inflight: Inflight, attempt: Attempt) -> None:
        answer: Receipt | None = None
        failure: BaseException | None = None
        try:
            answer = await attempt(self, inflight)
        except Exception as error:  # the row stays pending: the sweep settles it
            log.exception("attempt of receipt %s broke", inflight.receipt_id)
            failure = error
        finally:
            with self._lock:
                self._free += 1
                if self._inflight.get(inflight.receipt_id) is inflight:
                    del self._inflight[inflight.receipt_id]
            if failure is not None:
                inflight.future.set_exception(failure)
            else:
                inflight.future.set_result(answer)

    def submit(self, work: Callable[[], Answer]) -> Future[Answer]:
        """Run database work in the bounded pool."""
        return self._settlers.submit(self._bounded, work)

    async def in_settler(self, work: Callable[[], Answer]) -> Answer:
        """The same, awaited on any loop."""
        return await asyncio.wrap_future(self.submit(work))

    async def outside(self, work: Callable[[], Answer]) -> Answer:
        """Run a change outside the database in threads of its own: a slow mail server holds up no settling."""

        def closing() -> Answer:
            try:
                return work()
            finally:
                connection.close()

        return await asyncio.wrap_future(self._outside.submit(closing))

    async def settle(self, inflight: Inflight, work: Settling) -> Receipt | None:
        """Run commit 2 in the thread that waits for this attempt, if one does, else in the bounded pool."""
        waiter = inflight.take_waiter()
        if waiter is None:
            return await self.in_settler(work)
        settled: Future[Receipt | None] = Future()

        def handover() -> Receipt | None:
            try:
                row = self._bounded(work)
            except BaseException as error:
                settled.set_exception(error)
                raise
            settled.set_result(row)
            return row

        waiter.set_result(handover)
        return await asyncio.wrap_future(settled)

    def _bounded(self, work: Callable[[], Answer]) -> Answer:
        """At most SETTLE_THREADS at once, whichever threads they are; the connection goes back afterwards."""
        with self._settling:
            try:
                return work()
            finally:
                connection.close()

    # ── ending ───────────────────────────────────────────────────────────────────────────────────────────────────

    def drain(self, seconds: float) -> int:
        """Take nothing new, wait until what is in flight has ended. How many were still running when time was up.

        Those stay `pending` and are swept once their deadline has passed; nothing of them can be applied any more
        when this process has ended.
        """
        with self._lock:
            if self._draining:
                return 0
            self._draining = True
            futures = [inflight.future for inflight in self._inflight.values()]
        end = time.monotonic() + seconds
        waited = concurrent.futures.wait(futures, timeout=max(0.0, end - time.monotonic()))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._settlers.shutdown(wait=False, cancel_futures=True)
        self._outside.shutdown(wait=False, cancel_futures=True)
        return len(waited.not_done)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it runs, else the standard library's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_runner: Runner | None = None
_pid: int | None = None
_starting = threading.Lock()


def runner() -> Runner:
    """This process's runner, started with the first call."""
    global _runner, _pid
    if _runner is None or _pid != os.getpid():
        with _starting:
            if _runner is None or _pid != os.getpid():
                _runner, _pid = Runner(), os.getpid()
    return _runner


def drain(seconds: float = 35.0) -> int:
    """For the server's exit hook: end this process's runner, if one was started, and take nothing new afterwards.

    See `Runner.drain`.
    """
    return _runner.drain(seconds) if _runner is not None and _pid == os.getpid() else 0


def stop(receipt_id: uuid.UUID, number: int) -> None:
    """End the provider's call of a receipt's attempt, where that runs in this process."""
    if _runner is not None and _pid == os.getpid():
        _runner.stop(receipt_id, number)


def running(receipt_id: uuid.UUID) -> Inflight | None:
    """The attempt of a receipt, where it runs in this process."""
    return _runner.find(receipt_id) if _runner is not None and _pid == os.getpid() else None
