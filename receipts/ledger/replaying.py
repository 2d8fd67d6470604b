"""Commit 1 of a replay: a new run and a new receipt, linked to the old one, which stays as it is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from django.db import IntegrityError, connection, transaction

from receipts.contracts import Context
from receipts.ids import uuid7
from receipts.ledger.opening import Opening
from receipts.ledger.rows import columns_of, constraint_of, must_be_its_own_transaction, receipt_of
from receipts.models import Receipt, Verb
from receipts.statements import fetch_row


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Why nothing was opened: another receipt speaks for the lineage, or the numbers have moved on."""

    constraint: str
    """`one_live_write_per_lineage`, `one_replay_per_number`; or `original_is_settled`, when it no longer is."""


# The original is locked, so a retry of it waits and then finds the replay, or we find the retry. What is left of the
# race, two replays of one original, the two unique indexes decide.
_REPLAY = """
WITH subject AS MATERIALIZED ({read}),
clock AS (SELECT clock_timestamp() AS now FROM subject),
original AS (
  SELECT id, root_id, coalesce(on_behalf_of, user_id) AS beneficiary FROM tool_receipts
  WHERE id = %(original)s::uuid AND (status = 'failed' OR status = 'applied' AND effect = 'read')
  FOR NO KEY UPDATE),
number AS (SELECT 1 + coalesce(max(replay_no), 0) AS no FROM tool_receipts WHERE replay_of = %(original)s::uuid),
receipt AS (
  INSERT INTO tool_receipts (
    id, user_id, on_behalf_of, actor_id, idempotency_key, request_fingerprint, run_id, tool_name, contract_version,
    contract_sha256, effect, subject, input_hash, arguments_json, status, attempt, context_moved, created_at,
    started_at, start_by, deadline_at, root_id, replay_of, replay_no, replay_reason)
  SELECT %(id)s::uuid, %(user)s::uuid, original.beneficiary, %(user)s::uuid,
    'replay:' || original.id || ':' || number.no, %(fingerprint)s::bytea,
    %(run)s::uuid, %(tool)s, %(version)s::int, %(sha256)s, %(effect)s, %(subject)s, %(input_hash)s, '{{}}'::jsonb,
    'pending', 1, false, now,
    CASE WHEN %(queued)s::boolean THEN NULL ELSE now END,
    CASE WHEN %(queued)s::boolean THEN now + make_interval(secs => %(seconds)s::float8) END,
    now + make_interval(secs => %(seconds)s::float8),
    original.root_id, original.id, number.no, %(reason)s
  FROM clock, original, number
  WHERE %(expected)s::int IS NULL OR number.no = %(expected)s::int
  RETURNING *),
run AS (
  INSERT INTO runs (id, workflow, trigger, parent_id, actor_id, started_at, manifest)
  SELECT %(run)s::uuid, %(workflow)s, 'replay', %(parent)s::uuid, %(user)s::uuid, now, %(manifest)s::jsonb
  FROM receipt, clock),
sealed AS (
  INSERT INTO sealed_inputs (receipt_id, token, created_at, expires_at)
  SELECT id, %(sealed)s::bytea, now, now + make_interval(days => %(sealed_days)s::int) FROM receipt, clock),
event AS (
  INSERT INTO audit_events (at, actor_id, verb, receipt_id, run_id, detail)
  SELECT now, %(user)s::uuid, %(verb)s, original.id, %(run)s::uuid,
    jsonb_build_object('reason', %(reason)s::text, 'replay_no', receipt.replay_no, 'replayed_as', receipt.id)
      || %(detail)s::jsonb
  FROM receipt, original, clock)
SELECT subject.context, (SELECT id FROM original), {columns} FROM subject LEFT JOIN receipt ON true
"""


@cache
def _replay_sql(read: str) -> str:
    return _REPLAY.format(read=read, columns=columns_of("receipt"))


def open_replay(
    opening: Opening,
    *,
    original: Receipt,
    reason: str,
    expected_no: int | None,
    detail: dict[str, str],
    beside: Callable[[Receipt], None] | None = None,
) -> tuple[Context | None, Receipt | Lost]:
    """Open the replay of a settled receipt with its run, its sealed input and its audit event: one statement.

    `opening.user_id` is the operator's; the key is made here, `replay:<original>:<no>`. `expected_no` is the number
    that the operator was shown. `reason` is redacted. `beside` writes what belongs to it (a job, the item of a plan)
    in the same transaction.

    No context: the subject is gone, and nothing was written; nor was it with `Lost`.
    """
    must_be_its_own_transaction()
    try:
        with transaction.atomic(durable=True):
            row = fetch_row(
                _replay_sql(opening.tool.read.sql),
                {
                    "id": uuid7(),
                    "run": uuid7(),
                    "original": original.pk,
                    "user": opening.user_id,
                    "fingerprint": opening.fingerprint,
                    "tool": opening.tool.name,
                    "version": opening.tool.version,
                    "sha256": opening.tool.schema_sha256,
                    "effect": opening.tool.effect.value,
                    "subject": opening.subject,
                    "input_hash": opening.input_hash,
                    "queued": opening.queued,
                    "seconds": opening.seconds,
                    "workflow": opening.workflow,
                    "parent": opening.parent_run_id,
                    "manifest": json.dumps(opening.manifest),
                    "sealed": opening.sealed,
                    "sealed_days": opening.sealed_days,
                    "reason": reason,
                    "expected": expected_no,
                    "verb": Verb.REPLAY.value,
                    "detail": json.dumps(detail),
                },
            )
            if row is None:
                return None, Lost(constraint="original_is_settled")
            read, found, *columns = row
            context = opening.tool.read.build(opening.subject, read)
            if columns[0] is None:
                return context, Lost(constraint="one_replay_per_number" if found else "original_is_settled")
            receipt = receipt_of(columns)
            assert receipt is not None  # noqa: S101 - for the type checker
            if beside is not None:
                beside(receipt)
            return context, receipt
    except IntegrityError as error:
        constraint = constraint_of(error)
        if constraint == "one_receipt_per_person_and_key":  # the same operator twice: the key ends in the number
            constraint = "one_replay_per_number"
        if constraint not in ("one_live_write_per_lineage", "one_replay_per_number"):
            raise
        return None, Lost(constraint=constraint)


def next_replay_no(original_id: uuid.UUID) -> int:
    """The number that the next replay of this receipt would have."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 + coalesce(max(replay_no), 0) FROM tool_receipts WHERE replay_of = %s", [original_id])
        number: int = cursor.fetchone()[0]
        return number


def newest_replay(original_id: uuid.UUID) -> uuid.UUID | None:
    """The last replay of this receipt: what an operator who came second is shown."""
    found = Receipt.objects.filter(replay_of=original_id).order_by("-replay_no")
    return found.values_list("pk", flat=True).first()
