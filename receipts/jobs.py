"""What is put into the queue: enqueued with the receipt, in one transaction, or not at all.

The queue is procrastinate's, in the same database. Jobs carry ids, never anybody's text; a job that runs twice finds
that its attempt has begun, and does nothing.
"""

from __future__ import annotations

import datetime as dt

from procrastinate.contrib.django import app
from procrastinate.exceptions import ConnectorException

from receipts.errors import DatabaseUnavailable
from receipts.models import Receipt

#: Attempts, on every worker.
QUEUE = "attempts"


def enqueue_attempt(receipt: Receipt) -> None:
    """Have a worker begin this queued attempt. In the caller's transaction. Raises: DatabaseUnavailable."""
    _enqueue("receipts.run_attempt", receipt, None)


def enqueue_retry(receipt: Receipt, at: dt.datetime) -> None:
    """Have a worker continue this failed receipt then. In the caller's transaction. Raises: DatabaseUnavailable."""
    _enqueue("receipts.retry_attempt", receipt, at)


def _enqueue(task: str, receipt: Receipt, at: dt.datetime | None) -> None:
    job = app.configure_task(task, queue=QUEUE, schedule_at=at)
    try:
        job.defer(receipt_id=str(receipt.pk), attempt=receipt.attempt)
    except ConnectorException as error:
        raise DatabaseUnavailable(
            "The job could not be queued. Nothing was drafted or filed.", retry_after=2
        ) from error
