"""Runs that hold others: opened by a schedule or a command, planned when they have chosen, finished with the last.

A press's own run is written with its receipt (`opening`), and needs none of this.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from receipts.ids import uuid7
from receipts.ledger.events import Event, record
from receipts.models import Run
from receipts.statements import fetch_row

#: A receipt that the system continues by itself. Its moment may be over: while the provider does not answer, it is held
#: as long as the system retries at all; and a busy worker comes a little late.
RETRYING = """(r.status = 'failed' AND r.next_attempt_at IS NOT NULL AND clock_timestamp() <
  greatest(r.next_attempt_at + interval '1 minute', r.created_at + make_interval(secs => %(retried)s::float8)))"""

_OPEN = """
INSERT INTO runs (id, workflow, trigger, actor_id, slot, started_at, manifest)
VALUES (%(id)s::uuid, %(workflow)s, %(trigger)s, %(actor)s::uuid, %(slot)s::timestamptz, clock_timestamp(),
        %(manifest)s::jsonb)
ON CONFLICT (workflow, slot) DO NOTHING
RETURNING id
"""


def open_run(
    *,
    workflow: str,
    trigger: str,
    actor_id: uuid.UUID,
    manifest: dict[str, Any],
    enqueue: Callable[[uuid.UUID], None],
    slot: dt.datetime | None = None,
) -> uuid.UUID | None:
    """Open a workflow's run, and `enqueue` its job beside it, in one transaction.

    None: another scheduler has opened the slot's run, and nothing was written or enqueued here.
    """
    with transaction.atomic(durable=True):
        row = fetch_row(
            _OPEN,
            {
                "id": uuid7(),
                "workflow": workflow,
                "trigger": trigger,
                "actor": actor_id,
                "slot": slot,
                "manifest": json.dumps(manifest),
            },
        )
        if row is None:
            return None
        run_id: uuid.UUID = row[0]
        enqueue(run_id)
        return run_id


class Outdated(Exception):
    """The workflow's subjects have been chosen again since: what the earlier choice had in mind is not opened."""


_CHOOSE_ANEW = """
INSERT INTO workflow_choices AS known (workflow, number) VALUES (%(workflow)s::text, 1)
ON CONFLICT (workflow) DO UPDATE SET number = known.number + 1
RETURNING number
"""

_STILL_CHOSEN = """
SELECT number FROM workflow_choices WHERE workflow = %(workflow)s::text AND number = %(number)s::int FOR SHARE
"""


def choose_anew(workflow: str) -> int:
    """Begin to choose a workflow's subjects: the choice's number, which every opening names.

    Waits for openings of the choice before, so that what it opened is seen; afterwards it opens nothing more, whatever
    held up the process that made it.
    """
    row = fetch_row(_CHOOSE_ANEW, {"workflow": workflow})
    assert row is not None  # noqa: S101 - for the type checker
    number: int = row[0]
    return number


def must_be_chosen(workflow: str, number: int) -> None:
    """Hold the choice while the caller's transaction opens what it chose. Raises: Outdated."""
    if fetch_row(_STILL_CHOSEN, {"workflow": workflow, "number": number}) is None:
        raise Outdated(f"{workflow} #{number}")


def plan_run(run_id: uuid.UUID, planned: int) -> bool:
    """Say how many receipts the run sets out to open. False: it has finished, and nothing may be opened for it."""
    return bool(Run.objects.filter(pk=run_id, finished_at__isnull=True).update(planned=planned))


_FINISH = f"""
WITH held AS (
  SELECT count(*) AS opened, count(*) FILTER (WHERE r.status = 'pending' OR {RETRYING}) AS unsettled
  FROM runs child JOIN tool_receipts r ON r.run_id = child.id WHERE child.parent_id = %(id)s::uuid)
UPDATE runs SET finished_at = clock_timestamp() FROM held
WHERE runs.id = %(id)s::uuid AND finished_at IS NULL AND unsettled = 0
  AND (opened >= planned OR %(as_it_stands)s::boolean)
RETURNING runs.id
"""  # noqa: S608


def finish_run(run_id: uuid.UUID, *, as_it_stands: bool = False, event: Event | None = None) -> bool:
    """Stamp the run's end, if all that it planned is opened and settled for good. False: not yet, or not first.

    `as_it_stands`: nothing more will be opened, so what is opened is all; `event` says why, in the same transaction.
    """
    parameters = {"id": run_id, "as_it_stands": as_it_stands, "retried": settings.RETRY_WITHIN_SECONDS}
    if event is None:
        return fetch_row(_FINISH, parameters) is not None
    with transaction.atomic(durable=True):
        finished = fetch_row(_FINISH, parameters) is not None
        if finished:
            record(event, run_id=run_id)
    return finished


@dataclass(frozen=True, kw_only=True)
class Count:
    """Receipts of a run that stand alike."""

    status: str
    retrying: bool
    error_code: str | None
    error_reason: str | None
    receipts: int


_COUNTS = f"""
SELECT child.parent_id, r.status, {RETRYING} IS TRUE, r.error_code, r.error_reason, count(*)
FROM runs child JOIN tool_receipts r ON r.run_id = child.id WHERE child.parent_id = ANY(%(runs)s::uuid[])
GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC, 4, 5
"""  # noqa: S608


def counts_of(run_id: uuid.UUID) -> list[Count]:
    """How the receipts of a workflow's run stand, in one grouped query, the most frequent first."""
    return counts_of_each([run_id])[run_id]


def counts_of_each(run_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[Count]]:
    """The same of several runs, for lists: one query as well. A run without receipts has no counts."""
    counts: dict[uuid.UUID, list[Count]] = {run_id: [] for run_id in run_ids}
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"runs": list(counts), "retried": settings.RETRY_WITHIN_SECONDS})
        for run_id, status, retrying, code, reason, receipts in cursor.fetchall():
            count = Count(status=status, retrying=retrying, error_code=code, error_reason=reason, receipts=receipts)
            counts[run_id].append(count)
    return counts
