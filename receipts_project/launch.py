"""`make run`: everything that the product needs, in one process group, until Ctrl-C.

Order of things: checks, PostgreSQL, stand-in provider, migrations, demo data, worker, web. Stopping goes the other
way, and the web process first finishes what it has begun.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

from receipts_project import embedded_postgres, instance
from receipts_project.children import Child
from receipts_project.embedded_postgres import EmbeddedPostgresError, Server, ensure
from receipts_project.environment import load_settings
from receipts_project.generated_secrets import make_password, read_or_create
from receipts_project.launch_checks import (
    LaunchError,
    require_free_port,
    require_given_database,
    require_port,
    require_writable,
)

USERS = ("lead", "lead2", "auditor", "operator", "admin")
DEFAULT_HOST = "127.0.0.1"
READY_SECONDS = 120.0
STANDIN_SECONDS = 30.0
REVIVALS = 3  # what ends PostgreSQL more often than this needs a person
REVIVAL_SECONDS = 30.0  # within which a worker may notice, and end
WEB_STOP_SECONDS = 45.0  # gunicorn's graceful timeout, and what it takes to leave
HELP = """\
environment:
  PORT             where the pages are (8000)
  HOST             the address to listen on (127.0.0.1); other hosts also need ALLOWED_HOSTS
  DATA_DIR         data, logs and generated secrets (var)
  DATABASE_URL     a PostgreSQL of yours, instead of the embedded one
  COMPLETIONS_URL  a chat-completions endpoint, instead of the built-in stand-in
  DEMO_PASSWORD    the demo users' password; generated once where it is not set
"""


class StoppedError(Exception):
    """Ctrl-C or SIGTERM, before everything ran."""


class Launcher:
    """The processes of one instance."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.environ = environ
        self.data_dir = instance.data_dir_of(environ)
        self.host = environ.get("HOST") or DEFAULT_HOST
        self.port = require_port(environ)
        self.began = time.monotonic()
        self.database: Server | None = None
        self.standin_url: str | None = None
        self.children: list[Child] = []
        """Running, in the order in which they were started; stopped in the opposite order."""
        self.signals = 0
        self.revived = 0
        self.workers_revived = 0
        """How often PostgreSQL was started again."""
        self.revived_at = float("-inf")

    # ── starting
    # ──────────────────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        """Raises: LaunchError; SystemExit with the sentence of a setting that cannot be meant."""
        require_free_port(self.host, self.port)
        require_writable(self.data_dir)
        require_given_database(self.environ)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "receipts_project.settings")
        load_settings()

    def start(self) -> None:
        """Raises: LaunchError, EmbeddedPostgresError, StoppedError."""
        self.environ |= {
            "DJANGO_SETTINGS_MODULE": "receipts_project.settings",
            "DATA_DIR": str(self.data_dir),
            "HOST": self.host,
            "PORT": str(self.port),
            "DEMO_PASSWORD": self.password(),
            "RECEIPTS_SUPERVISED": "1",
            "DEMO_DATA": "1",
        }
        self.start_database()
        self.start_standin()
        # Two at a time: neither needs the other.
        static = self.begin("static", *manage("collectstatic", "--no-input", "--verbosity", "0"))
        self.finish("migrations", self.begin("migrate", *manage("migrate", "--no-input")))
        self.finish("demo data", self.begin("seed_demo", *manage("seed_demo")))
        self.finish("static files", static)
        if self.standin_url is None and not self.environ.get("COMPLETIONS_URL"):
            self.await_standin()
        self.children.append(self.begin_worker())
        self.start_web()

    def password(self) -> str:
        return self.environ.get("DEMO_PASSWORD") or read_or_create(self.data_dir, "demo_password", make_password)

    def start_database(self) -> None:
        if self.environ.get("DATABASE_URL"):
            self.say("database: the one that DATABASE_URL names")
            return
        self.database = ensure(self.data_dir)
        self.environ["DATABASE_URL"] = self.database.dsn
        self.say("database: embedded PostgreSQL" + ("" if self.database.started else ", which ran already"))

    def start_standin(self) -> None:
        if self.environ.get("COMPLETIONS_URL"):
            return
        self.keep("stand-in provider", *manage("standin_provider", "--port", "0"), stop_signal=signal.SIGKILL)

    def await_standin(self) -> None:
        """The first line that it prints is its URL; the port is whichever was free."""
        standin = self.children[0]

        def find() -> bool:
            match = re.search(r"^https?://\S+", standin.log.read_text(errors="replace"), re.MULTILINE)
            self.standin_url = match[0] if match else None
            return match is not None

        self.wait_for(find, STANDIN_SECONDS, "the stand-in provider's address")
        assert self.standin_url is not None  # noqa: S101 - for the type checker: wait_for returned
        self.environ |= {"COMPLETIONS_URL": self.standin_url, "STANDIN_PROVIDER": "true"}
        instance.note_standin(self.data_dir, self.standin_url)
        self.say(f"model provider: the built-in stand-in, {self.standin_url}")

    def start_web(self) -> None:
        config = "python:receipts_project.gunicorn_config"
        self.keep("web", "-m", "gunicorn", "--config", config, stop_seconds=WEB_STOP_SECONDS)
        self.wait_for(self.is_ready, READY_SECONDS, "the web process's /readyz")

    def begin_worker(self) -> Child:
        return self.begin("worker", *manage("worker"), stop_seconds=WEB_STOP_SECONDS)

    def is_ready(self) -> bool:
        """Does our own web process say so? Before it listens, somebody who took the port meanwhile could answer."""
        if "Listening at" not in self.children[-1].log.read_text(errors="replace"):
            return False
        address = {"0.0.0.0": DEFAULT_HOST, "::": "::1"}.get(self.host, self.host)  # noqa: S104 - read, not bound
        connection = http.client.HTTPConnection(address, self.port, timeout=5)
        try:
            connection.request("GET", "/readyz", headers={"Host": "localhost"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    # ── processes
    # ─────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, name: str, *arguments: str, **options: float | signal.Signals) -> Child:
        """Start one of our Python processes."""
        self.stop_if_asked()
        return Child(
            name,
            [sys.executable, *arguments],
            logs=self.data_dir / "logs",
            environ=self.environ,
            **options,  # type: ignore[arg-type]
        )

    def keep(self, name: str, *arguments: str, **options: float | signal.Signals) -> None:
        """Start one that has to run as long as we do."""
        self.children.append(self.begin(name, *arguments, **options))

    def finish(self, what: str, step: Child) -> None:
        """Wait for a process that has to end well. Raises: LaunchError, StoppedError."""
        began = time.monotonic()
        try:
            while not step.wait(0.2):
                self.stop_if_asked()
                self.require_children()
        finally:
            step.kill()
        self.stop_if_asked()
        if step.process.returncode != 0:
            raise LaunchError(failure(step))
        self.say(f"{what} ({time.monotonic() - began:.1f} s)")

    def wait_for(self, found: Callable[[], bool], seconds: float, what: str) -> None:
        """Raises: LaunchError, StoppedError."""
        give_up_at = time.monotonic() + seconds
        while not found():
            self.stop_if_asked()
            self.require_children()
            if time.monotonic() > give_up_at:
                raise LaunchError(f"No answer from {what} within {seconds:.0f} s.\n{self.children[-1].last_lines()}")
            time.sleep(0.05)

    def require_children(self) -> None:
        """Raises: LaunchError where a process that has to run has ended."""
        for child in self.children:
            if child.ended:
                raise LaunchError(failure(child))

    def watch(self) -> None:
        """Until a signal. Raises: LaunchError where a process ends by itself, EmbeddedPostgresError."""
        while not self.signals:
            self.revive_database()
            self.revive_worker()
            self.require_children()
            time.sleep(0.2)

    def revive_database(self) -> None:
        """Start the embedded server again where it was killed; the web process then reconnects by itself.

        Raises: EmbeddedPostgresError where it does not start, LaunchError where it ends again and again.
        """
        if self.database is None or not self.database.ended:
            return
        words = embedded_postgres.last_words(self.database.place.log)
        self.revived += 1
        if self.revived > REVIVALS:
            raise LaunchError(f"PostgreSQL ended {self.revived} times ({words}).")
        self.database.stop()
        self.database = ensure(self.data_dir)
        self.revived_at = time.monotonic()
        self.say(f"PostgreSQL had ended ({words}) and was started again")

    def revive_worker(self) -> None:
        """Start the worker again where it ended: with its database, or by itself, a few times.

        Raises: LaunchError where it ends again and again.
        """
        for place, child in enumerate(self.children):
            if child.name == "worker" and child.ended:
                self.workers_revived += time.monotonic() > self.revived_at + REVIVAL_SECONDS
                if self.workers_revived > REVIVALS:
                    raise LaunchError(failure(child))
                self.children[place] = self.begin_worker()
                self.say("the worker had ended and was started again")

    # ── stopping
    # ──────────────────────────────────────────────────────────────────────────────────────────────

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1
        if self.signals > 1:
            for child in self.children:
                child.process.kill()

    def stop_if_asked(self) -> None:
        if self.signals:
            raise StoppedError

    def stop(self) -> None:
        """Web first, with what it has begun; PostgreSQL last."""
        for child in reversed(self.children):
            if not child.ended:
                self.say(f"stopping {child.name}")
            child.ask_to_stop()
            if not child.wait(child.stop_seconds):
                child.kill()
        if self.standin_url is not None:
            instance.forget_standin(self.data_dir, self.standin_url)
        if self.database is not None:
            self.say("stopping PostgreSQL")
            self.database.stop()

    # ── telling
    # ───────────────────────────────────────────────────────────────────────────────────────────────

    def say(self, line: str) -> None:
        print(f"[{time.monotonic() - self.began:5.1f} s] {line}", flush=True)

    def tell(self) -> None:
        """What a person needs to begin."""
        host = {"127.0.0.1": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(self.host, self.host)  # noqa: S104
        site = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
        self.say("ready")
        print(f"""
  board     {site}/
  console   {site}/admin/
  API docs  {site}/api/v1/docs
  users     {", ".join(USERS)}
  password  {self.environ["DEMO_PASSWORD"]}
  logs      {self.data_dir / "logs"}

Ctrl-C stops everything.""")
        sys.stdout.flush()


def manage(*arguments: str) -> list[str]:
    return [str(instance.BASE_DIR / "manage.py"), *arguments]


def failure(child: Child) -> str:
    return f"{child.name} ended ({child.how_it_ended()}). The end of {child.log}:\n{child.last_lines()}"


def run(launcher: Launcher) -> int:
    """The exit status: 0 after a signal, 1 after a failure."""
    try:
        launcher.start()
        launcher.tell()
        launcher.watch()
    except StoppedError:
        pass
    except (LaunchError, EmbeddedPostgresError, OSError) as error:
        if not launcher.signals:  # a process that fell to the same signal is no failure
            print(error, file=sys.stderr, flush=True)
            return 1
    finally:
        launcher.stop()
    return 0


def main() -> int:
    argparse.ArgumentParser(
        prog="make run",
        description="Start the product: database, stand-in provider, demo data, web.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    os.chdir(instance.BASE_DIR)
    try:
        launcher = Launcher(dict(os.environ))
        launcher.check()
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, launcher.on_signal)
    return run(launcher)


if __name__ == "__main__":
    sys.exit(main())
