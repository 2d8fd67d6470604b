"""Receipts that never happened, by the million: for measuring lists and charts on a ledger of years.

Written by SQL past the flow but under the ledger's guards and constraints: runs, receipts, attempts and events as
presses, schedules, retries and replays leave them, spread over a year with a day's tide, most of them by few people on
few tickets. What they stand for (a follow-up, a mail) is not made, so `manage.py verify_ledger` would say so.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection, transaction

from receipts import errors, workflows
from receipts.contracts import registry
from receipts.ids import uuid7

#: What the keys of generated receipts begin with.
PREFIX = "generated:"
#: Receipts of one transaction, and sessions that write side by side.
BATCH, SESSIONS = 25_000, 2
PEOPLE, TICKETS, SPAN = 200, 200_000, dt.timedelta(days=365)

#: (tool, weight of a hundred, how the reference of a result begins)
_TOOLS = (
    ("file_followup", 70, "FUP-"),
    ("close_ticket", 11, "RES-"),
    ("email_requester", 8, "MSG-"),
    ("deliver_email", 8, "MSG-"),
    ("check_contact_email", 3, "deliverable "),
)
#: (error, weight of a hundred): why one in twenty fails. The rest of the weight is the first one's.
_FAILURES: tuple[tuple[errors.ReceiptsError, int], ...] = (
    (errors.FillFailed(reason="provider_timeout"), 22),
    (errors.FillFailed(reason="provider_rate_limited"), 16),
    (errors.FillFailed(reason="provider_unavailable"), 12),
    (errors.FillFailed(reason="provider_auth"), 2),
    (errors.FillInvalid(reason="model_output_not_json"), 9),
    (errors.FillInvalid(reason="model_output_invalid"), 11),
    (errors.FillInvalid(reason="policy_assignee"), 6),
    (errors.FillInvalid(reason="model_refused"), 3),
    (errors.ArgMismatch(), 4),
    (errors.TicketConflict(reason="ticket_closed"), 6),
    (errors.DeadlineExceeded(reason="fill_budget"), 5),
    (errors.ApplyFailed(reason="lock_timeout"), 2),
    (errors.Abandoned(reason="process_died"), 2),
)

_REAL = """
SELECT EXISTS (SELECT FROM tool_receipts WHERE idempotency_key < 'generated:')
    OR EXISTS (SELECT FROM tool_receipts WHERE idempotency_key >= 'generated;' AND idempotency_key < 'replay:')
    OR EXISTS (SELECT FROM tool_receipts WHERE idempotency_key >= 'replay;')
"""

#: `l`: seconds before now on an even clock; the sine makes a tide of it, two and a half times the mean at its height.
#: Identifiers are UUIDs of version 7 made of the moment and of a digest, so that they sort by time like ours.
_MADE = """
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
WITH numbered AS (
  SELECT n, %(now)s::timestamptz - (s.l - 8250.6 * sin(2 * pi() * s.l / 86400)) * interval '1 second' AS at,
         md5(%(token)s || n) AS h, md5(n || %(token)s) AS g,
         (hashint8extended(n, 1) & 1048575) / 1048576.0::float8 AS u, (hashint8extended(n, 2) & 1048575) / 1048576.0::float8 AS v,
         (hashint8extended(n, 3) & 1048575) %% 100 AS w, (hashint8extended(n, 4) & 1048575) %% 100 AS x,
         (hashint8extended(n, 5) & 1048575) %% 10000 AS y
  FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n,
       LATERAL (SELECT (%(count)s - n) * (%(seconds)s::float8 / %(count)s) AS l) s),
timed AS (
  SELECT numbered.*, lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS ms, night.id AS parent,
         night.tool AS night_tool
  FROM numbered LEFT JOIN unnest(%(nights)s::uuid[], %(slots)s::timestamptz[], %(night_tools)s::text[])
    AS night (id, slot, tool) ON night.slot = date_bin('30 minutes', at, '2000-01-01 00:00Z'))
SELECT n, at, u, w, x, y, parent,
       (ms || '7' || substr(h, 1, 3) || 'a' || substr(h, 4, 15))::uuid AS id,
       (ms || '7' || substr(g, 1, 3) || 'b' || substr(g, 4, 15))::uuid AS run,
       (ms || '7' || substr(h, 8, 3) || '8' || substr(g, 14, 15))::uuid AS attempt_id,
       (ms || '7' || substr(g, 8, 3) || '9' || substr(h, 14, 15))::uuid AS first_attempt_id,
       CASE WHEN parent IS NULL THEN (%(people)s::uuid[])[1 + floor(v * v * %(people_count)s)::int]
            ELSE %(scheduler)s::uuid END AS person,
       'TCK-' || (1000 + floor(power(u, 1.5) * %(tickets)s)::bigint) AS subject,
       substr(md5((u * 1e9)::bigint::text), 1, 16) AS input_hash,
       t.tool, CASE WHEN n > %(count)s * 0.7 THEN t.newest ELSE 1 END AS version,
       t.effect, CASE WHEN n > %(count)s * 0.7 THEN t.newest_sha ELSE t.sha END AS sha, t.result, f.code, f.reason, f.http_status AS failed_with, f.retryable,
       CASE WHEN at > %(now)s::timestamptz - interval '20 s' OR y = 7 AND at > %(now)s::timestamptz - interval '3 days'
            THEN 'pending' WHEN f.code IS NULL THEN 'applied' ELSE 'failed' END AS status,
       CASE WHEN y < 200 THEN 2 ELSE 1 END AS attempt,
       800 + floor(-1400 * ln(1.0001 - u))::int AS fill_ms
FROM timed
JOIN LATERAL (SELECT * FROM unnest(%(tools)s::text[], %(effects)s::text[], %(shas)s::text[], %(newest)s::int[],
                 %(newest_shas)s::text[], %(results)s::text[], %(tool_from)s::int[], %(tool_to)s::int[])
              AS t (tool, effect, sha, newest, newest_sha, result, low, high)
              WHERE CASE WHEN night_tool IS NULL THEN w >= low AND w < high ELSE tool = night_tool END) t ON true
LEFT JOIN LATERAL (SELECT * FROM unnest(%(codes)s::text[], %(reasons)s::text[], %(statuses)s::int[], %(retryables)s::bool[],
                 %(code_from)s::int[], %(code_to)s::int[]) AS f (code, reason, http_status, retryable, low, high)
              WHERE x >= low AND x < high AND y %% 20 = 1) f ON true
"""  # noqa: E501

_WRITE = """
INSERT INTO runs (id, workflow, trigger, parent_id, actor_id, started_at, manifest)
SELECT run, CASE WHEN parent IS NULL THEN tool ELSE (SELECT workflow FROM runs r WHERE r.id = parent) END,
  CASE WHEN parent IS NULL THEN 'press' ELSE 'schedule' END, parent, person, at, '{"app_version": "generated"}' FROM made;

INSERT INTO tool_receipts (id, user_id, actor_id, idempotency_key, request_fingerprint, run_id, tool_name,
  contract_version, contract_sha256, effect, subject, input_hash, arguments_json, status, attempt, started_at,
  deadline_at, settled_at, applied_at, created_at, http_status, error_code, error_reason, retryable, result_ref,
  context_moved, root_id, model, provider_host, finish_reason, prompt_tokens, completion_tokens, fill_ms, apply_ms)
SELECT id, person, person, %(prefix)s || %(token)s || ':' || n, '\\x00', run, tool, version, sha, effect, subject,
  input_hash, CASE WHEN status = 'applied' THEN jsonb_build_object('ticket_id', subject, 'assignee', 'ada', 'summary',
    'Call the customer back about the login; the certificate ran out. ' || n) ELSE '{}' END,
  status, attempt, at, at + interval '30 s',
  CASE WHEN status <> 'pending' THEN at + (fill_ms + 5) * interval '1 ms' END,
  CASE WHEN status = 'applied' THEN at + (fill_ms + 5) * interval '1 ms' END, at,
  CASE status WHEN 'applied' THEN 201 WHEN 'failed' THEN failed_with END,
  CASE WHEN status = 'failed' THEN code END, CASE WHEN status = 'failed' THEN reason END,
  CASE WHEN status = 'failed' THEN retryable END, CASE WHEN status = 'applied' THEN result || n END,
  false, id, 'gpt-4o-mini', 'provider.test', CASE WHEN status = 'applied' THEN 'stop' END, 700, 60,
  CASE WHEN status <> 'pending' THEN fill_ms END, CASE WHEN status = 'applied' THEN 4 END
FROM made;

INSERT INTO attempts (id, receipt_id, attempt, actor_id, started_at, finished_at, status, http_status, error_code,
  error_reason, replayable, model_decision, tool_result)
SELECT attempt_id, id, attempt, person, at, at + (fill_ms + 5) * interval '1 ms',
  CASE WHEN status = 'applied' THEN 'ok' WHEN retryable THEN 'retryable' ELSE 'failed' END,
  CASE WHEN status = 'applied' THEN 201 ELSE failed_with END, CASE WHEN status = 'failed' THEN code END,
  CASE WHEN status = 'failed' THEN reason END, status = 'failed',
  jsonb_build_object('proposed', NULL, 'model', 'gpt-4o-mini', 'provider_host', 'provider.test', 'calls', 1),
  jsonb_build_object('effect', effect, 'result_ref', CASE WHEN status = 'applied' THEN result || n END, 'error', NULL)
FROM made WHERE status <> 'pending'
UNION ALL
SELECT first_attempt_id, id, 1, person, at, at + interval '1 ms', 'retryable', 502, 'fill_failed', 'provider_timeout', true,
  NULL, jsonb_build_object('effect', effect, 'result_ref', NULL, 'error', 'fill_failed')
FROM made WHERE attempt = 2;

INSERT INTO audit_events (at, actor_id, verb, receipt_id, detail)
SELECT at, person, 'retry', id, '{"attempt": 2}' FROM made WHERE attempt = 2
UNION ALL
SELECT at, NULL, 'retarget_refused', id, '{}'::jsonb FROM made WHERE status = 'failed' AND code = 'arg_mismatch';
"""  # noqa: E501

#: One permanent failure in ten is replayed by an operator some hours later, and then applied.
_REPLAY = """
CREATE TEMPORARY TABLE again ON COMMIT DROP AS
SELECT made.*, at + (1 + y %% 40) * interval '1 hour' AS later,
  (substr(id::text, 1, 19) || 'c' || substr(id::text, 21))::uuid AS new_id,
  (substr(run::text, 1, 19) || 'c' || substr(run::text, 21))::uuid AS new_run,
  (substr(attempt_id::text, 1, 19) || 'c' || substr(attempt_id::text, 21))::uuid AS new_attempt
FROM made WHERE status = 'failed' AND NOT retryable AND (y / 20) %% 10 = 0
  AND at + (1 + y %% 40) * interval '1 hour' < %(now)s::timestamptz - interval '1 minute';

INSERT INTO runs (id, workflow, trigger, actor_id, started_at, manifest)
SELECT new_run, tool, 'replay', %(operator)s, later, '{"app_version": "generated"}' FROM again;

INSERT INTO tool_receipts (id, user_id, actor_id, on_behalf_of, idempotency_key, request_fingerprint, run_id, tool_name,
  contract_version, contract_sha256, effect, subject, input_hash, arguments_json, status, attempt, started_at,
  deadline_at, settled_at, applied_at, created_at, http_status, result_ref, context_moved, root_id, replay_of, replay_no,
  replay_reason, apply_ms)
SELECT new_id, %(operator)s, %(operator)s, person, 'replay:' || id || ':1', '\\x00', new_run, tool, version, sha, effect,
  subject, input_hash, '{}', 'applied', 1, later, later + interval '30 s', later + interval '9 ms',
  later + interval '9 ms', later, 201, result || n || 'R', false, id, id, 1, 'The cause is mended; generated.', 4 FROM again;

INSERT INTO attempts (id, receipt_id, attempt, actor_id, started_at, finished_at, status, http_status, replayable,
  tool_result)
SELECT new_attempt, new_id, 1, %(operator)s, later, later + interval '9 ms', 'ok', 201, false,
  jsonb_build_object('effect', effect, 'result_ref', result || n || 'R', 'error', NULL) FROM again;

INSERT INTO audit_events (at, actor_id, verb, receipt_id, detail)
SELECT later, %(operator)s, 'replay', new_id, jsonb_build_object('reason', 'The cause is mended; generated.')
FROM again;
"""  # noqa: E501

_NIGHTS = """
INSERT INTO runs (id, workflow, trigger, actor_id, slot, started_at, finished_at, manifest)
SELECT p.id, p.workflow, 'schedule', %(scheduler)s, p.slot, p.slot, p.slot + interval '30 minutes',
  '{"app_version": "generated", "zone": "UTC"}'
FROM unnest(%(nights)s::uuid[], %(slots)s::timestamptz[], %(workflows)s::text[]) AS p (id, slot, workflow)
ON CONFLICT DO NOTHING
"""
#: A night that another generation had has its run already.
_THERE = """
SELECT (SELECT r.id FROM runs r WHERE r.workflow = p.workflow AND r.slot = p.slot)
FROM unnest(%(slots)s::timestamptz[], %(workflows)s::text[]) WITH ORDINALITY AS p (slot, workflow, n) ORDER BY n
"""
_PLANNED = """
UPDATE runs SET planned = (SELECT count(*) FROM runs held WHERE held.parent_id = runs.id) WHERE id = ANY (%(nights)s)
"""


def holds_real_receipts() -> bool:
    """Whether any receipt is there that was not generated, or replays one that was."""
    with connection.cursor() as cursor:
        cursor.execute(_REAL)
        row = cursor.fetchone()
        return bool(row and row[0])


def generate(count: int, *, now: dt.datetime, operator: Any) -> Iterator[int]:
    """Write `count` receipts, the last of them at `now`; yields how many are there. Each batch is a transaction.

    `operator`: who replays.
    """
    given = _given(count, now, operator)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_NIGHTS, given)
        cursor.execute(_THERE, given)
        given["nights"] = [row[0] for row in cursor.fetchall()]
    batches = [(first, min(first + BATCH - 1, count)) for first in range(1, count + 1, BATCH)]
    done = 0
    with ThreadPoolExecutor(SESSIONS) as pool:
        for written in as_completed([pool.submit(_write, given | {"first": a, "last": b}) for a, b in batches]):
            done += written.result()
            yield done
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_PLANNED, given)


def analyze() -> None:
    """What autovacuum would do in its time: statistics, and the map of visible pages."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) tool_receipts, attempts, runs, audit_events")


def _write(given: dict[str, Any]) -> int:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
            if (cursor.fetchone() or [False])[0]:
                # no look-up of each foreign key, which the statements below bring along; the guards stand (ALWAYS)
                cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("SET LOCAL synchronous_commit = off")
            for statement in (_MADE, *_statements(_WRITE), *_statements(_REPLAY)):
                cursor.execute(statement, given)
    finally:
        connection.close()
    return int(given["last"] - given["first"] + 1)


def _statements(script: str) -> list[str]:
    return [statement for statement in script.split(";\n") if statement.strip()]


def _given(count: int, now: dt.datetime, operator: Any) -> dict[str, Any]:
    """The parameters of all statements."""
    begin = now - SPAN
    nights = [
        (uuid7(), slot, workflow.name, workflow.tool)
        for day in range(SPAN.days + 1)
        for number, workflow in enumerate(workflows.registry)
        if number < 2
        and begin <= (slot := _three(begin + dt.timedelta(days=day)) + dt.timedelta(minutes=30 * number)) < now
    ]
    held = {tool.name: tool for tool in registry if tool.version == 1}
    newest = {tool.name: tool for tool in sorted(registry, key=lambda tool: tool.version)}
    tools = [row for row in _TOOLS if row[0] in held]
    to = _cumulated([weight for _name, weight, _result in tools])
    code_to = _cumulated([weight for _error, weight in _FAILURES])
    return {
        "count": count,
        "now": now,
        "seconds": SPAN.total_seconds(),
        "token": uuid.uuid4().hex[:8],
        "prefix": PREFIX,
        "people": _people(),
        "people_count": PEOPLE,
        "scheduler": workflows.scheduler().pk,
        "operator": operator.pk,
        "tickets": TICKETS,
        "nights": [night[0] for night in nights],
        "slots": [night[1] for night in nights],
        "workflows": [night[2] for night in nights],
        "night_tools": [night[3] for night in nights],
        "tools": [row[0] for row in tools],
        "effects": [str(held[row[0]].effect) for row in tools],
        "shas": [held[row[0]].schema_sha256 for row in tools],
        "newest": [newest[row[0]].version for row in tools],
        "newest_shas": [newest[row[0]].schema_sha256 for row in tools],
        "results": [row[2] for row in tools],
        "tool_from": [0, *to[:-1]],
        "tool_to": [*to[:-1], 100],
        "codes": [error.code for error, _weight in _FAILURES],
        "reasons": [error.reason for error, _weight in _FAILURES],
        "statuses": [error.http_status for error, _weight in _FAILURES],
        "retryables": [error.retryable for error, _weight in _FAILURES],
        "code_from": [0, *code_to[:-1]],
        "code_to": [*code_to[:-1], 100],
    }


def _three(day: dt.datetime) -> dt.datetime:
    return day.astimezone(dt.UTC).replace(hour=3, minute=0, second=0, microsecond=0)


def _cumulated(weights: list[int]) -> list[int]:
    return [sum(weights[: number + 1]) for number in range(len(weights))]


def _people() -> list[Any]:
    """`generated-001` and so on, who cannot sign in."""
    users: Any = get_user_model().objects
    names = [f"generated-{number:03}" for number in range(1, PEOPLE + 1)]
    there = set(users.filter(username__in=names).values_list("username", flat=True))
    users.bulk_create(users.model(username=name, password="!") for name in names if name not in there)  # noqa: S106
    return list(users.filter(username__in=names).order_by("username").values_list("pk", flat=True))
