"""The connection pool against a PostgreSQL of its own that goes away and comes back."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import psycopg
import pytest
from django.db import connections

from receipts_project import embedded_postgres as embedded
from receipts_project.postgresql.base import DatabaseWrapper

pytestmark = pytest.mark.processes
SIZE = 12


@pytest.fixture
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="receipts-test-"))
    folder.chmod(0o711)
    yield folder / "data"
    embedded.remove(folder / "data")
    shutil.rmtree(folder)


def wrapper(server: embedded.Server) -> DatabaseWrapper:
    """A connection object as Django would make it for this server, with an own pool (pools go by alias)."""
    ours = connections["default"].settings_dict
    options = {"pool": {"min_size": 1, "max_size": SIZE, "timeout": 2.0, "reconnect_timeout": 2.0}}
    place = {"NAME": "receipts", "USER": "receipts", "PASSWORD": "", "PORT": "5432", "HOST": str(server.place.sockets)}
    return DatabaseWrapper(ours | place | {"OPTIONS": ours["OPTIONS"] | options}, alias="pool_test")


def fill(database: DatabaseWrapper) -> None:
    """The pool to its full size, all of it idle."""
    assert database.pool is not None
    database.pool.open()
    barrier = Barrier(SIZE)

    def hold(_: int) -> None:
        with database.pool.connection(timeout=20) as connection:
            connection.execute("SELECT 1")
            barrier.wait(20)

    with ThreadPoolExecutor(SIZE) as threads:
        list(threads.map(hold, range(SIZE)))
    assert database.pool.get_stats()["pool_available"] == SIZE


def test_the_first_request_after_a_restart_is_served(data_dir: Path):
    server = embedded.ensure(data_dir, durable=False)
    database = wrapper(server)
    try:
        fill(database)
        server.stop()
        server = embedded.ensure(data_dir, durable=False)
        began = time.monotonic()
        with database.pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert time.monotonic() - began < 1
        with ThreadPoolExecutor(SIZE) as threads:
            list(threads.map(lambda _: database.pool.putconn(database.pool.getconn()), range(SIZE)))
        assert database.pool.get_stats()["pool_size"] <= SIZE
    finally:
        database.close_pool()
        server.stop()


def test_a_crowd_after_a_restart_is_served(data_dir: Path):
    server = embedded.ensure(data_dir, durable=False)
    database = wrapper(server)
    try:
        fill(database)
        server.stop()
        server = embedded.ensure(data_dir, durable=False)

        def ask(_: int) -> tuple[int]:
            with database.pool.connection() as connection:
                return connection.execute("SELECT 1").fetchone()

        with ThreadPoolExecutor(3 * SIZE) as threads:
            assert set(threads.map(ask, range(100))) == {(1,)}
    finally:
        database.close_pool()
        server.stop()


def test_soon_after_an_outage_requests_are_served(data_dir: Path):
    """The library backs off 1, 2, 4, 8 … s, which the requests after the outage would wait for."""
    server = embedded.ensure(data_dir, durable=False)
    database = wrapper(server)
    try:
        fill(database)
        server.stop()
        down_until = time.monotonic() + 9
        while time.monotonic() < down_until:
            with pytest.raises(psycopg.OperationalError):
                database.pool.getconn(timeout=1)
        server = embedded.ensure(data_dir, durable=False)
        with database.pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        database.close_pool()
        server.stop()
