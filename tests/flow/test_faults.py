"""Whatever fails, alone or all at once: every receipt is settled, nothing is doubled or lost, and I1 to I8 hold.

Real processes, a database, a provider and clocks that fail; the soak (`benchmarks.soak`) makes them fail, small here.
Its verdicts are asserted, never its timing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from benchmarks.soak import FAULTS, Options, run
from benchmarks.soak.plan import PER_MINUTE, plan
from benchmarks.soak.product import SKEWED
from receipts.models import Attempt, Receipt
from receipts_project.accounts.models import User
from tests.flow.conftest import Presser
from tests.flow.provider import GOOD, Provider
from tests.flow.test_file import overdue
from tests.flow.web import ROOT, Process, Web, Worker, dsn, eventually
from tickets.models import Followup

pytestmark = pytest.mark.processes
KEY = "follow-7f3a"
AHEAD, BEHIND = 600, -600


def clock_off_by(seconds: int) -> dict[str, str]:
    """The environment of a process whose wall clock is wrong by so much; the database's is right."""
    return {"SOAK_CLOCK_SKEW_SECONDS": str(seconds), "PYTHONPATH": str(SKEWED)}


@pytest.fixture
def ends() -> Iterator[Callable[[Any], Any]]:
    started: list[Process] = []

    def ends(process: Any) -> Any:
        started.append(process)
        return process

    yield ends
    for process in started:
        process.end()


def the_receipt() -> Receipt:
    return Receipt.objects.get()


class TestAClockThatIsWrong:
    """Of the process alone: deadlines, sweeps and retries go by the database's."""

    def test_the_process_really_believes_it(self) -> None:
        told = subprocess.run(
            [sys.executable, "-c", "import time, datetime; print(time.time(), datetime.datetime.now().timestamp())"],
            env={**os.environ, **clock_off_by(AHEAD)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        true = float(subprocess.run(["date", "+%s"], capture_output=True, text=True, check=True).stdout)
        assert all(AHEAD - 60 < float(believed) - true < AHEAD + 60 for believed in told)

    def test_ahead_calls_and_sweeps_nothing_overdue(self, alice: User, desk: Provider, ends: Any) -> None:
        web = ends(Web(user=alice, provider_url=desk.url, **clock_off_by(AHEAD)))
        desk.gate.clear()
        press = web.post_later(KEY)
        desk.wait_for_calls(1)

        told = web.get(f"receipts/{the_receipt().pk}").json()
        assert (told["status"], told["overdue"]) == ("pending", False)
        refused = web.post(KEY)
        assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_in_flight")
        assert swept(AHEAD) == "0 receipts settled as abandoned"

        desk.gate.set()
        assert press.result(60).status_code == 201
        assert (the_receipt().attempt, Followup.objects.count()) == (1, 1)

    def test_behind_tells_and_sweeps_what_is_overdue(self, alice: User, desk: Provider, ends: Any) -> None:
        web = ends(Web(user=alice, provider_url=desk.url, **clock_off_by(BEHIND)))
        desk.gate.clear()
        press = web.post_later(KEY)
        desk.wait_for_calls(1)
        overdue(the_receipt())

        assert web.get(f"receipts/{the_receipt().pk}").json()["overdue"]
        assert swept(BEHIND) == "1 receipt settled as abandoned"
        desk.gate.set()

        assert press.result(60).status_code == 504
        assert Followup.objects.count() == 0
        assert web.post(KEY).json()["attempt"] == 2

    @pytest.mark.parametrize("skew", [AHEAD, BEHIND])
    def test_retries_come_when_the_database_says(self, press: Presser, desk: Provider, ends: Any, skew: int) -> None:
        good = desk.answer
        desk.answer = lambda request: (500, {}) if desk.calls < 2 else good(request)
        press(respond_async=True)
        connection.close()
        worker = Worker(provider_url=desk.url, RETRY_FIRST_SECONDS="1", **clock_off_by(skew))
        ends(worker)

        eventually(lambda: the_receipt().status == "applied")

        first, second = Attempt.objects.order_by("attempt")
        waited = (second.started_at - first.finished_at).total_seconds()  # type: ignore[operator]
        assert waited >= 0.5  # half of it is chance


def swept(skew: int) -> str:
    """What `manage.py sweep` says in a process whose clock is wrong."""
    environ = {**os.environ, "DATABASE_URL": dsn(), **clock_off_by(skew)}
    done = subprocess.run(
        [sys.executable, "manage.py", "sweep"], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


class TestAWorkerFrozenPastItsDeadline:
    def test_wakes_up_to_a_row_that_is_not_its_own(self, press: Presser, desk: Provider, ends: Any) -> None:
        press(respond_async=True)
        connection.close()
        frozen = ends(Worker(provider_url=desk.url))
        desk.gate.clear()
        desk.wait_for_calls(1)
        frozen.signal(signal.SIGSTOP)
        overdue(the_receipt())
        desk.says({**GOOD, "summary": "The customer still cannot sign in."})
        desk.gate.set()

        assert swept(0) == "1 receipt settled as abandoned"
        ends(Worker(provider_url=desk.url, RETRY_FIRST_SECONDS="0.1"))
        eventually(lambda: the_receipt().status == "applied")
        applied = the_receipt()

        frozen.signal(signal.SIGCONT)
        frozen.signal(signal.SIGTERM)  # it lets its attempt come to its end first
        frozen.wait()

        assert the_receipt().settled_at == applied.settled_at
        assert (the_receipt().attempt, Followup.objects.count()) == (2, 1)
        assert list(Attempt.objects.order_by("attempt").values_list("error_code", flat=True)) == ["abandoned", None]


# ── the soak ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan(Options(seed=3)) == plan(Options(seed=3)) != plan(Options(seed=4))
    assert {fault.kind for fault in plan(Options())} == set(PER_MINUTE)


@pytest.mark.parametrize("fault", ["kill-database", "outage"])
def test_survives(fault: str) -> None:
    options = Options(filings=60, seconds=6, seed=11, webs=1, workers=1, faults=(fault,), stale=0, hasten=True)
    holds(options)


def test_survives_everything_at_once() -> None:
    holds(Options(filings=500, seconds=25, seed=12, latency=0.15, fill_budget=2.0, deadline=4.0, hasten=True))


def holds(options: Options) -> None:
    tally = run(options)
    assert not tally.broken, f"{tally}\n{tally.tracebacks}"
    wanted = set(options.faults) - {"skew"}
    assert wanted <= set(tally.figures["faults"]), tally.figures["faults"]
    assert tally.figures["certain to their clients"]["applied"] > options.filings * 0.8
    assert set(options.faults) <= set(FAULTS)
