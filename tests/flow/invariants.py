"""What must hold after every scenario, read from the tables."""

from __future__ import annotations

import time

from django.db import connection

from receipts.verification import verify

IN_TRANSACTION = """
    SELECT pid::text, xact_start::text FROM pg_stat_activity WHERE datname = current_database()
    AND state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()"""


def nothing_sits_in_a_transaction() -> None:
    """I4. A worker that polls its queue passes through one now and then; none may stay, which is the same start."""
    with connection.cursor() as cursor:
        cursor.execute(IN_TRANSACTION)
        sitting = set(cursor.fetchall())
        give_up_at = time.monotonic() + 3
        while sitting:
            assert time.monotonic() < give_up_at, "I4 nothing sits in an open transaction"
            time.sleep(0.05)
            cursor.execute(IN_TRANSACTION)
            sitting &= set(cursor.fetchall())


def assert_invariants(calls: int | None = None) -> None:
    """`calls`: provider calls that the stub counted; no attempt may have made more (I7)."""
    nothing_sits_in_a_transaction()
    for rule, finding in verify():
        assert finding is None, rule
    with connection.cursor() as cursor:
        cursor.execute("SELECT receipt_id FROM followups GROUP BY receipt_id HAVING count(*) > 1")
        assert cursor.fetchall() == [], "I1 at most one follow-up a receipt"
        if calls is not None:
            cursor.execute("SELECT coalesce(sum(attempt), 0) FROM tool_receipts")
            attempts = cursor.fetchone()[0]
            assert calls <= 2 * attempts, "I7 more provider calls than two an attempt"
