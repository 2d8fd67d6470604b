"""Hot statements: prepared once a connection, then only bound and run.

Django binds parameters on the client, so PostgreSQL parses and plans a press's large statements anew each time. These
few go to the same connection through psycopg's own cursor, which prepares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from django.db import connection


def fetch_row(sql: str, parameters: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The first row of a statement, in Django's transaction if there is one; None for no row.

    Parameters have to be typed where PostgreSQL cannot infer it (`%(x)s::text`). jsonb arrives as text.

    Raises: django.db errors, as a Django cursor would.
    """
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        # the text is ours: parameters never enter it
        cursor.execute(sql, parameters, prepare=True)
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row
