"""Django's PostgreSQL backend, with a pool whose health check costs no round trip.

Django's own check sends a statement each time a connection leaves the pool: at two a press that was 7 % of its time.
A server that closed a connection (restart, `pg_terminate_backend`) has said so on the socket, so a silent socket is a
live one; only one with something to read is asked.

A server that restarted has closed them all. The library's pool would find that out one by one, a second and more apart,
and give up after its 2 s: so the first dead one takes all the idle ones along, and the request gets a new one at once.
"""

from __future__ import annotations

import select
from time import monotonic
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


class Pool(ConnectionPool[Any]):
    """Its parent, but for what it does about dead connections.

    Of the parent's own attributes it uses `_pool` (the idle ones), `_created_at` and `_drained_at`.
    """

    def _getconn_unchecked(self, timeout: float) -> psycopg.Connection[Any]:
        """One that is alive as far as the socket says. Each dead one is dropped once, so this ends."""
        deadline = monotonic() + timeout
        while True:
            connection: psycopg.Connection[Any] = super()._getconn_unchecked(deadline - monotonic())
            try:
                check_unless_silent(connection)
            except psycopg.OperationalError:
                # Those made since the last drain were made by a server that answered: only they can be news.
                if connection._created_at > self._drained_at:
                    self.drain()
                self._putconn(connection, from_getconn=True)
            else:
                return connection


class DatabaseWrapper(base.DatabaseWrapper):
    @property
    def pool(self) -> ConnectionPool | None:
        """The process's pool of this alias; None where the settings ask for none."""
        pool: ConnectionPool | None = super().pool
        if pool is not None and pool._check is ConnectionPool.check_connection:
            pool.__class__ = Pool  # Django names the class itself, and has no setting for it
            pool._check = None
        return pool
