"""A private PostgreSQL for try-out and tests, when DATABASE_URL names none.

    with ensure(data_dir) as server:    # starts it, or joins the one that runs for this DATA_DIR
        psycopg.connect(server.dsn)

Everyone who uses the server holds a shared lock on one file; `postgres_keeper` stops it when the last of them
is gone, however they ended. So a command beside `make run` joins its server and leaves it alone, and two
commands side by side share one. No TCP: a Unix socket in a folder of mode 0700 (as root, that of the user
dropped to).

Layout below DATA_DIR/postgres, or below /var/lib/receipts-<id> where the user that PostgreSQL is dropped to
could not reach DATA_DIR (PostgreSQL refuses to run as root, and we do not open anybody's parent folders):
`pg<major>/` the data, `run/` the socket, `lock` (who may start), `users`, `log`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg

from receipts_project import generated_secrets, postgres_binaries, postgres_keeper
from receipts_project.postgres_binaries import Binaries, User

DATABASE = ROLE = "receipts"
PORT = 5432  # part of the socket's name; said in the DSN, for PGPORT may stand in the environment
SOCKET_PATH_BYTES = 107  # the kernel's limit for a Unix socket's path (sun_path) on Linux; macOS has 103
ELSEWHERE = Path("/var/lib")
#: Crash recovery of a busy ledger took seconds in trials; a slow disk may need many.
ANSWER_SECONDS = 60.0
STOP_SECONDS = 40.0  # the keeper's own limits, and a little
#: `auto`, `machine`, `wheel`, or a folder with `initdb` and `postgres`.
BINARIES_VARIABLE = "EMBEDDED_POSTGRES_BINARIES"
SERVER_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_min_messages": "fatal",  # an ERROR's detail quotes the failing row: private values
    "log_min_error_statement": "panic",
}
#: For tests: nothing is flushed to disk. Faster, and lost if the machine goes down.
NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgresError(Exception):
    """The embedded server cannot be had. The text is one sentence for the person at the terminal."""


# ── where ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Place:
    """The folders of one DATA_DIR's server."""

    data_dir: Path
    base: Path

    @property
    def sockets(self) -> Path:
        """`run/`, or a short folder in /tmp where the socket's path would be longer than the kernel takes."""
        inside = self.base / "run"
        if len(os.fsencode(inside / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES:
            return inside
        return Path("/tmp") / f"receipts-{hashlib.sha256(os.fsencode(self.base)).hexdigest()[:16]}"  # noqa: S108

    @property
    def socket(self) -> Path:
        return self.sockets / f".s.PGSQL.{PORT}"

    @property
    def log(self) -> Path:
        return self.base / "log"

    @property
    def clusters(self) -> dict[int, Path]:
        """Complete data folders by major version. (A half-made one is called pg<major>.new.)"""
        found = (re.fullmatch(r"pg(\d+)", path.name) for path in self.base.glob("pg*"))
        return {int(match[1]): self.base / match[0] for match in found if match}

    def dsn(self, database: str = DATABASE) -> str:
        return f"postgresql://{ROLE}@/{database}?host={quote(str(self.sockets))}&port={PORT}"


def database_url(environ: Mapping[str, str], data_dir: Path) -> str:
    """The DSN in use: DATABASE_URL, else the embedded server's. Starts nothing.

    Raises: EmbeddedPostgresError.
    """
    return environ.get("DATABASE_URL") or dsn(data_dir)


def dsn(data_dir: Path) -> str:
    """The embedded server's DSN, whether it runs or not. Raises: EmbeddedPostgresError."""
    return place_of(data_dir).dsn()


def place_of(data_dir: Path) -> Place:
    """The folders of this DATA_DIR's server; a choice made once, since data must not be lost from sight.

    An id in DATA_DIR names the folder in /var/lib, and not DATA_DIR's path: so a moved DATA_DIR keeps its
    rows, and a deleted one does not come back with rows that its new keys cannot read.

    Raises: EmbeddedPostgresError where DATA_DIR cannot be written.
    """
    data_dir = data_dir.resolve()
    inside = data_dir / "postgres"
    id_file = inside / "id"
    try:
        if os.geteuid() != 0 or Place(data_dir=data_dir, base=inside).clusters:
            return Place(data_dir=data_dir, base=inside)
        if not id_file.exists():
            data_dir.mkdir(parents=True, exist_ok=True)
            if dropped_user().can("-x", data_dir):
                return Place(data_dir=data_dir, base=inside)
            make_folder(inside, 0o711)
            generated_secrets.create_once(id_file, lambda: secrets.token_hex(8))
        return Place(data_dir=data_dir, base=ELSEWHERE / f"receipts-{generated_secrets.read_secret(id_file)}")
    except OSError as error:
        raise unwritable(data_dir, error) from error


def dropped_user() -> User:
    """Whom root drops the server to: `postgres`, else `nobody`. Raises: EmbeddedPostgresError."""
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return User(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise EmbeddedPostgresError("PostgreSQL does not run as root, and there is no user postgres or nobody.")


def server_user(place: Place) -> User:
    """Whom the server runs as: ourselves; as root the owner of the data, else the user dropped to.

    Raises: EmbeddedPostgresError where the data belong to somebody else.
    """
    owners = {path.stat().st_uid: path.stat().st_gid for path in place.clusters.values()}
    if os.geteuid() != 0:
        if owners and os.geteuid() not in owners:
            raise EmbeddedPostgresError(
                f"The PostgreSQL data in {place.base} belong to user {name_of(next(iter(owners)))}: "
                "run this as that user or as root, or choose another DATA_DIR."
            )
        return User(name=name_of(os.geteuid()), uid=os.geteuid(), gid=os.getegid())
    for uid, gid in owners.items():
        return User(name=name_of(uid), uid=uid, gid=gid)
    return dropped_user()


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def make_folder(path: Path, mode: int, owner: User | None = None) -> None:
    """A folder of exactly this mode (the umask aside). Folders that were there keep theirs."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        return
    path.chmod(mode)
    if owner is not None and owner.uid != os.geteuid():
        os.chown(path, owner.uid, owner.gid)


# ── the server ──────────────────────────────────────────────────────────────────────────────────────────────


class Server:
    """One use of the server. `stop()` ends this use; the server itself ends with the last one."""

    def __init__(self, place: Place, users: int, keeper: subprocess.Popen[bytes] | None) -> None:
        self.place = place
        self.dsn = place.dsn()
        self.started = keeper is not None
        """False: it ran already, and we joined."""
        self._users: int | None = users
        self._keeper = keeper

    @property
    def ended(self) -> bool:
        """Did the server end though it is in use (killed, out of memory)?"""
        return self._keeper.poll() is not None if self._keeper is not None else postmaster(self.place) is None

    def stop(self) -> None:
        """End this use and, if it was the last, wait until the server is down. A second call does nothing."""
        if self._users is None:
            return
        users, self._users = self._users, None
        with exclusive(self.place.base / "lock"):  # nobody joins while we look
            last = try_lock(users, fcntl.LOCK_EX)
            os.close(users)  # releases: the keeper's turn
            if last:
                wait_until_down(self.place, STOP_SECONDS)
        if self._keeper is not None and last:
            self._keeper.wait(STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def ensure(data_dir: Path, *, durable: bool = True, binaries: str | None = None) -> Server:
    """Start this DATA_DIR's server, or join the one that runs. Blocks until it answers.

    Args:
        durable: False for test data, see `NOT_DURABLE`; without effect on a server that runs already.
        binaries: see `BINARIES_VARIABLE`, which it defaults to.

    Raises: EmbeddedPostgresError, one sentence: no binaries, DATA_DIR not writable or full, `initdb` failed,
    data
        of another major version or another user, no answer within `ANSWER_SECONDS`.
    """
    choice = binaries or os.environ.get(BINARIES_VARIABLE) or "auto"
    place = place_of(data_dir)
    try:
        user = server_user(place)
        make_folder(place.base, 0o711)
        with exclusive(place.base / "lock"):
            refuse_a_copy(place)
            users = os.open(place.base / "users", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                # Waits while a keeper holds it exclusively, which is while it stops a server.
                fcntl.flock(users, fcntl.LOCK_SH)
                keeper = None if answers(place) else start(place, user, choice, durable)
                create_database(place)
            except BaseException:
                os.close(users)
                raise
    except OSError as error:
        raise unwritable(place.base, error) from error
    return Server(place, users, keeper)


def start(place: Place, user: User, choice: str, durable: bool) -> subprocess.Popen[bytes] | None:
    """Start the server, under the locks of `ensure`; its keeper, or None where one came up meanwhile."""
    if not wait_until_down(place, STOP_SECONDS, or_answers=True):
        if answers(place):
            return None
        raise EmbeddedPostgresError(
            f"A PostgreSQL server (process {postmaster(place)}) holds {place.base} and does not answer: stop it first."
        )
    tools = choose(place, user, choice)
    cluster = place.base / f"pg{tools.major}"
    if not cluster.exists():
        initialize(place, user, tools, cluster, durable)
    prepare_sockets(place, user)
    give_up_at = time.monotonic() + ANSWER_SECONDS
    while True:
        forget_stale_locks(place)
        keeper = start_keeper(place, user, tools, cluster, durable)
        while keeper.poll() is None:
            if answers(place):
                return keeper
            if time.monotonic() > give_up_at:
                keeper.kill()  # and the kernel stops the server
                keeper.wait()
                raise EmbeddedPostgresError(
                    f"PostgreSQL does not answer within {ANSWER_SECONDS:.0f} s: {last_words(place.log)}"
                )
            time.sleep(0.02)
        words = last_words(place.log)
        # Orphans of a killed server live on for a moment, and hold its shared memory.
        if "still in use" not in words or time.monotonic() > give_up_at:
            raise EmbeddedPostgresError(f"PostgreSQL does not start: {words}")
        time.sleep(0.3)


def choose(place: Place, user: User, choice: str) -> Binaries:
    """The binaries for this data; the best there are where there is none. Raises: EmbeddedPostgresError."""
    clusters = place.clusters
    if clusters and not any(user.can("-x", path) for path in clusters.values()):
        raise EmbeddedPostgresError(
            f"User {user.name}, whom the server runs as, cannot reach the PostgreSQL data in {place.base}: "
            "let that user enter its parent folders, or choose another DATA_DIR."
        )
    others = []
    for found in postgres_binaries.usable(user, place.base, choice):
        if not clusters or found.major in clusters:
            return found
        others.append(str(found.major))
    if others:
        raise EmbeddedPostgresError(
            f"The data in {place.base} were written by PostgreSQL {max(clusters)}, and here is only "
            f"{', '.join(others)}: install version {max(clusters)}, or set DATABASE_URL or another DATA_DIR."
        )
    raise EmbeddedPostgresError(
        "No PostgreSQL was found (initdb on PATH, /usr/lib/postgresql, the embedded-postgres package): "
        "install PostgreSQL, or set DATABASE_URL."
    )


def initialize(place: Place, user: User, tools: Binaries, cluster: Path, durable: bool) -> None:
    """Make an empty cluster; it gets its name when it is complete, so an interrupted one is no obstacle.

    Raises: EmbeddedPostgresError.
    """
    draft = cluster.with_suffix(".new")
    command = [
        str(tools.folder / "initdb"),
        "-D",
        str(draft),
        "-U",
        ROLE,
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-instructions",
    ]
    words = ""
    for locale in ("C.UTF-8", "C"):  # older systems have no C.UTF-8
        shutil.rmtree(draft, ignore_errors=True)
        make_folder(draft, 0o700, user)
        done = subprocess.run(
            [*command, f"--locale={locale}", *([] if durable else ["--no-sync"])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            check=False,
            **user.popen(),
        )
        if done.returncode == 0:
            draft.rename(cluster)
            return
        words = last_line(done.stderr) or words
    shutil.rmtree(draft, ignore_errors=True)
    raise EmbeddedPostgresError(f"PostgreSQL's initdb failed in {place.base}: {words}")


def prepare_sockets(place: Place, user: User) -> None:
    """The socket's folder, ours alone. Raises: EmbeddedPostgresError where somebody else's stands there."""
    make_folder(place.sockets, 0o700, user)
    found = place.sockets.lstat()
    if found.st_uid != user.uid or place.sockets.is_symlink():
        raise EmbeddedPostgresError(f"{place.sockets} does not belong to user {user.name}: remove it.")


def start_keeper(place: Place, user: User, tools: Binaries, cluster: Path, durable: bool) -> subprocess.Popen[bytes]:
    settings = SERVER_SETTINGS if durable else SERVER_SETTINGS | NOT_DURABLE
    argv = [str(tools.folder / "postgres"), "-D", str(cluster), "-k", str(place.sockets), "-p", str(PORT)]
    argv += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    dropped = user.uid != os.geteuid()
    order = {
        "argv": argv,
        "users": str(place.base / "users"),
        "uid": user.uid if dropped else None,
        "gid": user.gid if dropped else None,
    }
    with open(place.log, "wb") as log:  # one start's lines: the last words are this start's
        return subprocess.Popen(
            [sys.executable, "-I", postgres_keeper.__file__, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def create_database(place: Place) -> None:
    with psycopg.connect(place.dsn("postgres"), autocommit=True, connect_timeout=10) as connection:
        query = "SELECT 1 FROM pg_database WHERE datname = %s"
        if connection.execute(query, [DATABASE]).fetchone() is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")


def remove(data_dir: Path) -> None:
    """Delete the stopped server's data, wherever they lie: for the throw-away servers of tests."""
    place = place_of(data_dir)
    for folder in {place.sockets, place.base, place.data_dir / "postgres"}:
        shutil.rmtree(folder, ignore_errors=True)


# ── what is there ───────────────────────────────────────────────────────────────────────────────────────────


def answers(place: Place) -> bool:
    """Does a server take a connection? False at once where there is no socket."""
    if not place.socket.exists():
        return False
    try:
        psycopg.connect(place.dsn("postgres"), connect_timeout=5).close()
    except psycopg.OperationalError:
        return False  # a stale socket, or it starts or stops
    return True


def postmaster(place: Place) -> int | None:
    """The process id of the server that holds the data, or None: its pid file may be older than its death.

    The number alone proves nothing, for another process may have it by now (in containers it soon does).
    """
    for cluster in place.clusters.values():
        try:
            pid = int((cluster / "postmaster.pid").read_text().split("\n", 1)[0])
            os.kill(pid, 0)
        except (OSError, ValueError) as error:
            if not isinstance(error, PermissionError):
                continue
        if is_server(pid, cluster):
            return pid
    return None


def is_server(pid: int, cluster: Path) -> bool:
    """Does process `pid` serve `cluster`? A zombie does not. Without /proc the number has to do."""
    process = Path("/proc") / str(pid)
    if not Path("/proc/self").exists():
        return True
    try:
        # A zombie's command line is empty.
        return os.fsencode(cluster) in (process / "cmdline").read_bytes()
    except OSError:
        return False


def wait_until_down(place: Place, seconds: float, *, or_answers: bool = False) -> bool:
    """Wait for a server that is stopping (its owner was killed a moment ago). False where it still stands."""
    give_up_at = time.monotonic() + seconds
    while postmaster(place) is not None:
        if time.monotonic() > give_up_at or (or_answers and answers(place)):
            return False
        time.sleep(0.02)
    return True


def forget_stale_locks(place: Place) -> None:
    """Remove what a killed server left. PostgreSQL itself refuses where the old number is in use."""
    for cluster in place.clusters.values():
        (cluster / "postmaster.pid").unlink(missing_ok=True)
    place.socket.unlink(missing_ok=True)
    place.socket.with_name(f"{place.socket.name}.lock").unlink(missing_ok=True)


def refuse_a_copy(place: Place) -> None:
    """Two DATA_DIRs with one id would share rows. Raises: EmbeddedPostgresError."""
    if place.base.parent != ELSEWHERE:
        return
    note = place.base / "data_dir"
    known = Path(note.read_text()) if note.exists() else place.data_dir
    id_file = known / "postgres" / "id"
    if known != place.data_dir and id_file.exists() and place.base.name.endswith(id_file.read_text().strip()):
        raise EmbeddedPostgresError(
            f"{place.data_dir} is a copy of {known}, whose rows are in {place.base}: "
            f"delete {place.data_dir / 'postgres'} to begin with none."
        )
    note.write_text(str(place.data_dir))


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`: one process at a time starts or stops."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# ── sentences ───────────────────────────────────────────────────────────────────────────────────────────────


def unwritable(path: Path, error: OSError) -> EmbeddedPostgresError:
    return EmbeddedPostgresError(
        f"{path} cannot hold PostgreSQL's data ({error.strerror or error}): "
        "make it writable, or set DATA_DIR or DATABASE_URL."
    )


def last_words(log: Path) -> str:
    """Why the server ended: the log's last FATAL or PANIC line, else its last line."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return "there is no log"
    return last_line("\n".join(line for line in text.splitlines() if "FATAL" in line or "PANIC" in line)) or last_line(
        text
    )


def last_line(text: str) -> str:
    """The last line that says something, without time stamp and program name."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "error" in line.lower() or "FATAL" in line or "PANIC" in line] or lines
    return re.sub(r"^.*?(?:initdb|postgres|FATAL|PANIC): *(?:error: *)?", "", told[-1]) if told else ""
