"""Worker processes: what is queued gets done, once, whoever dies; and what nobody watches is retried."""

from __future__ import annotations

import io
import signal
from contextlib import suppress
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from procrastinate.exceptions import AlreadyEnqueued

from receipts import flow, tasks
from receipts.jobs import put_back
from receipts.models import Attempt, Receipt
from receipts_project.accounts.models import User
from tests.flow.conftest import Presser
from tests.flow.provider import GOOD, Provider
from tests.flow.web import Web, eventually
from tickets.models import Followup

pytestmark = pytest.mark.processes


def statuses() -> list[str]:
    return list(Receipt.objects.order_by("created_at").values_list("status", flat=True))


def queue(press: Presser, count: int = 1) -> list[Receipt]:
    receipts = [press(respond_async=True).receipt for _ in range(count)]
    connection.close()
    return receipts


def jobs() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs WHERE task_name LIKE 'receipts.r%_attempt'")
        count: int = cursor.fetchone()[0]
        return count


def workers() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_workers")
        count: int = cursor.fetchone()[0]
        return count


def test_files_what_was_queued_over_http(start: Any, alice: User, desk: Provider) -> None:
    web = Web(user=alice, provider_url=desk.url)
    try:
        accepted = web.post("follow-7f3a", Prefer="respond-async")
        assert accepted.status_code == 202
        assert accepted.json()["status"] == "pending"
        start()
        eventually(lambda: statuses() == ["applied"])
        assert web.post("follow-7f3a").headers["Idempotent-Replayed"] == "true"
    finally:
        web.end()


def test_two_workers_do_everything_once(start: Any, press: Presser, desk: Provider) -> None:
    queue(press, 20)
    start()
    start()

    eventually(lambda: statuses() == ["applied"] * 20)

    assert desk.calls == 20
    assert Followup.objects.count() == 20
    eventually(lambda: jobs() == 0)


def test_holds_many_fills_in_flight(start: Any, press: Presser, desk: Provider) -> None:
    desk.gate.clear()
    queue(press, 40)
    start()

    desk.wait_for_calls(40)  # all at once, on one worker
    desk.gate.set()

    eventually(lambda: statuses() == ["applied"] * 40)


def test_retries_what_nobody_watches(start: Any, press: Presser, desk: Provider) -> None:
    good = desk.answer
    desk.answer = lambda request: (500, {}) if desk.calls < 3 else good(request)
    queue(press)
    start()

    eventually(lambda: statuses() == ["applied"])

    assert list(Attempt.objects.order_by("attempt").values_list("status", flat=True)) == [
        "retryable",
        "retryable",
        "ok",
    ]


def test_sigterm_lets_attempts_end_and_gives_the_rest_back(start: Any, press: Presser, desk: Provider) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_workers")  # of other tests, which were killed
    desk.gate.clear()
    queue(press, 3)
    worker = start(MAX_IN_FLIGHT="2")
    desk.wait_for_calls(2)
    assert workers() == 2
    worker.signal(signal.SIGTERM)
    eventually(lambda: workers() == 1)  # the one that keeps house has ended; the other waits for its attempts
    desk.gate.set()

    assert worker.wait() == 0

    assert sorted(statuses()) == ["applied", "applied", "pending"]
    assert jobs() == 1  # of the third
    start()
    eventually(lambda: statuses() == ["applied"] * 3)
    assert desk.calls == 3


def test_killed_worker_is_survived(start: Any, press: Presser, desk: Provider) -> None:
    """What it was drafting is swept and continued; nothing is filed twice."""
    desk.gate.clear()
    queue(press, 3)
    worker = start(ATTEMPT_DEADLINE_SECONDS="3", FILL_BUDGET_SECONDS="2")
    desk.wait_for_calls(3)
    worker.kill()
    desk.gate.set()
    desk.says(GOOD)
    eventually(lambda: all(receipt.overdue for receipt in Receipt.objects.all()))

    assert flow.sweep() == 3
    connection.close()
    start()

    eventually(lambda: statuses() == ["applied"] * 3, 60)
    assert Followup.objects.count() == 3
    assert Attempt.objects.filter(error_code="abandoned").count() == 3


def test_job_that_a_living_worker_lost_sight_of_is_put_back(start: Any, press: Presser, desk: Provider) -> None:
    """The database went away while the worker took the job: to the queue it is being done, and nobody does it."""
    queue(press)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id")
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s", cursor.fetchone())
        assert put_back() == 0  # until its attempt must have ended
        cursor.execute("UPDATE procrastinate_events SET at = at - interval '61 seconds'")
        assert put_back() == 1
    start()

    eventually(lambda: statuses() == ["applied"])
    assert desk.calls == 1


def test_the_minutes_work_has_places_of_its_own(start: Any, press: Presser, desk: Provider) -> None:
    """All places are taken and a backlog waits, and still what is overdue is swept."""
    desk.gate.clear()
    queue(press, 6)
    start(MAX_IN_FLIGHT="2")
    desk.wait_for_calls(2)
    with connection.cursor() as cursor:  # of a process that died
        cursor.execute("ALTER TABLE tool_receipts DISABLE TRIGGER guard_transition")
        cursor.execute(
            "UPDATE tool_receipts SET deadline_at = clock_timestamp(), start_by = clock_timestamp()"
            " WHERE id = (SELECT id FROM tool_receipts WHERE started_at IS NULL ORDER BY created_at DESC LIMIT 1)"
        )
        cursor.execute("ALTER TABLE tool_receipts ENABLE ALWAYS TRIGGER guard_transition")
    with suppress(AlreadyEnqueued):  # else the minute's own is waiting
        tasks.sweep.defer(timestamp=0)
    connection.close()

    eventually(lambda: "failed" in statuses(), 10)

    assert desk.calls == 2
    assert statuses().count("pending") == 5


@pytest.mark.parametrize("number", ["0", "3"])
def test_more_places_than_the_process_has_are_refused_with_a_sentence(number: str, settings: Any) -> None:
    settings.MAX_IN_FLIGHT = 2
    with pytest.raises(CommandError, match=f"--concurrency is 1 to 2, and not {number}: MAX_IN_FLIGHT says"):
        call_command("worker", "--concurrency", number, stdout=io.StringIO())
