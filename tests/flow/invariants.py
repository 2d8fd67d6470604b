"""What must hold after every scenario, read from the tables."""

from __future__ import annotations

import time

from django.db import connection

INVARIANTS = {
    "I1 at most one follow-up a receipt": """
        SELECT receipt_id FROM followups GROUP BY receipt_id HAVING count(*) > 1""",
    "I2 applied if and only if its follow-up exists and result_ref names it": """
        SELECT coalesce(r.id::text, f.id) FROM tool_receipts r FULL JOIN followups f ON f.receipt_id = r.id
        WHERE r.tool_name = 'file_followup' AND (r.status = 'applied') IS DISTINCT FROM (f.id IS NOT NULL)
           OR f.id IS NOT NULL AND r.result_ref IS DISTINCT FROM f.id""",
    "I5 pending has a deadline": """
        SELECT id FROM tool_receipts WHERE status = 'pending' AND deadline_at IS NULL""",
    "I6 one attempt row for every attempt that ended, and no other": """
        SELECT r.id FROM tool_receipts r
        WHERE (SELECT coalesce(array_agg(a.attempt ORDER BY a.attempt), '{}') FROM attempts a WHERE a.receipt_id = r.id)
           <> (SELECT coalesce(array_agg(n), '{}')
                 FROM generate_series(1, r.attempt - (r.status = 'pending')::int) n)""",
    "I7 at most two provider calls an attempt": """
        SELECT receipt_id FROM attempts WHERE (model_decision ->> 'calls')::int > 2""",
    "one live write a lineage": """
        SELECT root_id FROM tool_receipts WHERE status <> 'failed' AND effect <> 'read'
        GROUP BY root_id HAVING count(*) > 1""",
    "the ledger's guards are on": """
        SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relname IN ('tool_receipts', 'attempts', 'audit_events', 'runs') AND NOT tgisinternal
          AND tgenabled <> 'A'""",
}

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
    with connection.cursor() as cursor:
        for name, query in INVARIANTS.items():
            cursor.execute(query)
            assert cursor.fetchall() == [], name
        if calls is not None:
            cursor.execute("SELECT coalesce(sum(attempt), 0) FROM tool_receipts")
            attempts = cursor.fetchone()[0]
            assert calls <= 2 * attempts, "I7 more provider calls than two an attempt"
