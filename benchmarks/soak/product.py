"""The product under soak: a private PostgreSQL, web processes and workers, each started again when it has ended."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import psycopg

from benchmarks.processes import ROOT, WEB, WORKER, Process, environment, free_port, manage
from benchmarks.soak.plan import Options, skew_of
from receipts_project import embedded_postgres

#: A supervisor's moment before it starts again what has ended.
PAUSE_BEFORE_START = 0.5
SKEWED = Path(__file__).parent / "skewed"


class Slot:
    """One place for a process: somebody starts it again whenever it has ended."""

    def __init__(self, name: str, *arguments: str, port: int | None = None) -> None:
        self.name = name
        self.arguments = arguments
        self.port = port
        self.process: Process | None = None
        self.starts = 0
        self.frozen = False

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        return self.process is not None and not self.process.ended


class Product:
    """All of it. Use as an async context; leaves nothing behind. `more`: settings that win over the soak's."""

    def __init__(self, options: Options, provider_url: str, mail_port: int = 0, **more: str) -> None:
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="receipts-soak-"))
        self.folder.chmod(0o711)  # as root, the user that PostgreSQL runs as must get through
        self.slots = [
            *(Slot(f"web-{n}", *WEB, port=free_port()) for n in range(1, options.webs + 1)),
            *(Slot(f"worker-{n}", *WORKER) for n in range(1, options.workers + 1)),
        ]
        self.ended_by_themselves: Counter[str] = Counter()
        """Processes that nobody killed, and that ended all the same, with their last words."""
        self.server: embedded_postgres.Server
        self.environ: dict[str, str] = {}
        self._provider_url = provider_url
        self._mail_port = mail_port
        self._more = more
        self._killed: set[int] = set()
        self._one_at_a_time = asyncio.Lock()
        self._supervising: asyncio.Task[None] | None = None

    @property
    def webs(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.port]

    @property
    def workers(self) -> list[Slot]:
        return [slot for slot in self.slots if not slot.port]

    # ── starting and ending ──────────────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Product:
        try:
            # durable: a killed server must keep what it has confirmed
            self.server = await asyncio.to_thread(embedded_postgres.ensure, self.folder / "data")
            self.environ = environment(
                self.server.dsn,
                self._provider_url,
                DATA_DIR=str(self.folder / "product"),
                FILL_BUDGET_SECONDS=str(self.options.fill_budget),
                ATTEMPT_DEADLINE_SECONDS=str(self.options.deadline),
                RETRY_ATTEMPTS="12",
                RETRY_FIRST_SECONDS="0.5",
                RETRY_MAX_SECONDS="4",
                DATABASE_POOL_SIZE="6",
                EMAIL_URL=f"smtp://127.0.0.1:{self._mail_port}",
                EMAIL_TIMEOUT="3",
                DEFAULT_FROM_EMAIL="Support <support@soak.example>",
                RECEIPTS_SUPERVISED="1",
                LOG_LEVEL="WARNING",
                PYTHONUNBUFFERED="1",
            )
            self.environ |= self._more
            (self.folder / "product").mkdir()
            await asyncio.to_thread(manage, "migrate", "--no-input", "--verbosity", "0", environ=self.environ)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._supervising is not None:
            self._supervising.cancel()
            with suppress(asyncio.CancelledError):
                await self._supervising
        for slot in self.slots:
            if slot.process is not None:
                slot.process.end()
        if hasattr(self, "server"):
            await asyncio.to_thread(self.server.stop)
            await asyncio.to_thread(embedded_postgres.remove, self.folder / "data")
        shutil.rmtree(self.folder, ignore_errors=True)

    async def desk(self, *arguments: str) -> Any:
        """Run `benchmarks.soak.desk` and read what it printed."""
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "benchmarks.soak.desk", *arguments],
            cwd=ROOT,
            env=self.environ,
            check=True,
            capture_output=True,
            text=True,
            start_new_session=True,
        )
        return json.loads(done.stdout)

    async def start(self) -> None:
        """Start every process and wait until the web ones answer."""
        for slot in self.slots:
            self._begin(slot)
        self._supervising = asyncio.create_task(self._supervise())
        async with aiohttp.ClientSession() as session:
            for slot in self.webs:
                await self.until(lambda slot=slot: self._answers(session, slot), 60, f"{slot.name} does not answer")

    @staticmethod
    async def _answers(session: aiohttp.ClientSession, slot: Slot) -> bool:
        try:
            async with session.get(f"{slot.base}/livez") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    @staticmethod
    async def until(condition: Callable[[], Awaitable[bool]], seconds: float, otherwise: str) -> None:
        """Raises: TimeoutError."""
        give_up_at = time.monotonic() + seconds
        while not await condition():
            if time.monotonic() > give_up_at:
                raise TimeoutError(otherwise)
            await asyncio.sleep(0.1)

    def _begin(self, slot: Slot) -> None:
        slot.starts += 1
        environ = dict(self.environ)
        if slot.port:
            environ["PORT"] = str(slot.port)
        if skew := skew_of(self.options, slot.name, slot.starts):
            environ |= {"SOAK_CLOCK_SKEW_SECONDS": str(skew), "PYTHONPATH": str(SKEWED)}
        slot.process = Process(*slot.arguments, environ=environ, log=self.log(slot.name), bound=True)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            for slot in self.slots:
                if slot.process is None or not slot.process.ended:
                    continue
                if slot.process.pid not in self._killed:
                    words = self.log(slot.name).read_text(errors="replace").strip().rpartition("\n")[2]
                    self.ended_by_themselves[f"{slot.name.partition('-')[0]} ({words[:100]})"] += 1
                slot.process = None
                asyncio.get_running_loop().call_later(PAUSE_BEFORE_START, self._again, slot)

    def _again(self, slot: Slot) -> None:
        if self._supervising is not None and not self._supervising.done() and slot.process is None:
            self._begin(slot)

    # ── what is done to it ───────────────────────────────────────────────────────────────────────────────────────

    def kill(self, slot: Slot) -> bool:
        """SIGKILL to a process and its children. False: there was nothing to kill."""
        if slot.process is None or slot.process.ended:
            return False
        self._killed.add(slot.process.pid)
        slot.frozen = False
        slot.process.signal(signal.SIGKILL)
        return True

    async def freeze(self, slot: Slot, seconds: float) -> bool:
        """SIGSTOP, and SIGCONT after so many seconds. False: it was not there, or is frozen already."""
        if slot.process is None or slot.process.ended or slot.frozen:
            return False
        process = slot.process
        slot.frozen = True
        process.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            slot.frozen = False
            with suppress(ProcessLookupError):
                process.signal(signal.SIGCONT)
        return True

    async def kill_database(self, seconds: float) -> bool:
        """SIGKILL to PostgreSQL's postmaster; started again a moment later. False: it was down already."""
        async with self._one_at_a_time:  # a server that is just being started again is let come up first
            pid = embedded_postgres.postmaster(self.server.place)
            if pid is None:
                return False
            os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self._revive)
            return True

    def _revive(self) -> None:
        give_up_at = time.monotonic() + 20
        while not self.server.ended and time.monotonic() < give_up_at:
            time.sleep(0.02)
        self.server.stop()
        self.server = embedded_postgres.ensure(self.folder / "data")

    # ── asking it ────────────────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows, from a connection of our own. Raises: psycopg.OperationalError while the database is down."""
        async with await psycopg.AsyncConnection.connect(
            self.server.dsn, autocommit=True, connect_timeout=5, application_name="soak"
        ) as connection:
            cursor = await connection.execute(sql, parameters or None)
            return await cursor.fetchall() if cursor.description else []

    def tracebacks(self) -> Counter[str]:
        """Last lines of the stack traces in the processes' logs, counted."""
        found: Counter[str] = Counter()
        for log in self.folder.glob("*.log"):
            inside = False
            for line in log.read_text(errors="replace").splitlines():
                if line.startswith("Traceback"):
                    inside = True
                elif inside and line and not line.startswith((" ", "\t")):
                    found[line[:160]] += 1
                    inside = False
        return found
