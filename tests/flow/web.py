"""Web processes for tests that kill them: the server as it is run, on a free port, against the test's database."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import httpx
from django.db import connection
from knox.models import AuthToken

from benchmarks.processes import ROOT, WEB, WORKER, Process, environment, eventually, free_port
from receipts_project.accounts.models import User

__all__ = ["POINT", "ROOT", "Process", "Web", "Worker", "dsn", "eventually", "free_port", "held_at"]


def dsn() -> str:
    """The test database's address, as a process of its own needs it."""
    info = connection.get_connection_params()
    return f"postgresql://{info.get('user', '')}:{info.get('password', '')}@/{info['dbname']}?host={info['host']}" + (
        f"&port={info['port']}" if info.get("port") else ""
    )


def environ(provider_url: str, **more: str) -> dict[str, str]:
    """Of a process beside the test: its database, its provider, no streaming but where asked for."""
    return environment(dsn(), provider_url, **{"COMPLETIONS_STREAM": "false", **more})


class Worker(Process):
    """One `manage.py worker`."""

    def __init__(self, *, provider_url: str, **more: str) -> None:
        super().__init__(*WORKER, environ=environ(provider_url, **more))


class Web(Process):
    """One gunicorn with its one worker process."""

    def __init__(self, *, user: User, provider_url: str, **more: str) -> None:
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        _, self.token = AuthToken.objects.create(user)
        self._pool = ThreadPoolExecutor(128)
        connection.ensure_connection()
        super().__init__(*WEB, environ=environ(provider_url, **{"PORT": str(self.port), **more}))
        eventually(self._answers)

    def _answers(self) -> bool:
        assert not self.ended, "the web process ended at once"
        try:
            return httpx.get(f"{self.base}/livez").status_code == 200
        except httpx.TransportError:
            return False

    def post(
        self, key: str, notes: str = "Customer still blocked on SSO.", ticket: str = "TCK-1008", **headers: str
    ) -> httpx.Response:
        return httpx.post(
            f"{self.base}/api/v1/tickets/{ticket}/followups",
            json={"notes": notes},
            headers={"Idempotency-Key": key, "Authorization": f"Token {self.token}", **headers},
            timeout=60,
        )

    def get(self, path: str) -> httpx.Response:
        address = f"{self.base}/api/v1/{path}"
        return httpx.get(address, headers={"Authorization": f"Token {self.token}"}, timeout=60)

    def post_later(self, key: str) -> Future[httpx.Response]:
        """Post from another thread; the answer may never come."""
        return self._pool.submit(self.post, key)

    def end(self) -> None:
        super().end()
        self._pool.shutdown(wait=False)


POINT = 7_301_008  # an advisory lock of this suite


@contextmanager
def held_at(table: str, *, at_commit: bool = False, when: str = "true") -> Iterator[Callable[[], None]]:
    """Hold every insert into a table (or its commit) until the test lets go. Yields: let go.

    The wait is in the database, so the product runs unchanged and stands exactly there.
    """
    name = f"hold_{uuid.uuid4().hex[:8]}"
    timing = (
        f"CREATE CONSTRAINT TRIGGER {name} AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED"
        if at_commit
        else f"CREATE TRIGGER {name} BEFORE INSERT ON {table}"
    )
    holder = connection.copy()
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF {when} THEN PERFORM pg_advisory_xact_lock_shared({POINT}); END IF; RETURN NEW; END $$;"
            f" {timing} FOR EACH ROW EXECUTE FUNCTION {name}()"
        )
    with holder.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_lock({POINT})")

    def let_go() -> None:
        with holder.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock_all()")  # closing only hands the session back to the pool
        holder.close()

    try:
        yield let_go
    finally:
        let_go()
        eventually(lambda: waiting_at_the_point() == 0)
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TRIGGER {name} ON {table}; DROP FUNCTION {name}()")


def waiting_at_the_point() -> int:
    """How many sessions stand there."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted", [POINT]
        )
        count: int = cursor.fetchone()[0]
        return count
