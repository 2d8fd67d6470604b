"""Django's PostgreSQL backend, with a pool whose health check costs no round trip.

Django's own check sends a statement each time a connection leaves the pool: at two a press that was 7 % of its time.
A server that closed a connection (restart, `pg_terminate_backend`) has said so on the socket, so a silent socket is a
live one; only one with something to read is asked.
"""

from __future__ import annotations

import select
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg_pool import ConnectionPool


def check_unless_silent(connection: psycopg.Connection[Any]) -> None:
    """Raises: psycopg.OperationalError when the server has closed the connection."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN | select.POLLHUP | select.POLLERR)
    if poll.poll(0):
        ConnectionPool.check_connection(connection)


class DatabaseWrapper(base.DatabaseWrapper):
    @property
    def pool(self) -> ConnectionPool | None:
        """The process's pool of this alias; None where the settings ask for none."""
        pool: ConnectionPool | None = super().pool
        if pool is not None and pool._check is ConnectionPool.check_connection:
            pool._check = check_unless_silent
        return pool
