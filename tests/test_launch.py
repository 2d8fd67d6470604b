"""`make run` and `manage.py` as a person meets them: real processes, a DATA_DIR of their own."""

from __future__ import annotations

import http.client
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from receipts_project import embedded_postgres as embedded
from receipts_project.launch import REVIVALS

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120
SETTINGS = ("DATABASE_URL", "COMPLETIONS_URL", "STANDIN_PROVIDER", "DEMO_PASSWORD", "HOST", "PORT", "DATA_DIR")


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    """One DATA_DIR for the tests that start the whole: the first start makes it, the others find it made."""
    folder = Path(tempfile.mkdtemp(prefix="receipts-test-"))
    yield folder / "data"
    assert embedded.wait_until_down(embedded.place_of(folder / "data"), 20)
    embedded.remove(folder / "data")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


def free_port() -> int:
    """One below the range that the kernel hands out: it must still be free after a restart."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            port = random.randint(20000, 32000)
            probe.bind(("127.0.0.1", port))
            return port


def environment(**settings: object) -> dict[str, str]:
    """The environment as a person has it: only these of our settings."""
    rest = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    return rest | {name: str(value) for name, value in settings.items()}


def refused(**settings: object) -> str:
    """What the launcher says when it does not start."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "receipts_project.launch"],
        cwd=ROOT,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert time.monotonic() - began < 15, "before anything slow"
    return done.stderr


def manage(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=ROOT,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class Instance:
    """The launcher in a process group of its own, as a terminal starts it."""

    def __init__(self, data_dir: Path, port: int) -> None:
        self.data_dir, self.port = data_dir, port
        self.process = subprocess.Popen(
            [sys.executable, "-m", "receipts_project.launch"],
            cwd=ROOT,
            env=environment(DATA_DIR=data_dir, PORT=port),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said = ""

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C stops everything" in line:
                return
        raise AssertionError(f"it ended:\n{self.said}")

    def get(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def group(self) -> list[str]:
        """The command lines of what is alive in its process group."""
        return [command for pid, group, command in processes() if group == self.process.pid]

    def signal_group(self, number: signal.Signals) -> int:
        """As a terminal's Ctrl-C does. The exit status."""
        os.killpg(self.process.pid, number)
        return self.wait()

    def wait(self) -> int:
        self.said += self.process.communicate(timeout=90)[0]
        return self.process.returncode


def processes() -> Iterator[tuple[int, int, str]]:
    """(pid, process group, command line) of everything that is not a zombie."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, _parent, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # ended meanwhile
            if state != "Z":
                yield int(folder.name), int(group), command


def wait_until(holds) -> None:
    give_up_at = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


@pytest.fixture
def instance(data_dir: Path, port: int) -> Iterator[Instance]:
    started = Instance(data_dir, port)
    try:
        started.wait_until_ready()
        yield started
    finally:
        if started.process.poll() is None:
            started.signal_group(signal.SIGKILL)


class TestChecks:
    """Each is one sentence, before anything slow."""

    def test_a_taken_port(self, tmp_path):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            said = refused(PORT=port, DATA_DIR=tmp_path)
        assert f"Port {port} is taken" in said
        assert f"PORT={port + 1} make run" in said

    @pytest.mark.parametrize("port", ["web", "0", "70000", "-1"])
    def test_no_port(self, tmp_path, port):
        assert "PORT must be a number" in refused(PORT=port, DATA_DIR=tmp_path)

    def test_an_unreachable_database(self, tmp_path):
        port = free_port()
        url = f"postgresql://me:s3cr3t@127.0.0.1:{port}/receipts"
        said = refused(PORT=free_port(), DATA_DIR=tmp_path, DATABASE_URL=url)
        assert f"127.0.0.1:{port}" in said
        assert "Connection refused" in said
        assert "s3cr3t" not in said

    def test_a_database_that_does_not_exist(self, tmp_path):
        url = re.sub(r"/\w+(?=\?|$)", "/no_such_database", os.environ["DATABASE_URL"])
        said = refused(PORT=free_port(), DATA_DIR=tmp_path, DATABASE_URL=url)
        assert 'database "no_such_database" does not exist' in said

    def test_another_database_product(self, tmp_path):
        said = refused(PORT=free_port(), DATA_DIR=tmp_path, DATABASE_URL="sqlite:///x")
        assert "must begin with postgresql://" in said

    def test_a_data_dir_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        assert "cannot be written" in refused(PORT=free_port(), DATA_DIR=tmp_path / "file" / "data")


class TestRun:
    def test_ready_means_ready_and_ctrl_c_stops_everything(self, instance):
        assert instance.get("/readyz") == 200
        for path in ("/", "/admin/", "/api/v1/docs"):
            assert f"http://localhost:{instance.port}{path}\n" in instance.said
        for user in ("lead", "lead2", "auditor", "operator", "admin"):
            assert user in instance.said
        assert (instance.data_dir / "secrets" / "demo_password").read_text().strip() in instance.said
        assert instance.signal_group(signal.SIGINT) == 0, instance.said
        wait_until(lambda: instance.group() == [])
        assert embedded.postmaster(embedded.place_of(instance.data_dir)) is None
        stopped = re.findall(r"stopping (.*)", instance.said)
        assert stopped[0] == "web"
        assert stopped[-1] == "PostgreSQL"

    def test_ctrl_c_lets_a_press_end(self, instance, data_dir):
        code = (
            "from knox.models import AuthToken; from receipts_project.accounts.models import User; "
            "print(AuthToken.objects.create(User.objects.get(username='lead'))[1])"
        )
        token = manage("shell", "-v", "0", "-c", code, DATA_DIR=data_dir, PORT=instance.port).stdout.strip()
        press = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=60)
        headers = {
            "Authorization": f"Token {token}",
            "Idempotency-Key": f"ctrl-c-{time.time_ns()}",
            "Content-Type": "application/json",
        }
        press.request("POST", "/api/v1/tickets/TCK-1008/followups", '{"notes": "Call them back."}', headers)
        with psycopg.connect(embedded.dsn(data_dir), autocommit=True) as connection:
            pending = "SELECT 1 FROM tool_receipts WHERE idempotency_key = %s AND status = 'pending'"
            wait_until(lambda: connection.execute(pending, [headers["Idempotency-Key"]]).fetchone())
        os.killpg(instance.process.pid, signal.SIGINT)
        assert press.getresponse().status == 201
        assert instance.wait() == 0, instance.said

    def test_a_second_start_keeps_data_and_password(self, instance, data_dir):
        dsn = embedded.dsn(data_dir)
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE kept ()")
        password = re.findall(r"password +(\S+)", instance.said)
        instance.signal_group(signal.SIGTERM)
        again = Instance(data_dir, instance.port)
        try:
            again.wait_until_ready()
            assert re.findall(r"password +(\S+)", again.said) == password
            with psycopg.connect(dsn) as connection:
                connection.execute("DROP TABLE kept")
        finally:
            assert again.signal_group(signal.SIGINT) == 0, again.said

    def test_after_a_kill_of_the_group_nothing_runs_on_and_the_next_start_works(self, instance, data_dir):
        """The kernel stops PostgreSQL; every other process is in the group."""
        assert any("manage.py worker" in command for command in instance.group())
        base = str(embedded.place_of(data_dir).base)
        related = {command: group for _, group, command in processes() if base in command}
        outside = [command for command, group in related.items() if group != instance.process.pid]
        assert len(related) == 2, "PostgreSQL and its keeper"
        assert [command.split()[0].rpartition("/")[2] for command in outside] == ["postgres"]
        instance.signal_group(signal.SIGKILL)
        wait_until(lambda: instance.group() == [])
        wait_until(lambda: embedded.postmaster(embedded.place_of(data_dir)) is None)
        again = Instance(data_dir, instance.port)
        try:
            again.wait_until_ready()
            assert again.get("/readyz") == 200
        finally:
            assert again.signal_group(signal.SIGINT) == 0, again.said

    def test_a_killed_launcher_takes_its_processes_along(self, instance, data_dir):
        instance.process.kill()
        instance.wait()
        wait_until(lambda: instance.group() == [])
        wait_until(lambda: embedded.postmaster(embedded.place_of(data_dir)) is None)

    def test_a_process_that_ends_by_itself_is_named(self, instance):
        (web,) = (
            pid
            for pid, group, command in processes()
            if group == instance.process.pid and "gunicorn" in command and parent(pid) == instance.process.pid
        )
        os.kill(web, signal.SIGKILL)
        assert instance.wait() == 1
        assert "web ended (signal SIGKILL)" in instance.said
        assert "web.log" in instance.said
        wait_until(lambda: instance.group() == [])

    def test_the_worker_is_one_of_them(self, instance):
        worker = child(instance, "manage.py worker")
        # to the launcher alone: a worker that hears it too may have ended before its turn to be stopped
        instance.process.send_signal(signal.SIGTERM)
        assert instance.wait() == 0, instance.said
        stopped = re.findall(r"stopping (.*)", instance.said)
        assert stopped.index("web") < stopped.index("worker") < stopped.index("PostgreSQL")
        assert worker not in [pid for pid, _, _ in processes()]
        assert "Traceback" not in (instance.data_dir / "logs" / "worker.log").read_text()

    def test_a_killed_worker_is_started_again_a_few_times_and_then_named(self, instance):
        for _ in range(REVIVALS):
            killed = child(instance, "manage.py worker")
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda gone=killed: workers(instance) - {gone})
            assert instance.get("/readyz") == 200
        os.kill(child(instance, "manage.py worker"), signal.SIGKILL)
        assert instance.wait() == 1
        assert "worker ended (signal SIGKILL)" in instance.said
        assert "worker.log" in instance.said
        wait_until(lambda: instance.group() == [])

    def test_a_killed_database_is_started_again(self, instance, data_dir):
        place = embedded.place_of(data_dir)
        killed = embedded.postmaster(place)
        os.kill(killed, signal.SIGKILL)
        # whether anybody sees a 503 in between depends on who is quicker
        wait_until(lambda: embedded.postmaster(place) not in (None, killed))
        wait_until(lambda: instance.get("/readyz") == 200)
        time.sleep(5)  # time for the others to fall over it
        assert instance.get("/readyz") == 200
        assert child(instance, "manage.py worker")
        assert instance.signal_group(signal.SIGINT) == 0, instance.said
        assert re.findall(r"PostgreSQL had ended .* and was started again", instance.said)
        assert embedded.postmaster(place) is None

    def test_commands_beside_it_need_its_environment_and_nothing_more(self, instance, data_dir):
        beside = {"DATA_DIR": data_dir, "PORT": instance.port}
        assert manage("database_url", **beside).stdout.strip() == embedded.dsn(data_dir)
        count = "from tickets.models import Ticket; from django.conf import settings"
        asked = manage(
            "shell", "-v", "0", "-c", f"{count}; print(Ticket.objects.count(), settings.COMPLETIONS_URL)", **beside
        )
        tickets, url = asked.stdout.split()
        assert int(tickets) >= 40, asked.stderr
        assert url.startswith("http://127.0.0.1:"), "the running stand-in"
        assert instance.get("/readyz") == 200, "the command has not stopped the database"

    def test_another_instance_beside_it(self, instance, data_dir):
        other_dir = data_dir.with_name("other")
        other = Instance(other_dir, free_port())
        try:
            other.wait_until_ready()
            assert other.get("/readyz") == instance.get("/readyz") == 200
            assert other.signal_group(signal.SIGINT) == 0, other.said
            assert instance.get("/readyz") == 200
        finally:
            if other.process.poll() is None:
                other.signal_group(signal.SIGKILL)
            embedded.wait_until_down(embedded.place_of(other_dir), 20)
            embedded.remove(other_dir)


def workers(instance: Instance) -> set[int]:
    return {pid for pid, group, said in processes() if group == instance.process.pid and "manage.py worker" in said}


def child(instance: Instance, command: str) -> int:
    """The pid of the launcher's own child with this in its command line."""
    (found,) = (pid for pid, _, said in processes() if command in said and parent(pid) == instance.process.pid)
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class TestManage:
    """Commands with no instance beside them."""

    def test_a_command_gets_a_database_for_its_own_life(self, tmp_path):
        code = "from django.db import connection as c; c.ensure_connection(); print('it answers')"
        asked = manage("shell", "-v", "0", "-c", code, DATA_DIR=tmp_path)
        assert asked.stdout == "it answers\n", asked.stderr
        assert embedded.postmaster(embedded.place_of(tmp_path)) is None
        embedded.remove(tmp_path)

    def test_the_dsn_is_told_and_nothing_started(self, tmp_path):
        told = manage("database_url", DATA_DIR=tmp_path / "data")
        assert told.stdout.strip() == embedded.dsn(tmp_path / "data")
        assert embedded.place_of(tmp_path / "data").clusters == {}
        given = "postgresql://me@127.0.0.1:1/none"
        assert manage("database_url", DATABASE_URL=given, DATA_DIR=tmp_path).stdout.strip() == given

    def test_an_unreachable_database_is_one_sentence(self, tmp_path):
        done = manage("migrate", DATABASE_URL="postgresql://me:s3cr3t@127.0.0.1:1/none", DATA_DIR=tmp_path)
        assert done.returncode == 1
        assert done.stderr == "DATABASE_URL: no database at 127.0.0.1:1 (Connection refused).\n"

    def test_no_programs_is_one_sentence(self, tmp_path):
        done = manage("migrate", DATA_DIR=tmp_path / "data", EMBEDDED_POSTGRES_BINARIES=tmp_path)
        assert done.returncode == 1
        embedded.remove(tmp_path / "data")
        assert done.stderr.startswith("No PostgreSQL was found")
        assert done.stderr.count("\n") == 1
