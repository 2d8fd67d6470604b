"""Does the ledger tell the truth? Read-only questions to the tables, each with the rule it asks about.

For operators (`manage.py verify_ledger`), after a restore above all: a data-only restore can downgrade the guards
silently. The test suite asks the same questions after every scenario.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection

from receipts.contracts import Tool, registry

#: Broken rows that are named; the rest is counted.
NAMED = 10


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A rule that does not hold."""

    rule: str
    rows: tuple[str, ...]
    """Receipts (or triggers) that break it; the first `NAMED`."""
    count: int


RULES = {
    "pending has a deadline": "SELECT id::text FROM tool_receipts WHERE status = 'pending' AND deadline_at IS NULL",
    "every attempt that ended has its row, and no other has one": """
        SELECT r.id::text FROM tool_receipts r
        WHERE (SELECT coalesce(array_agg(a.attempt ORDER BY a.attempt), '{}')
                 FROM attempts a WHERE a.receipt_id = r.id)
           <> (SELECT coalesce(array_agg(n), '{}')
                 FROM generate_series(1, r.attempt - (r.status = 'pending')::int) n)""",
    "a settled row says what its last attempt says": """
        SELECT r.id::text FROM tool_receipts r JOIN attempts a ON a.receipt_id = r.id AND a.attempt = r.attempt
        WHERE r.status <> 'pending'
          AND (r.http_status, r.error_code, r.error_reason, r.result_ref) IS DISTINCT FROM
              (a.http_status, a.error_code, a.error_reason, a.tool_result ->> 'result_ref')""",
    "at most two provider calls an attempt": """
        SELECT receipt_id::text FROM attempts WHERE (model_decision ->> 'calls')::int > 2""",
    "one live write a lineage": """
        SELECT min(id::text) FROM tool_receipts WHERE status <> 'failed' AND effect <> 'read'
        GROUP BY root_id HAVING count(*) > 1""",
    "the guards stand, for every session": """
        SELECT c.relname || '.' || g.name FROM pg_class c
        JOIN (VALUES ('tool_receipts', 'guard_transition'), ('attempts', 'refuse_change'),
                     ('audit_events', 'refuse_change'),
                     ('tool_receipts', 'refuse_delete'), ('tool_receipts', 'refuse_truncate'),
                     ('attempts', 'refuse_delete'), ('attempts', 'refuse_truncate'),
                     ('audit_events', 'refuse_delete'), ('audit_events', 'refuse_truncate'),
                     ('runs', 'refuse_delete'), ('runs', 'refuse_truncate'),
                     ('bulk_replays', 'refuse_delete'), ('bulk_replays', 'refuse_truncate'),
                     ('bulk_replay_items', 'refuse_delete'), ('bulk_replay_items', 'refuse_truncate'))
               AS g(relation, name)
          ON g.relation = c.relname
        LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = g.name
        WHERE c.relkind = 'r' AND t.tgenabled IS DISTINCT FROM 'A'""",
}

_CONTRACTS = """
SELECT id::text FROM tool_receipts
WHERE tool_name = %(name)s AND contract_version = %(version)s AND contract_sha256 <> %(sha256)s
"""

# Both ways: an applied receipt whose change is not there, and a change that no applied receipt stands for.
_EVIDENCE = """
SELECT coalesce(r.id, e.receipt_id)::text
FROM (SELECT id, result_ref FROM tool_receipts WHERE tool_name = %(name)s AND status = 'applied') r
FULL JOIN ({evidence}) AS e (receipt_id, result_ref) ON e.receipt_id = r.id
WHERE r.result_ref IS DISTINCT FROM e.result_ref
"""


def verify() -> Iterator[tuple[str, Finding | None]]:
    """Each rule, with what breaks it or None. Reads the whole ledger: minutes on millions of rows."""
    for rule, query in RULES.items():
        yield rule, _ask(rule, query, {})
    evidence = {tool.name: tool for tool in registry if tool.evidence}
    for tool in registry:
        rule = f"receipts of {tool.contract} carry its frozen schema's digest"
        yield rule, _ask(rule, _CONTRACTS, _about(tool))
    for tool in evidence.values():
        rule = f"applied receipts of {tool.name} and its changes are one to one"
        yield rule, _ask(rule, _EVIDENCE.format(evidence=tool.evidence), _about(tool))


def _about(tool: Tool) -> dict[str, object]:
    return {"name": tool.name, "version": tool.version, "sha256": tool.schema_sha256}


def _ask(rule: str, query: str, parameters: dict[str, object]) -> Finding | None:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters or None)  # type: ignore[arg-type]
        broken = [row[0] for row in cursor.fetchall()]
    return Finding(rule=rule, rows=tuple(broken[:NAMED]), count=len(broken)) if broken else None
