"""Attempts that nobody watches: the system continues them by itself, with patience and an end.

A press in the browser is the person's to repeat. A queued receipt (`Prefer: respond-async`, a schedule) is retried
here after a retryable end: a few times, later each time, never against a provider that is known to be down.
"""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

from django.conf import settings

from receipts import clock
from receipts.errors import ReceiptsError
from receipts.jobs import enqueue_retry
from receipts.models import Receipt


def is_watched(receipt: Receipt) -> bool:
    """Whether somebody waits for this attempt. A queued one has, or had, a time to start by."""
    return receipt.start_by is None


def delay_seconds(attempt: int, retry_after: int | None) -> float:
    """How long to wait after this attempt: doubling from the first, half of it by chance, so that a thousand receipts
    that failed together do not come back together; never sooner than the provider asked for."""
    full: float = min(settings.RETRY_MAX_SECONDS, settings.RETRY_FIRST_SECONDS * 2 ** (attempt - 1))
    return max(float(retry_after or 0), full / 2 + random.uniform(0, full / 2))  # noqa: S311 - jitter, no secret


def again(receipt: Receipt, error: ReceiptsError) -> dict[str, Any]:
    """What settling this failure has to say of the next attempt: nothing, or when and by which job."""
    if is_watched(receipt) or not error.retryable or receipt.attempt >= settings.RETRY_ATTEMPTS:
        return {}
    seconds = delay_seconds(receipt.attempt, error.retry_after)
    at = clock.now() + dt.timedelta(seconds=seconds)
    if at > receipt.created_at + dt.timedelta(seconds=settings.RETRY_WITHIN_SECONDS):
        return {}
    # the row says when, by the database's clock, and the job says the same
    return {
        "again_in_seconds": seconds,
        "enqueue": lambda settled: enqueue_retry(settled, settled.next_attempt_at or at),
    }
