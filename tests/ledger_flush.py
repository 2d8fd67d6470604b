"""The suite's flush against a ledger that refuses TRUNCATE: it asks as a retention tool would, in its transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

#: The queue's tables are not Django's to flush. Row by row, because workers may live through several tests.
JOBS = "DELETE FROM procrastinate_periodic_defers; DELETE FROM procrastinate_jobs;"

#: TRUNCATE waits for whatever a process of the test still does; the product's own sessions wait 2 s for a lock.
PATIENCE = "SET LOCAL lock_timeout = '30s';"


@pytest.fixture(autouse=True, scope="session")
def ledger_may_be_flushed() -> Iterator[None]:
    """Between tests the tables' owner may empty the ledger; inside a test nobody may.

    On the class, because a browser's loop makes Django hand out other connection objects.
    """
    operations: Any = type(connection.ops)
    plain = operations.sql_flush

    def with_purge(self: Any, *args: Any, **options: Any) -> list[str]:
        statements: list[str] = plain(self, *args, **options)
        return ["SET LOCAL receipts.purge = 'on';", PATIENCE, JOBS, *statements] if statements else []

    operations.sql_flush = with_purge
    yield
    operations.sql_flush = plain
