"""What is put into the queue: enqueued with the receipt, in one transaction, or not at all.

The queue is procrastinate's, in the same database. Jobs carry ids, never anybody's text; a job that runs twice finds
that its attempt has begun, and does nothing.
"""

from __future__ import annotations

import datetime as dt
import uuid

from django.conf import settings
from django.db import connection
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager
from procrastinate.tasks import configure_task

from receipts.errors import DatabaseUnavailable
from receipts.models import Receipt

#: Attempts, on every worker.
QUEUE = "attempts"
RUN_ATTEMPT, RETRY_ATTEMPT = "receipts.run_attempt", "receipts.retry_attempt"
RUN_WORKFLOW = "receipts.run_workflow"
#: A worker that has not been heard of for so long is dead (procrastinate's heartbeat is 10 s).
SILENT_SECONDS = 30.0
#: An attempt's job ends soon after its attempt: so much later nobody works on it. Any other job: a run's opening takes
#: a minute for ten thousand receipts.
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


def _enqueue(task: str, receipt: Receipt, at: dt.datetime | None) -> None:
    job = configure_task(name=task, job_manager=_JOBS, queue=QUEUE, schedule_at=at)
    try:
        job.defer(receipt_id=str(receipt.pk), attempt=receipt.attempt)
    except ConnectorException as error:
        raise DatabaseUnavailable(
            "The job could not be queued. Nothing was drafted or filed.", retry_after=2
        ) from error


def enqueue_run(run_id: uuid.UUID, workflow: str) -> None:
    """Have a worker carry out a workflow's run. In the caller's transaction, if there is one.

    One run of a workflow at a time chooses and opens: the next one sees what the last has under way, and a ticket is
    not drafted for twice. Raises: DatabaseUnavailable.
    """
    lock = f"{RUN_WORKFLOW}:{workflow}"
    job = configure_task(name=RUN_WORKFLOW, job_manager=_JOBS, queue=QUEUE, lock=lock)
    try:
        job.defer(run_id=str(run_id))
    except ConnectorException as error:
        raise DatabaseUnavailable("The run could not be queued. Nothing was opened.", retry_after=2) from error


def is_run_enqueued(run_id: uuid.UUID) -> bool:
    """Whether a job for the run waits or is being carried out, by a worker that may have died since."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM procrastinate_jobs"
            " WHERE task_name = %s AND args ->> 'run_id' = %s AND status IN ('todo', 'doing'))",
            [RUN_WORKFLOW, str(run_id)],
        )
        return bool(cursor.fetchone()[0])


def enqueue_bulk_replay(bulk_id: uuid.UUID) -> None:
    """Have a worker carry a bulk replay on, one at a time. In the caller's transaction, if there is one.

    Raises: DatabaseUnavailable.
    """
    job = configure_task(name="receipts.bulk_replay", job_manager=_JOBS, queue=QUEUE, lock=_bulk_lock(bulk_id))
    try:
        job.defer(bulk_id=str(bulk_id))
    except ConnectorException as error:
        raise DatabaseUnavailable("The bulk replay could not be queued. Nothing was run.", retry_after=2) from error


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


# Of a living worker too: one whose database went away while it took a job, or while it said that the job is done, does
# not know of it any more. By the database's clock; the lock keeps a job that just ends from being put back.
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
