"""Real processes of the product, each in a group of its own so that all of it can be killed or frozen at once.

For benchmarks, the soak and the tests that kill. Needs no Django in the process that uses it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from receipts_project.postgres_keeper import PR_SET_PDEATHSIG

ROOT = Path(__file__).resolve().parents[1]
WORKER = ("manage.py", "worker")
WEB = ("-m", "gunicorn", "-c", "receipts_project/gunicorn_config.py")


def eventually(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait for a condition; fails when it never comes true. The seconds only bound a broken run."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)
    return value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(database_url: str, provider_url: str, **more: str) -> dict[str, str]:
    """What a process of the product needs to know, on top of our own environment."""
    return {
        **os.environ,
        "DATABASE_URL": database_url,
        "COMPLETIONS_URL": provider_url,
        "THROTTLE_PRESSES": "none",
        "DJANGO_SETTINGS_MODULE": "receipts_project.settings",
        **more,
    }


def manage(*arguments: str, environ: Mapping[str, str], seconds: float = 120) -> str:
    """Run a command of the product to its end; what it printed. Raises: CalledProcessError, TimeoutExpired."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=dict(environ),
        check=True,
        capture_output=True,
        text=True,
        timeout=seconds,
        start_new_session=True,
    )
    return done.stdout


def end_with_us() -> None:
    """In the child: it does not outlive the thread that started it, whatever ends that (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Process:
    """A Python process of the product, in a group of its own.

    `log`: where its output goes, else nowhere. `bound`: the kernel ends it with the thread that started it.
    """

    def __init__(
        self, *arguments: str, environ: Mapping[str, str], log: Path | None = None, bound: bool = False
    ) -> None:
        with open(log or os.devnull, "ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=dict(environ),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=end_with_us if bound else None,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """To the whole group: a machine that dies or freezes takes all of it."""
        os.killpg(self._process.pid, number)

    def wait(self, seconds: float = 60) -> int:
        """The exit code."""
        return self._process.wait(seconds)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait(30)

    def end(self) -> None:
        if not self.ended:
            self.kill()


def resident_mb(pid: int) -> float:
    """Resident memory of a process now, in MB (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
