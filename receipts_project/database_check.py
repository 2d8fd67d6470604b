"""Does the database that DATABASE_URL names answer? One sentence if not, with no password in it."""

from __future__ import annotations

import time
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg

#: The spellings that django-environ takes for PostgreSQL.
SCHEMES = ("postgresql", "postgres", "psql", "pgsql", "timescale", "timescalegis", "postgis")
OLDEST_VERSION = 140000  # as libpq counts: 14.0
CONNECT_SECONDS = 5
#: Recovery after a crash takes seconds, rarely longer; who is started beside it should not have to be started again.
STARTING_SECONDS = 60


class DatabaseUnusableError(Exception):
    """DATABASE_URL names no usable database. The text is one sentence for the person at the terminal."""


def require_database(url: str) -> None:
    """Connect once; a server that is starting or recovering is waited for. Raises: DatabaseUnusableError."""
    arguments = connection_arguments(url)
    where = f"{arguments.get('host', 'the local socket')}:{arguments.get('port', '5432')}"
    end = time.monotonic() + STARTING_SECONDS
    while True:
        try:
            with psycopg.connect(**arguments, connect_timeout=CONNECT_SECONDS) as connection:  # type: ignore[arg-type]
                version = connection.info.server_version
            break
        except psycopg.Error as error:
            # libpq tells the SQLSTATE of a refused connection (57P03) only in its words
            if ("starting up" not in str(error) and "not yet accepting" not in str(error)) or time.monotonic() > end:
                raise DatabaseUnusableError(f"DATABASE_URL: no database at {where} ({reason(error)}).") from None
        time.sleep(1)
    if version < OLDEST_VERSION:
        raise DatabaseUnusableError(
            f"DATABASE_URL: the server at {where} is PostgreSQL {version // 10000}; 14 or newer is needed."
        )


def connection_arguments(url: str) -> dict[str, str]:
    """libpq's arguments in a DATABASE_URL: dbname, user, password, host, port and what the query adds.

    Raises: DatabaseUnusableError where it is not a PostgreSQL URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise DatabaseUnusableError("DATABASE_URL cannot be read: is the port a number?") from None
    if parts.scheme not in SCHEMES:
        raise DatabaseUnusableError("DATABASE_URL must begin with postgresql:// (PostgreSQL is the only database).")
    known = {
        option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()
    }  # a query may also hold options of Django's own
    arguments = {key: values[-1] for key, values in parse_qs(parts.query).items() if key in known}
    named = {
        "dbname": unquote(parts.path.lstrip("/")),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "host": unquote(parts.hostname or ""),
        "port": str(port or ""),
    }
    return arguments | {key: value for key, value in named.items() if value}


def reason(error: psycopg.Error) -> str:
    """What libpq says, shortened to its cause: `Connection refused`, `database "x" does not exist`."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no answer"]
    first = lines[0]
    for mark in ("FATAL:", " failed: ", "error: "):
        if mark in first:
            first = first.rsplit(mark, 1)[1].strip()
    return first.rstrip(".")
