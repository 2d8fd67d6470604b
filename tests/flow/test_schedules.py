"""Slots and their runs: one each, by a written rule, whatever clocks, schedulers and workers do."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
import uuid
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from receipts import ledger, queued, runs, schedules, tasks, workflows
from receipts.checks import workflow_errors
from receipts.contracts import registry as tools
from receipts.jobs import RUN_WORKFLOW
from receipts.models import AuditEvent, Receipt, Run, Schedule, Trigger
from receipts.workflows import Item, Workflow
from receipts_project.accounts.models import User
from tests.flow.provider import GOOD, Provider
from tests.flow.stale import drafts_for_any, stale_tickets
from tests.flow.web import eventually, held_at, waiting_at_the_point
from tickets.models import Followup, Ticket
from tickets.workflows import NIGHTLY_STALE_TICKETS

HELSINKI = "Europe/Helsinki"
MINUTE, DAY = dt.timedelta(minutes=1), dt.timedelta(days=1)
NIGHTLY = replace(NIGHTLY_STALE_TICKETS, zone=HELSINKI)


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def slots(cron: str, zone: str, first: str, last: str) -> list[str]:
    """The slots from `first` (left out) to `last`, as UTC."""
    found: list[str] = []
    for slot in schedules.slots_back(cron, zone, utc(last)):
        if slot <= utc(first):
            break
        found.append(f"{slot:%m-%d %H:%M}")
    return found[::-1]


class TestSlots:
    """Helsinki 2026: on 29 March 03:00 becomes 04:00 (01:00 UTC); on 25 October 04:00 becomes 03:00 (01:00 UTC)."""

    @pytest.mark.parametrize(
        ("cron", "first", "last", "expected"),
        [
            # 03:00 does not exist on the 29th: the first instant after the gap, 04:00 summer time
            ("0 3 * * *", "2026-03-27 12:00", "2026-03-30 12:00", ["03-28 01:00", "03-29 01:00", "03-30 00:00"]),
            ("30 3 * * *", "2026-03-28 12:00", "2026-03-30 12:00", ["03-29 01:00", "03-30 00:30"]),
            # 03:00 comes twice on the 25th: the first time, summer time still
            ("0 3 * * *", "2026-10-23 12:00", "2026-10-26 12:00", ["10-24 00:00", "10-25 00:00", "10-26 01:00"]),
            ("30 3 * * *", "2026-10-24 12:00", "2026-10-26 12:00", ["10-25 00:30", "10-26 01:30"]),
            # all that a gap swallows is one slot, shared with the one that is there anyway
            ("*/20 3 * * *", "2026-03-28 12:00", "2026-03-29 12:00", ["03-29 01:00"]),
            ("0 * * * *", "2026-03-28 23:30", "2026-03-29 02:30", ["03-29 00:00", "03-29 01:00", "03-29 02:00"]),
            # written with a star or without one: the repeated hour is no second slot
            ("0 */3 * * *", "2026-10-24 20:00", "2026-10-25 05:00", ["10-24 21:00", "10-25 00:00", "10-25 04:00"]),
            ("0 0,3,6 * * *", "2026-10-24 20:00", "2026-10-25 05:00", ["10-24 21:00", "10-25 00:00", "10-25 04:00"]),
            ("*/30 3 * * *", "2026-10-24 12:00", "2026-10-25 12:00", ["10-25 00:00", "10-25 00:30"]),
        ],
    )
    def test_where_the_clock_jumps(self, cron: str, first: str, last: str, expected: list[str]) -> None:
        assert slots(cron, HELSINKI, first, last) == expected

    @pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
    @pytest.mark.parametrize("cron", ["0 3 * * *", "*/20 * * * *", "0 */3 * * *"])
    def test_forwards_and_backwards_are_the_same_slots(self, cron: str, day: str) -> None:
        end, forward = utc(day) + DAY, []
        moment = utc(day) - DAY
        while (moment := schedules.next_slot(cron, HELSINKI, moment)) <= end:
            forward.append(f"{moment:%m-%d %H:%M}")
        assert forward == slots(cron, HELSINKI, f"{utc(day) - DAY:%Y-%m-%d}", f"{end:%Y-%m-%d}")

    def test_a_slot_is_found_while_the_hour_repeats(self) -> None:
        """03:59 the first time lies ahead on the clock's face, and in the past."""
        newest = next(schedules.slots_back("59 3 * * *", HELSINKI, utc("2026-10-25 01:10")))
        assert newest == utc("2026-10-25 00:59")

    @pytest.mark.parametrize(
        ("cron", "zone", "says"),
        [
            ("0 3 * *", "UTC", "five fields"),
            ("0 0 3 * * *", "UTC", "five fields"),
            ("0 25 * * *", "UTC", "Bad hour"),
            ("0 0 30 2 *", "UTC", "Bad day-of-month"),
            ("0 3 * * *", "Europe/Atlantis", "no time zone"),
            ("0 3 * * *", "../../etc/passwd", "no time zone"),
        ],
    )
    def test_what_cannot_be_meant_is_said_at_start_up(self, cron: str, zone: str, says: str) -> None:
        declared = workflows.Registry()
        declared.register(replace(NIGHTLY, cron=cron, zone=zone))
        (error,) = workflow_errors(declared, tools)
        assert error.id == "receipts.E007"
        assert says in error.msg

    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"name": "Nightly Report"}, "no name"),
            ({"name": "file_followup"}, "name of a tool"),
            ({"tool": "rm_rf"}, "no tool"),
        ],
    )
    def test_so_is_a_bad_name_and_an_unknown_tool(self, fields: dict[str, str], says: str) -> None:
        declared = workflows.Registry()
        declared.register(replace(NIGHTLY, **fields))  # type: ignore[arg-type]
        (error,) = workflow_errors(declared, tools)
        assert says in error.msg

    def test_so_is_one_declared_twice(self) -> None:
        declared = workflows.Registry()
        declared.register(NIGHTLY)
        declared.register(replace(NIGHTLY, cron="0 4 * * *"))
        (error,) = workflow_errors(declared, tools)
        assert "twice" in error.msg

    def test_what_is_declared_is_sound(self) -> None:
        assert workflows.registry.names() == ("nightly_contact_review", "nightly_stale_tickets")
        assert list(workflow_errors(workflows.registry, tools)) == []


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def watched_since(moment: str, workflow: Workflow = NIGHTLY) -> None:
    """The workflow has been on its schedule since then."""
    Schedule.objects.create(
        workflow=workflow.name, cron=workflow.cron, zone=workflow.time_zone, since=utc(moment), seen_at=utc(moment)
    )


def ran() -> list[str]:
    found = Run.objects.filter(parent=None).order_by("slot").values_list("slot", flat=True)
    return [f"{slot:%m-%d %H:%M}" if slot else "-" for slot in found]


def jobs(run_id: uuid.UUID | None = None) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'receipts.run_workflow'"
            " AND (%(id)s IS NULL OR args ->> 'run_id' = %(id)s)",
            {"id": str(run_id) if run_id else None},
        )
        count: int = cursor.fetchone()[0]
        return count


@pytest.mark.usefixtures("desk")
class TestRuns:
    @pytest.mark.parametrize(
        ("day", "slot"), [("2026-03-29", "03-29 01:00"), ("2026-10-25", "10-25 00:00"), ("2026-07-01", "07-01 00:00")]
    )
    def test_one_run_a_day_in_helsinki_also_when_the_clock_jumps(self, day: str, slot: str, settings: Any) -> None:
        """A tick for every minute of the night."""
        settings.SCHEDULE_TIME_ZONE = HELSINKI
        watched_since(f"{utc(day) - DAY:%Y-%m-%d} 20:00", NIGHTLY_STALE_TICKETS)
        for minute in range(60 * 12):
            runs.open_due(NIGHTLY_STALE_TICKETS, utc(day) - 2 * 60 * MINUTE + minute * MINUTE)
        assert ran() == [slot]
        run = Run.objects.get()
        assert (run.trigger, run.actor.username, run.workflow) == (
            Trigger.SCHEDULE,
            "scheduler",
            "nightly_stale_tickets",
        )
        assert run.manifest["zone"] == HELSINKI
        assert run.manifest["cron"] == "0 3 * * *"
        assert run.manifest["slot"] == run.slot.isoformat() if run.slot else False
        assert run.manifest["parameters"] == {"stale_after_days": 3}
        assert "file_followup@1" in run.manifest["contracts"]
        assert jobs(run.pk) == 1

    def test_the_first_start_runs_nothing_of_the_past(self) -> None:
        assert runs.open_due(NIGHTLY, utc("2026-06-01 08:00")) is None
        assert runs.open_due(NIGHTLY, utc("2026-06-01 23:59")) is None
        assert runs.open_due(NIGHTLY, utc("2026-06-02 00:00")) is not None
        assert ran() == ["06-02 00:00"]
        assert schedules.missing(NIGHTLY, utc("2026-06-02 12:00")) == []

    @pytest.mark.parametrize("change", [{"cron": "0 6 * * *"}, {"zone": "Asia/Tokyo"}])
    def test_a_changed_schedule_owes_nothing_before_the_change(self, change: dict[str, str]) -> None:
        watched_since("2026-06-01 12:00")
        changed = replace(NIGHTLY, **change)  # type: ignore[arg-type]
        assert runs.open_due(changed, utc("2026-06-05 12:00")) is None
        assert schedules.since(changed) == utc("2026-06-05 12:00")
        assert schedules.since(NIGHTLY) is None
        assert runs.open_due(changed, utc("2026-06-06 12:00")) is not None

    def test_two_schedules_side_by_side_each_run_their_slots(self) -> None:
        """Two versions, or two values of SCHEDULE_TIME_ZONE, whose workers take turns at the tick."""
        other = replace(NIGHTLY, zone="Asia/Tokyo")  # 18:00 UTC, where Helsinki is at 00:00
        start = utc("2026-06-01 12:00")
        for minute in range(24 * 60):
            runs.open_due((NIGHTLY, other)[minute % 2], start + minute * MINUTE)
        assert ran() == ["06-01 18:00", "06-02 00:00"]
        assert schedules.since(NIGHTLY) == start
        assert schedules.since(other) == start + MINUTE
        assert schedules.missing(NIGHTLY, start + DAY) == schedules.missing(other, start + DAY) == []

    def test_a_slot_that_one_of_two_schedules_missed_is_shown(self) -> None:
        other = replace(NIGHTLY, zone="Asia/Tokyo")
        watched_since("2026-06-01 12:00")
        Schedule.objects.update(seen_at=utc("2026-06-02 08:00"))
        schedules.observe(other, utc("2026-06-02 08:30"))
        assert schedules.missing(NIGHTLY, utc("2026-06-02 08:31")) == [utc("2026-06-02 00:00")]

    @pytest.mark.parametrize(
        ("back", "since"), [("2026-06-05 12:00", "2026-06-05 12:00"), ("2026-06-01 13:00", "2026-06-01 12:00")]
    )
    def test_a_schedule_that_comes_back_starts_anew_only_if_it_was_out_of_use(self, back: str, since: str) -> None:
        """Four days on another schedule, or half an hour of a roll-out that was taken back."""
        watched_since("2026-06-01 12:00")
        other = replace(NIGHTLY, cron="0 6 * * *")
        moment = utc("2026-06-01 12:30")
        while moment < utc(back):
            schedules.observe(other, moment)
            moment += 30 * MINUTE
        assert schedules.observe(NIGHTLY, utc(back)) == utc(since)

    def test_downtime_is_no_change(self) -> None:
        watched_since("2026-05-01 12:00", replace(NIGHTLY, cron="0 6 * * *"))  # the one before
        watched_since("2026-06-01 12:00")
        assert schedules.observe(NIGHTLY, utc("2026-06-05 12:00")) == utc("2026-06-01 12:00")

    def test_a_change_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        schedules.observe(NIGHTLY, utc("2026-06-01 12:00"))
        assert not caplog.records
        for minute in range(3):
            schedules.observe(replace(NIGHTLY, cron="0 6 * * *"), utc("2026-06-05 12:00") + minute * MINUTE)
        (told,) = caplog.records
        assert told.levelname == "WARNING"
        assert "on `0 6 * * *` in Europe/Helsinki from now on; a worker was on `0 3 * * *`" in told.getMessage()

    def test_after_three_days_of_downtime_one_run_and_the_rest_visible(self) -> None:
        watched_since("2026-06-01 12:00")
        now = utc("2026-06-04 09:00")
        assert runs.open_due(NIGHTLY, now) is not None
        assert runs.open_due(NIGHTLY, now + MINUTE) is None
        assert ran() == ["06-04 00:00"]
        assert schedules.missing(NIGHTLY, now) == [utc("2026-06-03 00:00"), utc("2026-06-02 00:00")]

    def test_a_slot_is_missing_only_after_the_grace(self) -> None:
        watched_since("2026-06-01 12:00")
        assert schedules.missing(NIGHTLY, utc("2026-06-02 00:04")) == []
        assert schedules.missing(NIGHTLY, utc("2026-06-02 00:05")) == [utc("2026-06-02 00:00")]

    def test_missing_slots_are_the_newest(self) -> None:
        watched_since("2026-05-01 12:00")
        found = schedules.missing(NIGHTLY, utc("2026-06-02 12:00"))
        assert found == [utc("2026-06-02 00:00") - number * DAY for number in range(10)]

    def test_two_schedulers_at_the_same_instant_open_one_run_and_one_job(self) -> None:
        watched_since("2026-06-01 12:00")
        opened: list[uuid.UUID | None] = []

        def scheduler() -> None:
            opened.append(runs.open_due(NIGHTLY, utc("2026-06-02 00:00")))
            connection.close()

        pair = [threading.Thread(target=scheduler) for _ in range(2)]
        with held_at("runs") as let_go:
            for thread in pair:
                thread.start()
            eventually(lambda: waiting_at_the_point() == 2)  # both have found the slot free
            let_go()
            for thread in pair:
                thread.join()

        assert len([run for run in opened if run]) == 1
        assert ran() == ["06-02 00:00"]
        assert jobs() == 1

    def test_one_workflows_trouble_keeps_no_other_from_its_slot(self, settings: Any) -> None:
        """Its schedule's row cannot be written; the other runs."""
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE schedules ADD CONSTRAINT trouble CHECK (workflow <> 'nightly_stale_tickets') NOT VALID"
            )
        try:
            runs.tick(utc("2026-06-01 12:00"))
            assert len(runs.tick(utc("2026-06-02 12:00"))) == 1
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE schedules DROP CONSTRAINT trouble")
        assert Run.objects.get().workflow == "nightly_contact_review"

    def test_the_scheduler_cannot_sign_in_and_may_only_file(self) -> None:
        user = User.objects.get(username="scheduler")
        assert not user.has_usable_password()
        assert user.has_perm("receipts.file_followup")
        assert not user.has_perm("receipts.view_receipt")
        assert not user.is_staff


# ── carrying out ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def opened(desk: Provider) -> Run:
    """A run of last night's slot, of twelve stale tickets; its job has not run."""
    drafts_for_any(desk)
    stale_tickets(12)
    watched_since("2026-06-01 12:00", NIGHTLY_STALE_TICKETS)
    run_id = runs.open_due(NIGHTLY_STALE_TICKETS, utc("2026-06-02 03:00"))
    return Run.objects.get(pk=run_id)


def carry_out(run: Run, only: int | None = None) -> None:
    """What the job does; with `only` it dies after so many receipts."""
    plan = runs.choose(run.pk)
    assert plan is not None
    assert runs.open_receipts(plan, plan.items[:only]) == []
    if only is None:
        runs.end_opening(plan)


def job_fails_for_good(run: Run) -> None:
    """The run's job has used up its tries."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE procrastinate_jobs SET status = 'failed' WHERE status = 'todo' AND args ->> 'run_id' = %s",
            [str(run.pk)],
        )


def draft_all() -> None:
    """What workers do with what is queued."""
    for receipt in Receipt.objects.filter(status="pending", started_at=None):
        inflight = queued.begin_queued(receipt.pk, receipt.attempt)
        assert inflight is not None
        inflight.wait(30)


def again(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


class TestCarryingOut:
    def test_opens_a_receipt_a_ticket_of_the_scheduler_in_runs_of_their_own(self, opened: Run) -> None:
        carry_out(opened)
        receipts = Receipt.objects.select_related("run", "user").order_by("created_at")
        assert [receipt.subject for receipt in receipts] == [f"TCK-{number}" for number in range(2001, 2013)]
        for receipt in receipts:
            assert receipt.user.username == "scheduler"
            assert receipt.queued
            assert receipt.idempotency_key == f"nightly_stale_tickets:20260602T030000Z:{receipt.subject}"
            assert (receipt.run.parent_id, receipt.run.trigger) == (opened.pk, Trigger.SCHEDULE)
        assert again(opened).planned == 12

    @pytest.mark.parametrize("died_after", [0, 5, 12])
    def test_an_interrupted_run_goes_on_without_loss_or_repetition(self, opened: Run, died_after: int) -> None:
        carry_out(opened, died_after)
        draft_all()  # workers were quicker
        carry_out(opened)
        draft_all()
        assert Receipt.objects.count() == Followup.objects.values("ticket").distinct().count() == 12
        assert again(opened).planned == 12
        runs.tick(utc("2026-06-02 03:10"))
        assert again(opened).finished_at is not None

    def test_a_large_run_is_opened_by_one_job_after_the_other(
        self, opened: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each opens for some seconds, so that none is taken for lost; the next comes before the workflow's other
        runs."""
        monkeypatch.setattr(tasks, "OPENING_SECONDS", 0.0)
        monkeypatch.setattr(tasks, "OPENED_A_TURN", 3)
        asyncio.run(tasks.run_workflow(str(opened.pk)))
        assert Receipt.objects.count() == 6
        assert runs.is_run_enqueued(opened.pk)
        with connection.cursor() as cursor:
            cursor.execute("SELECT priority FROM procrastinate_jobs WHERE task_name = %s ORDER BY id", [RUN_WORKFLOW])
            first, second = (row[0] for row in cursor.fetchall())
        assert second > first
        asyncio.run(tasks.run_workflow(str(opened.pk)))
        asyncio.run(tasks.run_workflow(str(opened.pk)))
        assert jobs(opened.pk) == 2  # the last part found nothing left
        assert Receipt.objects.values("subject").distinct().count() == Receipt.objects.count() == 12
        assert again(opened).planned == 12

    def test_two_jobs_of_one_run_open_each_receipt_once(self, opened: Run) -> None:
        first, second = runs.choose(opened.pk), runs.choose(opened.pk)
        assert first
        assert second
        with pytest.raises(ledger.Outdated):
            runs.open_receipts(first, first.items)
        runs.open_receipts(second, second.items)
        runs.open_receipts(first, first.items)  # all there
        assert Receipt.objects.count() == 12
        runs.end_opening(second)
        assert again(opened).planned == 12

    def test_a_ticket_that_is_gone_is_planned_no_longer(self, opened: Run) -> None:
        plan = runs.choose(opened.pk)
        assert plan
        Ticket.objects.get(pk="TCK-2003").delete()
        assert runs.open_receipts(plan, plan.items) == []
        runs.end_opening(plan)
        assert again(opened).planned == Receipt.objects.count() == 11

    def test_a_bad_item_is_said_and_stops_no_other(self, opened: Run) -> None:
        plan = runs.choose(opened.pk)
        assert plan
        bad = [Item(subject="TCK-2001", body={"notes": " "}), *plan.items[1:]]
        (refused,) = runs.open_receipts(plan, bad)
        assert refused.code == "invalid_request"
        assert Receipt.objects.count() == 11

    def test_ends_when_every_receipt_is_settled_for_good(self, opened: Run, desk: Provider, settings: Any) -> None:
        settings.RETRY_ATTEMPTS, settings.CIRCUIT_FAILURES = 2, 1000
        good = desk.answer
        carry_out(opened)
        runs.tick(utc("2026-06-02 03:01"))
        assert again(opened).finished_at is None  # all pending

        desk.fails(500)
        draft_all()
        runs.tick(utc("2026-06-02 03:02"))
        assert again(opened).finished_at is None  # all failed, and to be continued

        desk.answer = good
        for receipt in Receipt.objects.all():
            inflight = queued.retry_unwatched(receipt.pk, 1)
            assert inflight
            inflight.wait(30)
        runs.tick(utc("2026-06-02 03:03"))
        assert again(opened).finished_at is not None
        assert not ledger.finish_run(opened.pk)  # once

    def test_ends_also_when_some_failed(self, opened: Run, desk: Provider) -> None:
        carry_out(opened)
        desk.says(GOOD)  # of another ticket
        draft_all()
        runs.tick(utc("2026-06-02 03:01"))
        assert again(opened).finished_at is not None

    def test_an_empty_run_ends_at_once(self, opened: Run) -> None:
        Ticket.objects.update(status="closed")
        carry_out(opened)
        assert again(opened).planned == 0
        assert again(opened).finished_at is not None

    @pytest.mark.parametrize("died_after", [None, 0, 5])
    def test_the_tick_puts_a_lost_job_back_once(self, opened: Run, died_after: int | None) -> None:
        if died_after is not None:
            carry_out(opened, died_after)
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM procrastinate_jobs WHERE task_name = 'receipts.run_workflow'")
        for minute in range(3):
            runs.tick(utc("2026-06-02 03:01") + minute * MINUTE)
        assert jobs(opened.pk) == 1

    def test_a_run_whose_opening_always_fails_is_given_up(self, opened: Run, caplog: pytest.LogCaptureFixture) -> None:
        for minute in range(20):
            job_fails_for_good(opened)
            runs.tick(utc("2026-06-02 03:01") + minute * MINUTE)
        assert jobs(opened.pk) == runs.FAILED_JOBS_MAX
        assert again(opened).finished_at is not None
        assert AuditEvent.objects.get(run=opened).detail == {"failed_jobs": runs.FAILED_JOBS_MAX}
        assert AuditEvent.objects.get(run=opened).verb == "give_up"
        (told,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "is given up" in told.getMessage()

    def test_what_a_run_has_opened_is_settled_before_it_is_given_up(self, opened: Run) -> None:
        carry_out(opened, 5)
        for minute in range(20):
            job_fails_for_good(opened)
            runs.tick(utc("2026-06-02 03:01") + minute * MINUTE)
        assert again(opened).finished_at is None
        assert jobs(opened.pk) == runs.FAILED_JOBS_MAX
        draft_all()
        runs.tick(utc("2026-06-02 03:30"))
        assert again(opened).finished_at is not None
        assert Followup.objects.count() == 5

    def test_the_tick_leaves_a_run_alone_that_has_opened_all(self, opened: Run) -> None:
        carry_out(opened)
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM procrastinate_jobs WHERE task_name = 'receipts.run_workflow'")
        runs.tick(utc("2026-06-02 03:01"))
        assert jobs() == 0

    def test_an_interrupted_run_ends_as_it_stands_when_the_next_one_begins(self, opened: Run) -> None:
        carry_out(opened, 5)
        draft_all()
        (tomorrow,) = runs.tick(utc("2026-06-03 03:30"))
        run = again(opened)
        assert run.finished_at is not None
        assert run.planned == 12  # seven were never opened, and it says so
        assert runs.choose(opened.pk) is None
        carry_out(Run.objects.get(pk=tomorrow))
        draft_all()
        assert Followup.objects.values("ticket").distinct().count() == Followup.objects.count() == 12

    def test_a_run_of_a_workflow_that_is_not_held_here_waits(self, opened: Run) -> None:
        Run.objects.filter(pk=opened.pk).update(workflow="of_a_newer_version")
        assert runs.choose(opened.pk) is None
        assert again(opened).finished_at is None
        assert again(opened).planned is None
