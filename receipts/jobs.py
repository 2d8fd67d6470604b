"""What is put into the queue: enqueued with the receipt, in one transaction, or not at all.

The queue is procrastinate's, in the same database. Jobs carry ids, never anybody's text; a job that runs twice finds
that its attempt has begun, and does nothing. Its table holds what waits and what failed in the last days: a job that
succeeds is deleted, so what reads all of it once a minute reads a backlog and no history.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from django.conf import settings
from django.db import connection
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import JobDeferrer
from procrastinate.manager import JobManager
from procrastinate.tasks import configure_task

from receipts.errors import DatabaseUnavailable
from receipts.models import Receipt
from receipts.statements import fetch_row

#: Attempts, and what opens them, on every worker.
QUEUE = "attempts"
#: The minute's and the hour's work, in places that no attempt can take. The library's own name: a job that an older
#: version left there would else keep its successors out by its queueing lock.
HOUSEKEEPING = "default"
#: The order in the queue, highest first: what keeps everything else going; the next part of a run that is being opened;
#: what somebody asked for; what a schedule, a command or a bulk replay opened by the hundred.
FIRST, NEXT_PART, USUAL, LATER = 10, 1, 0, -10
RUN_ATTEMPT, RETRY_ATTEMPT = "receipts.run_attempt", "receipts.retry_attempt"
RUN_WORKFLOW = "receipts.run_workflow"
#: A worker that has not been heard of for so long is dead (procrastinate's heartbeat is 10 s).
SILENT_SECONDS = 30.0
#: An attempt's job ends soon after its attempt: so much later nobody works on it. Any other job hands over to the next
#: after some twenty seconds, however much there is to open.
AFTER_DEADLINE_SECONDS, LONGEST_JOB_SECONDS = 30.0, 300.0
#: Writes through Django's connection, in its transaction. In a worker, procrastinate's own would take one of the
#: worker's connections: the job would commit alone, and two settling threads at once would wait for ever.
_JOBS = JobManager(DjangoConnector())


def enqueue_attempt(receipt: Receipt, at: dt.datetime | None = None) -> None:
    """Have a worker begin this queued attempt, now or then.

    In the caller's transaction. Raises: DatabaseUnavailable.
    """
    _enqueue(RUN_ATTEMPT, receipt, at)


def enqueue_retry(receipt: Receipt, at: dt.datetime) -> None:
    """Have a worker continue this failed receipt then. In the caller's transaction. Raises: DatabaseUnavailable."""
    _enqueue(RETRY_ATTEMPT, receipt, at)


# By its row, so that a retry, a hold and a follow-on keep their place as well. By primary key and by a unique index.
_BY_THE_HUNDRED = """
SELECT trigger IN ('schedule', 'command')
  OR trigger = 'replay' AND EXISTS (SELECT FROM bulk_replay_items WHERE new_receipt_id = %(receipt)s::uuid)
FROM runs WHERE id = %(run)s::uuid
"""


def _enqueue(task: str, receipt: Receipt, at: dt.datetime | None) -> None:
    row = fetch_row(_BY_THE_HUNDRED, {"receipt": receipt.pk, "run": receipt.run_id})
    priority = LATER if row is not None and row[0] else USUAL
    job = configure_task(name=task, job_manager=_JOBS, queue=QUEUE, schedule_at=at, priority=priority)
    otherwise = "The job could not be queued. Nothing was drafted or filed."
    _defer(job, otherwise, receipt_id=str(receipt.pk), attempt=receipt.attempt)


def _defer(job: JobDeferrer, otherwise: str, **arguments: Any) -> None:
    """Raises: DatabaseUnavailable, with this sentence."""
    try:
        job.defer(**arguments)
    except ConnectorException as error:
        raise DatabaseUnavailable(otherwise, retry_after=2) from error


def enqueue_run(run_id: uuid.UUID, workflow: str, *, goes_on: bool = False) -> None:
    """Have a worker carry out a workflow's run. In the caller's transaction, if there is one.

    One run of a workflow at a time chooses and opens: the next one sees what the last has under way, and a ticket is
    not drafted for twice. `goes_on`: the next part of a run, before any other run of the workflow.

    Raises: DatabaseUnavailable.
    """
    lock, priority = f"{RUN_WORKFLOW}:{workflow}", NEXT_PART if goes_on else USUAL
    job = configure_task(name=RUN_WORKFLOW, job_manager=_JOBS, queue=QUEUE, lock=lock, priority=priority)
    _defer(job, "The run could not be queued. Nothing was opened.", run_id=str(run_id))


def is_run_enqueued(run_id: uuid.UUID) -> bool:
    """Whether a job for the run waits or is being carried out, by a worker that may have died since."""
    return _run_jobs(run_id, "todo", "doing") > 0


def failures_of_run(run_id: uuid.UUID) -> int:
    """How many jobs of the run failed for good; as far back as the queue keeps them."""
    return _run_jobs(run_id, "failed")


def _run_jobs(run_id: uuid.UUID, *statuses: str) -> int:
    # the task's name stands in the statement for the index `receipts_job_by_run`, which holds jobs of that name alone
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'receipts.run_workflow'"
            " AND args ->> 'run_id' = %s AND status::text = ANY(%s)",
            [str(run_id), list(statuses)],
        )
        count: int = cursor.fetchone()[0]
        return count


def enqueue_bulk_replay(bulk_id: uuid.UUID) -> None:
    """Have a worker carry a bulk replay on, one at a time. In the caller's transaction, if there is one.

    Raises: DatabaseUnavailable.
    """
    job = configure_task(name="receipts.bulk_replay", job_manager=_JOBS, queue=QUEUE, lock=_bulk_lock(bulk_id))
    _defer(job, "The bulk replay could not be queued. Nothing was run.", bulk_id=str(bulk_id))


def is_bulk_replay_enqueued(bulk_id: uuid.UUID) -> bool:
    """As for a run."""
    return _is_enqueued(_bulk_lock(bulk_id))


def _bulk_lock(bulk_id: uuid.UUID) -> str:
    return f"receipts.bulk_replay:{bulk_id}"


def _is_enqueued(lock: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE lock = %s AND status IN ('todo', 'doing'))", [lock]
        )
        return bool(cursor.fetchone()[0])


# ── what went wrong ──────────────────────────────────────────────────────────────────────────────────────────────

# Of a living worker too: one whose database went away while it took a job, or while it said that the job is done, does
# not know of it any more. By the database's clock; the lock keeps a job that just ends from being put back. Read by
# the library's unique index on locks, which is of the jobs that are being done.
_PUT_BACK = """
WITH lost AS (
  SELECT job.id FROM procrastinate_jobs job
  WHERE job.status = 'doing'
    AND (NOT EXISTS (SELECT FROM procrastinate_workers worker WHERE worker.id = job.worker_id
                     AND worker.last_heartbeat > clock_timestamp() - make_interval(secs => %(silent)s))
         OR NOT EXISTS (SELECT FROM procrastinate_events event WHERE event.job_id = job.id AND event.type = 'started'
                        AND event.at > clock_timestamp() - make_interval(
                          secs => CASE WHEN job.task_name = ANY(%(attempts)s) THEN %(attempt)s ELSE %(longest)s END)))
  FOR UPDATE OF job SKIP LOCKED)
SELECT id, procrastinate_retry_job_v2(id, clock_timestamp(), NULL, NULL, NULL) FROM lost
"""


def put_back() -> int:
    """Put back the jobs that nobody works on any more. How many.

    One that is worked on after all is not lost by it: its attempt has begun, and a second worker finds that.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _PUT_BACK,
            {
                "silent": SILENT_SECONDS,
                "attempts": [RUN_ATTEMPT, RETRY_ATTEMPT],
                "attempt": settings.ATTEMPT_DEADLINE_SECONDS + AFTER_DEADLINE_SECONDS,
                "longest": LONGEST_JOB_SECONDS,
            },
        )
        return len(cursor.fetchall())


# Receipts that wait and jobs that stand for them, each read once and set against each other: EXCEPT hashes both, where
# an anti-join over a backlog that was never analysed may compare each with each. By `receipt_pending_by_deadline` and
# `receipt_failed_by_time`, of the last two hours; of the database's clocks, an index takes this one. Row and job commit
# together, so one statement never sees one without the other.
_WITHOUT_JOB = """
WITH queued AS (
  SELECT id::text AS receipt, attempt::text FROM tool_receipts
  WHERE status = 'pending' AND started_at IS NULL AND deadline_at > statement_timestamp()
  EXCEPT
  SELECT args ->> 'receipt_id', args ->> 'attempt' FROM procrastinate_jobs
  WHERE task_name = %(run)s AND status IN ('todo', 'doing')),
retried AS (
  SELECT id::text AS receipt, attempt::text FROM tool_receipts r
  WHERE next_attempt_at < statement_timestamp() - make_interval(secs => %(grace)s)
    AND next_attempt_at > statement_timestamp() - make_interval(secs => %(within)s)
    AND created_at > statement_timestamp() - make_interval(secs => %(within)s) AND status = 'failed' AND retryable
    AND NOT EXISTS (SELECT FROM tool_receipts other WHERE other.root_id = r.root_id AND other.id <> r.id
                    AND other.status IN ('pending', 'applied') AND other.effect <> 'read')
  EXCEPT
  SELECT args ->> 'receipt_id', args ->> 'attempt' FROM procrastinate_jobs
  WHERE task_name = %(retry)s AND status IN ('todo', 'doing'))
SELECT receipt FROM queued UNION ALL SELECT receipt FROM retried LIMIT %(limit)s
"""


def without_job(limit: int) -> list[uuid.UUID]:
    """Receipts that a worker is to begin or continue, and for which no job waits: theirs failed for good, or was taken
    away."""
    with connection.cursor() as cursor:
        cursor.execute(
            _WITHOUT_JOB,
            {
                "run": RUN_ATTEMPT,
                "retry": RETRY_ATTEMPT,
                "grace": AFTER_DEADLINE_SECONDS,
                "within": settings.RETRY_WITHIN_SECONDS,
                "limit": limit,
            },
        )
        return [uuid.UUID(receipt) for (receipt,) in cursor.fetchall()]


def failed_for_good() -> int:
    """How many jobs failed for good in the days that the queue keeps them; the console's list of jobs names them."""
    row = fetch_row("SELECT count(*) FROM procrastinate_jobs WHERE status = 'failed'", {})
    return int(row[0]) if row else 0


_PURGE = """
WITH gone AS (
  DELETE FROM procrastinate_jobs WHERE id IN (
    SELECT id FROM procrastinate_jobs job
    WHERE status NOT IN ('todo', 'doing') AND NOT EXISTS (
      SELECT FROM procrastinate_events event
      WHERE event.job_id = job.id AND event.at > clock_timestamp() - make_interval(days => %(days)s::int))
    LIMIT 10000)
  RETURNING 1)
SELECT count(*) FROM gone
"""


def purge_ended() -> int:
    """Delete jobs that failed, or were cancelled, QUEUE_KEEP_DAYS ago. How many; at most ten thousand at a time."""
    row = fetch_row(_PURGE, {"days": settings.QUEUE_KEEP_DAYS})
    return int(row[0]) if row else 0
