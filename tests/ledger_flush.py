"""The suite's flush against a ledger that refuses TRUNCATE: it asks as a retention tool would, in its transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection


@pytest.fixture(autouse=True, scope="session")
def ledger_may_be_flushed() -> Iterator[None]:
    """Between tests the tables' owner may empty the ledger; inside a test nobody may."""
    plain = connection.ops.sql_flush

    def with_purge(*args: object, **options: object) -> list[str]:
        statements: list[str] = plain(*args, **options)
        return ["SET LOCAL receipts.purge = 'on';", *statements] if statements else []

    connection.ops.sql_flush = with_purge  # type: ignore[method-assign]
    yield
    connection.ops.sql_flush = plain  # type: ignore[method-assign]
