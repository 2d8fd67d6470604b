"""The processes of a journey: two providers that share no line of code, and the product's web process.

The built-in stand-in is ours; llmock is a mock server by others, which fills the schema that it is sent. A journey
asks both for the same few things: start, stop, count your calls, answer for another ticket.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import httpx

from receipts_project.children import Child
from tests.flow.web import ROOT, eventually, free_port

#: Who starts the tests may have a provider of their own; nothing of it may reach a journey.
NOT_INHERITED = ("COMPLETIONS_", "LLMOCK_", "STANDIN_PROVIDER")
OTHER_TICKET = "TCK-1009"


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}


class Process:
    """One process with a log of its own. It is ended by its pid, and the kernel ends it with the test run (Linux)."""

    def __init__(self, name: str, *arguments: str, logs: Path, environ: Mapping[str, str]) -> None:
        self._child = Child(
            name,
            [sys.executable, *arguments],
            logs=logs,
            environ={**environ, "PYTHONPATH": str(ROOT)},
            stop_signal=signal.SIGTERM,
        )

    def wait_until(self, ready: Callable[[], Any]) -> Any:
        """What `ready` says once it is true; fails with the process's last lines where it ends before."""

        def look() -> Any:
            found = ready()
            assert found or not self._child.ended, f"{self._child.name} ended:\n{self._child.last_lines()}"
            return found

        return eventually(look)

    def said(self, pattern: str) -> str | None:
        """The first match in what it has printed so far."""
        found = re.search(pattern, self._child.log.read_text(errors="replace"), re.MULTILINE)
        return found[0] if found else None

    def stop(self) -> None:
        """Ask it to end, wait, and kill it if it does not."""
        self._child.ask_to_stop()
        if not self._child.wait(self._child.stop_seconds):
            self._child.kill()


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


class Provider(Protocol):
    """What a journey needs of a provider, whoever wrote it."""

    model: str
    """What it calls itself in its answers."""
    url: str
    """Where completions are posted to; the same after a stop and a start."""
    settings: dict[str, str]
    """All that a deployment sets to use it."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def reset(self) -> None:
        """Forget what earlier tests asked."""

    def calls(self) -> int:
        """Completions asked of it since the last reset or start."""

    def aims_elsewhere(self, notes: str) -> str:
        """Have the answer to the next press name OTHER_TICKET; the notes to press with."""


class StandIn:
    """Ours, as `manage.py standin_provider` runs it. It reads what it should do in the notes."""

    model = "standin"

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._port = 0
        self._counted_before = 0

    def start(self) -> None:
        # fast, but slow enough that a stream has a draft to tell of
        options = ("--port", str(self._port), "--delay", "0.2", "--pace", "60")
        manage = str(ROOT / "manage.py")
        self._process = Process(
            "stand-in", manage, "standin_provider", *options, logs=self._logs, environ=clean_environment()
        )
        self.url: str = self._process.wait_until(lambda: self._process.said(r"^http://\S+"))
        self._port = httpx.URL(self.url).port or 0
        self._counted_before = 0
        self.settings = {"COMPLETIONS_URL": self.url}

    def stop(self) -> None:
        self._process.stop()

    def reset(self) -> None:
        self._counted_before += self.calls()

    def calls(self) -> int:
        count: int = httpx.get(httpx.URL(self.url).join("/calls")).json()["calls"]
        return count - self._counted_before

    def aims_elsewhere(self, notes: str) -> str:
        return f"{notes} standin: arg_mismatch"


class LLMock:
    """By others: its arguments are made up from the schema in the request, unless a reply is scripted."""

    model = "gpt-4o"

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._port = free_port()
        self._base = f"http://127.0.0.1:{self._port}"
        self.url = f"{self._base}/v1/chat/completions"
        self.settings = {"COMPLETIONS_URL": self.url, "COMPLETIONS_MODEL": self.model}

    def start(self) -> None:
        serve = ("-c", "from llmock.cli import app; app()", "serve", "--host", "127.0.0.1", "--port", str(self._port))
        pace = ("--latency-ms", "100", "--stream-chunk-delay-ms", "30")
        self._process = Process("llmock", *serve, *pace, logs=self._logs, environ=clean_environment())
        self._process.wait_until(lambda: answers(f"{self._base}/health"))

    def stop(self) -> None:
        self._process.stop()

    def reset(self) -> None:
        httpx.post(f"{self._base}/_llmock/reset").raise_for_status()

    def requests(self) -> list[dict[str, Any]]:
        """Everything it was asked, with the bodies, oldest first."""
        found: list[dict[str, Any]] = httpx.get(f"{self._base}/_llmock/requests").json()["requests"]
        return found

    def calls(self) -> int:
        return len(self.requests())

    def script(self, **behavior: Any) -> None:
        """What it does at the next request: `type="reply"`, `"fail"`, `"stream_fault"` and their fields."""
        httpx.post(f"{self._base}/_llmock/scenario", json={"behaviors": [behavior]}).raise_for_status()

    def aims_elsewhere(self, notes: str) -> str:
        self.script(
            type="reply",
            text=f'{{"ticket_id": "{OTHER_TICKET}", "summary": "Close this one instead.", "assignee": "ada"}}',
        )
        return notes


class Web:
    """The product, served as `make run` serves it. `settings` is all that a provider may change."""

    def __init__(self, settings: Mapping[str, str], *, logs: Path, database_url: str) -> None:
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        environ = {
            **clean_environment(),
            "DATABASE_URL": database_url,
            "DJANGO_SETTINGS_MODULE": "receipts_project.settings",
            "HOST": "127.0.0.1",
            "PORT": str(port),
            "THROTTLE_PRESSES": "none",
            **settings,
        }
        config = str(ROOT / "receipts_project" / "gunicorn_config.py")
        self._process = Process("web", "-m", "gunicorn", "--config", config, logs=logs, environ=environ)
        self._worker = Process("worker", str(ROOT / "manage.py"), "worker", logs=logs, environ=environ)
        self._process.wait_until(lambda: answers(f"{self.base}/livez"))

    def stop(self) -> None:
        self._worker.stop()
        self._process.stop()
