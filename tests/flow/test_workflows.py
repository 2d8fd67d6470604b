"""The two nightly workflows: whom they choose, and that they get done by workers and by the command."""

from __future__ import annotations

import datetime as dt
import io
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from receipts import flow, ledger, queued, runs, tasks
from receipts.errors import FillFailed
from receipts.models import Attempt, Receipt, Run, Schedule
from receipts.workflows import Item
from receipts_project.accounts.models import User
from tests import factories
from tests.factories import make_ticket
from tests.flow.provider import Provider
from tests.flow.stale import drafts_for_any, say, stale_tickets, ticket_of
from tests.flow.web import ROOT, Worker, environ, eventually, held_at, waiting_at_the_point
from tickets.models import Followup, Ticket
from tickets.workflows import NIGHTLY_CONTACT_REVIEW, NIGHTLY_STALE_TICKETS, WORKFLOWS, stale_notes, unchecked_contacts
from tickets.workflows import stale_tickets as choose_stale

NOW = dt.datetime(2026, 6, 10, 3, 0, tzinfo=dt.UTC)


def stale(now: dt.datetime = NOW) -> list[str]:
    return [item.subject for item in choose_stale(now)]


def unchecked(now: dt.datetime | None = None) -> list[str]:
    return [item.subject for item in unchecked_contacts(now or timezone.now())]


@pytest.fixture
def scheduled(desk: Provider) -> Receipt:
    """A receipt that a run has opened for a stale ticket; queued."""
    stale_tickets(1)
    plan = runs.choose(runs.open_now(NIGHTLY_STALE_TICKETS))
    assert plan
    assert runs.open_receipts(plan, plan.items) == []
    return Receipt.objects.get()


@pytest.mark.usefixtures("desk")
class TestStaleTickets:
    """The desk's own tickets have no messages: nobody waits there."""

    def test_takes_open_and_waiting_tickets_whose_last_word_is_the_requesters(self) -> None:
        for number, (status, last) in enumerate(
            [("open", "requester"), ("waiting", "requester"), ("closed", "requester"), ("open", "support")]
        ):
            make_ticket(f"TCK-{2001 + number}", status=status)
            say(f"TCK-{2001 + number}", by="support" if last == "requester" else "requester", days_ago=9, now=NOW)
            say(f"TCK-{2001 + number}", by=last, days_ago=8, now=NOW)
        assert stale() == ["TCK-2001", "TCK-2002"]

    @pytest.mark.parametrize(("days_ago", "chosen"), [(2.99, False), (3, True), (3.01, True)])
    def test_waits_for_the_days_of_the_setting(self, days_ago: float, chosen: bool) -> None:
        make_ticket("TCK-2001")
        say("TCK-2001", days_ago=days_ago, now=NOW)
        assert stale() == (["TCK-2001"] if chosen else [])

    def test_the_longest_wait_comes_first(self) -> None:
        for number, days_ago in enumerate((4, 8, 6)):
            make_ticket(f"TCK-{2001 + number}")
            say(f"TCK-{2001 + number}", days_ago=days_ago, now=NOW)
        assert stale() == ["TCK-2002", "TCK-2003", "TCK-2001"]

    def test_a_ticket_is_not_followed_up_every_night(self, alice: User) -> None:
        stale_tickets(1)
        today = timezone.now()
        assert stale(today) == ["TCK-2001"]
        factories.applied(alice, ticket="TCK-2001")
        assert stale(today + dt.timedelta(days=30)) == []
        say("TCK-2001", days_ago=-1)  # they write again, tomorrow
        assert stale(today + dt.timedelta(days=3)) == []
        assert stale(today + dt.timedelta(days=5)) == ["TCK-2001"]

    def test_a_failed_draft_is_tried_again_the_next_night(self, alice: User) -> None:
        stale_tickets(1)
        factories.failed(alice, FillFailed(reason="provider_timeout"), ticket="TCK-2001")
        assert stale(timezone.now()) == ["TCK-2001"]

    def test_what_is_under_way_is_left_alone(self, alice: User) -> None:
        stale_tickets(1)
        factories.pending(alice, ticket="TCK-2001")
        assert stale(timezone.now()) == []

    def test_so_is_what_the_system_still_retries(self, scheduled: Receipt, desk: Provider) -> None:
        desk.fails(500)
        inflight = queued.begin_queued(scheduled.pk, 1)
        assert inflight
        inflight.wait(30)
        tomorrow = timezone.now() + dt.timedelta(days=1)
        assert stale(timezone.now()) == []
        assert stale(tomorrow) == ["TCK-2001"]  # it has given up by then

    def test_the_notes_hold_the_facts(self) -> None:
        notes = stale_notes(NOW - dt.timedelta(days=4, hours=2), NOW)
        assert "no reply for 4 days" in notes
        assert "06 June 2026, 01:00 UTC" in notes

    @pytest.mark.parametrize("choose", [choose_stale, unchecked_contacts])
    def test_choosing_reads_by_indexes(self, choose: Callable[[dt.datetime], Iterator[Item]]) -> None:
        """The plan, with sequential scans made dear: what still scans has no index that serves."""
        plan: list[str] = []

        def explained(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
            execute(f"EXPLAIN {sql}", parameters, many, context)
            plan.extend(row[0] for row in context["cursor"].fetchall())
            return execute(sql, parameters, many, context)

        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL enable_seqscan = off")
            with connection.execute_wrapper(explained):
                list(choose(NOW))
        assert plan
        assert not [line for line in plan if "Seq Scan" in line], "\n".join(plan)
        # receipts of the ticket alone: a join with all that are pending took a minute, once a large run was half open
        assert any("receipt_by_subject" in line for line in plan), "\n".join(plan)
        assert not [line for line in plan if "receipt_pending_by_deadline" in line], "\n".join(plan)


@pytest.mark.usefixtures("desk")
class TestContactReview:
    def checked(self) -> list[Receipt]:
        run_id = runs.open_now(NIGHTLY_CONTACT_REVIEW)
        plan = runs.choose(run_id)
        assert plan
        assert runs.open_receipts(plan, plan.items) == []
        runs.end_opening(plan)
        receipts = list(Receipt.objects.filter(run__parent=run_id))
        for receipt in receipts:
            inflight = queued.begin_queued(receipt.pk, 1)
            assert inflight
            inflight.wait(30)
        return receipts

    def test_checks_each_ticket_that_is_not_closed_once(self) -> None:
        assert unchecked() == ["TCK-1008", "TCK-1009"]
        self.checked()
        assert set(Receipt.objects.values_list("status", "tool_name")) == {("applied", "check_contact_email")}
        assert unchecked() == []
        make_ticket("TCK-2001")
        assert unchecked() == ["TCK-2001"]

    def test_asks_no_model(self, desk: Provider) -> None:
        self.checked()
        assert desk.calls == 0

    def test_checks_again_when_the_review_is_due(self) -> None:
        (first, _second) = self.checked()
        output = Attempt.objects.get(receipt=first).tool_result["output"]
        due = dt.datetime.fromisoformat(output["review_until"])
        assert unchecked(due - dt.timedelta(seconds=1)) == []
        assert first.subject in unchecked(due)


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────

TABLES = ("runs", "tool_receipts", "sealed_inputs", "attempts", "audit_events", "schedules", "procrastinate_jobs")


def rows() -> dict[str, int]:
    with connection.cursor() as cursor:
        found = {}
        for table in TABLES:
            cursor.execute(f"SELECT count(*) FROM {table}")
            found[table] = cursor.fetchone()[0]
        return found


@pytest.mark.usefixtures("desk")
class TestDryRun:
    def test_names_the_first_twenty_and_counts_the_rest_and_writes_nothing(self) -> None:
        ids, before, out = stale_tickets(23), rows(), io.StringIO()
        call_command("run_workflow", "nightly_stale_tickets", "--dry-run", stdout=out)
        assert out.getvalue().splitlines() == [*ids[:20], "… and 3 more", "23 tickets; nothing was written"]
        assert rows() == before

    def test_an_unknown_name_names_the_known_ones(self) -> None:
        with pytest.raises(CommandError, match="nightly_contact_review, nightly_stale_tickets"):
            call_command("run_workflow", "nightly")

    def test_no_wait_leaves_it_to_the_workers(self) -> None:
        out = io.StringIO()
        call_command("run_workflow", "nightly_stale_tickets", "--no-wait", stdout=out)
        run = Run.objects.get()
        assert f"/api/v1/runs/{run.pk}" in out.getvalue()
        assert (run.trigger, run.slot, run.planned) == ("command", None, None)


@pytest.fixture
def nightly(desk: Provider) -> list[str]:
    drafts_for_any(desk)
    ids = stale_tickets(12)
    connection.close()
    return ids


def command(desk: Provider, **environment: str) -> dict[str, Any]:
    """What starts `manage.py run_workflow nightly_stale_tickets` against the test's database."""
    return {
        "args": [sys.executable, "manage.py", "run_workflow", "nightly_stale_tickets"],
        "cwd": ROOT,
        "env": environ(desk.url, RETRY_FIRST_SECONDS="0.1", **environment),
    }


def followed_up() -> list[str]:
    return sorted(Followup.objects.values_list("ticket_id", flat=True))


@pytest.mark.processes
class TestCommand:
    def test_drafts_for_every_ticket_without_another_worker(self, nightly: list[str], desk: Provider) -> None:
        ended = subprocess.run(**command(desk), capture_output=True, text=True, timeout=90)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.splitlines()[-1] == "12 applied, 0 failed, of 12"
        assert "12 of 12" in ended.stdout
        assert "\r" not in ended.stdout
        assert followed_up() == nightly
        run = Run.objects.get(parent=None)
        assert (run.trigger, run.planned) == ("command", 12)
        assert run.finished_at is not None
        assert Receipt.objects.get(subject="TCK-2001").idempotency_key == (f"nightly_stale_tickets:{run.pk}:TCK-2001")

    def test_says_in_words_what_failed(self, nightly: list[str], desk: Provider) -> None:
        good = desk.answer
        bad = (400, {"error": {"message": "no"}})
        desk.answer = lambda request: bad if ticket_of(request) == "TCK-2007" else good(request)
        ended = subprocess.run(
            **command(desk, RETRY_ATTEMPTS="1"), capture_output=True, text=True, timeout=90, check=False
        )
        assert ended.returncode == 1
        tally, cause = ended.stdout.splitlines()[-2:]
        assert tally == "11 applied, 1 failed, of 12"
        assert cause == "  1 × The model provider rejected the request."

    def test_ends_when_it_cannot_open(self, nightly: list[str], desk: Provider) -> None:
        User.objects.filter(username="scheduler").update(is_active=False)
        connection.close()
        ended = subprocess.run(**command(desk), capture_output=True, text=True, timeout=90, check=False)
        assert ended.returncode == 1
        assert "Not all of its receipts could be opened" in ended.stdout
        assert Receipt.objects.count() == 0

    def test_redraws_one_line_on_a_terminal(self, nightly: list[str], desk: Provider) -> None:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(**command(desk), stdout=theirs, stderr=subprocess.DEVNULL)
        os.close(theirs)
        shown = b"".join(read_terminal(ours)).decode()
        assert process.wait(30) == 0
        assert "\r\x1b[2K" in shown
        assert "[########################] 12 of 12" in shown
        assert "12 applied, 0 failed, of 12" in shown

    def test_ctrl_c_leaves_the_rest_to_the_workers(
        self, nightly: list[str], desk: Provider, start: Callable[..., Worker]
    ) -> None:
        desk.gate.clear()
        process = subprocess.Popen(
            **command(desk, MAX_IN_FLIGHT="2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        desk.wait_for_calls(2)
        eventually(lambda: Receipt.objects.count() == 12)
        process.send_signal(signal.SIGINT)
        assert process.stdout
        assert any(line.startswith("Stopping") for line in process.stdout)  # reads that far; it takes nothing new
        desk.gate.set()
        said, _errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "stays queued for the workers" in said
        assert len(followed_up()) == 2
        assert Receipt.objects.filter(status="pending", started_at=None).count() == 10
        start()
        eventually(lambda: followed_up() == nightly)


def read_terminal(terminal: int) -> Iterator[bytes]:
    """What is written there, until the other side has closed it."""
    while select.select([terminal], [], [], 60)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says EIO when the last writer is gone
            return
        if not piece:
            return
        yield piece


# ── workers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def owed_since_yesterday() -> None:
    for workflow in WORKFLOWS:
        since = timezone.now() - dt.timedelta(days=2)
        Schedule.objects.create(workflow=workflow.name, cron=workflow.cron, zone=workflow.time_zone, since=since)


@pytest.mark.processes
class TestWorkers:
    def test_two_workers_make_one_run_of_each_slot_and_see_it_to_its_end(
        self, nightly: list[str], start: Callable[..., Worker]
    ) -> None:
        owed_since_yesterday()
        start()
        start()

        # with the minute's tick; a second one after it ends the runs
        eventually(lambda: Run.objects.filter(parent=None).exclude(finished_at=None).count() == 2, 150)

        assert Run.objects.filter(parent=None).count() == 2
        assert followed_up() == nightly
        stale_run = Run.objects.get(workflow="nightly_stale_tickets")
        assert (stale_run.trigger, stale_run.planned) == ("schedule", 12)
        contacts = Receipt.objects.filter(tool_name="check_contact_email", status="applied")
        assert contacts.count() == Ticket.objects.exclude(status="closed").count()

    def test_runs_that_meet_draft_once_a_ticket(
        self, nightly: list[str], desk: Provider, start: Callable[..., Worker]
    ) -> None:
        """A command beside its slot: the second chooses when the first has opened all it chose."""
        desk.gate.clear()
        first, second = runs.open_now(NIGHTLY_STALE_TICKETS), runs.open_now(NIGHTLY_STALE_TICKETS)
        connection.close()
        start()
        start()
        eventually(lambda: not Run.objects.filter(pk__in=[first, second], planned=None).exists())
        desk.gate.set()

        eventually(lambda: followed_up() == nightly)

        assert Receipt.objects.count() == 12
        assert sorted(Run.objects.filter(parent=None).values_list("planned", flat=True)) == [0, 12]

    def test_a_worker_that_was_held_up_opens_nothing_of_an_old_choice(self, nightly: list[str], desk: Provider) -> None:
        """Frozen while it opened, its job put back and another run opened since: what it had in mind is theirs now."""
        first = runs.choose(runs.open_now(NIGHTLY_STALE_TICKETS))
        assert first is not None
        runs.open_receipts(first, first.items[:5])
        second = runs.choose(runs.open_now(NIGHTLY_STALE_TICKETS))
        assert second is not None
        assert {item.subject for item in second.items} == set(nightly) - {item.subject for item in first.items[:5]}

        with pytest.raises(ledger.Outdated):
            runs.open_receipts(first, first.items[5:])
        runs.open_receipts(second, second.items)

        subjects = list(Receipt.objects.values_list("subject", flat=True))
        assert sorted(subjects) == sorted(nightly)

    def test_a_run_survives_the_worker_that_was_opening_it(
        self, nightly: list[str], desk: Provider, start: Callable[..., Worker]
    ) -> None:
        desk.gate.clear()
        with held_at("tool_receipts", when="NEW.subject = 'TCK-2007'"):
            runs.open_now(NIGHTLY_STALE_TICKETS)
            worker = start(ATTEMPT_DEADLINE_SECONDS="3", FILL_BUDGET_SECONDS="2")
            eventually(lambda: waiting_at_the_point() == 1)
            worker.kill()
        opened = Receipt.objects.count()
        assert 0 < opened < 12
        desk.gate.set()

        eventually(lambda: all(receipt.overdue for receipt in Receipt.objects.exclude(started_at=None)))
        flow.sweep()
        # the queue finds out after half a minute without a heartbeat; here at once
        with connection.cursor() as cursor:
            cursor.execute("UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - interval '1 hour'")
        tasks.recover_jobs.defer(timestamp=0)
        connection.close()
        start()

        eventually(lambda: followed_up() == nightly, 150)
        assert Receipt.objects.count() == 12
        assert Run.objects.get(parent=None).planned == 12
