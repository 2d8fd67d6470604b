"""What is put into the queue: enqueued with the receipt, in one transaction, or not at all.

The queue is procrastinate's, in the same database. Jobs carry ids, never anybody's text; a job that runs twice finds
that its attempt has begun, and does nothing.
"""

from __future__ import annotations

import datetime as dt
import uuid

from django.db import connection
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager
from procrastinate.tasks import configure_task

from receipts.errors import DatabaseUnavailable
from receipts.models import Receipt

#: Attempts, on every worker.
QUEUE = "attempts"
#: Writes through Django's connection, in its transaction. In a worker, procrastinate's own would take one of the
#: worker's connections: the job would commit alone, and two settling threads at once would wait for ever.
_JOBS = JobManager(DjangoConnector())


def enqueue_attempt(receipt: Receipt, at: dt.datetime | None = None) -> None:
    """Have a worker begin this queued attempt, now or then.

    In the caller's transaction. Raises: DatabaseUnavailable.
    """
    _enqueue("receipts.run_attempt", receipt, at)


def enqueue_retry(receipt: Receipt, at: dt.datetime) -> None:
    """Have a worker continue this failed receipt then. In the caller's transaction. Raises: DatabaseUnavailable."""
    _enqueue("receipts.retry_attempt", receipt, at)


def _enqueue(task: str, receipt: Receipt, at: dt.datetime | None) -> None:
    job = configure_task(name=task, job_manager=_JOBS, queue=QUEUE, schedule_at=at)
    try:
        job.defer(receipt_id=str(receipt.pk), attempt=receipt.attempt)
    except ConnectorException as error:
        raise DatabaseUnavailable(
            "The job could not be queued. Nothing was drafted or filed.", retry_after=2
        ) from error


def enqueue_run(run_id: uuid.UUID) -> None:
    """Have a worker carry out a workflow's run, one at a time. In the caller's transaction, if there is one.

    Raises: DatabaseUnavailable.
    """
    job = configure_task(name="receipts.run_workflow", job_manager=_JOBS, queue=QUEUE, lock=_lock(run_id))
    try:
        job.defer(run_id=str(run_id))
    except ConnectorException as error:
        raise DatabaseUnavailable("The run could not be queued. Nothing was opened.", retry_after=2) from error


def is_run_enqueued(run_id: uuid.UUID) -> bool:
    """Whether a job for the run waits or is being carried out, by a worker that may have died since."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE lock = %s AND status IN ('todo', 'doing'))",
            [_lock(run_id)],
        )
        return bool(cursor.fetchone()[0])


def _lock(run_id: uuid.UUID) -> str:
    return f"receipts.run_workflow:{run_id}"
