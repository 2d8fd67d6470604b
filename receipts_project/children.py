"""Processes that the launcher starts, watches and stops, each with a log of its own.

They stay in the launcher's process group, so a signal to the group reaches all of them, and the kernel ends
each one with the launcher, however that ends (Linux).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from receipts_project.postgres_keeper import PR_SET_PDEATHSIG

SHOWN_LINES = 12
SHOWN_BYTES = 8192


class Child:
    """One process.

    Args:
        name: what the person at the terminal reads; also the log's name.
        stop_signal: what asks it to stop. SIGKILL for one that has nothing to finish: SIGTERM, which may reach
            the whole group before those who still need it are done, is then not for it either.
        stop_seconds: how long it may take before it is killed.

    Raises: OSError where the log cannot be written.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        logs: Path,
        environ: Mapping[str, str],
        stop_signal: signal.Signals = signal.SIGTERM,
        stop_seconds: float = 10.0,
    ) -> None:
        self.name = name
        self.log = logs / f"{name.replace(' ', '-')}.log"
        self.stop_signal = stop_signal
        self.stop_seconds = stop_seconds
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))  # the last run's, for one run
        # Ctrl-C and a closed terminal reach the whole group. Blocked rather than ignored: a program that sets
        # handlers of its own, as gunicorn does to drop what is in flight, does not lift a block.
        not_for_it = {signal.SIGINT, signal.SIGHUP}
        if stop_signal is signal.SIGKILL:
            not_for_it.add(signal.SIGTERM)

        def in_child() -> None:
            signal.pthread_sigmask(signal.SIG_BLOCK, not_for_it)
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**environ, "PYTHONUNBUFFERED": "1"},
                preexec_fn=in_child,  # the launcher has one thread
            )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def how_it_ended(self) -> str:
        """`status 1`, `signal SIGKILL`, or `running`."""
        status = self.process.poll()
        if status is None:
            return "running"
        return f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"

    def last_lines(self) -> str:
        """The end of its log, indented."""
        with open(self.log, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - SHOWN_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-SHOWN_LINES:])

    def ask_to_stop(self) -> None:
        if not self.ended:
            self.process.send_signal(self.stop_signal)

    def kill(self) -> None:
        if not self.ended:
            self.process.kill()
        self.process.wait()

    def wait(self, seconds: float) -> bool:
        """Did it end within that time?"""
        give_up_at = time.monotonic() + seconds
        while not self.ended:
            if time.monotonic() > give_up_at:
                return False
            time.sleep(0.02)
        return True
