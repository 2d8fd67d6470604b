"""Bulk replay: a plan, frozen ids, and one new receipt for each, whoever dies, stops it or loses their role."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from receipts import bulk_replays, errors, flow, queued, tasks
from receipts.bulk_plans import Plan, plan
from receipts.models import AuditEvent, BulkReplay, BulkReplayItem, Receipt
from receipts.replay import replay
from receipts_project.accounts.models import User
from tests.factories import make_ticket
from tests.flow.conftest import Presser, person
from tests.flow.provider import Provider
from tests.flow.stale import drafts_for_any
from tests.flow.web import eventually, held_at, waiting_at_the_point
from tests.pressing import rows
from tickets.models import Followup, Ticket

WHY = "The provider was down last night."
WORDS = {"status": "failed", "as of": "2026-11-30 21:49:12 UTC"}


@pytest.fixture
def failures(press: Presser, desk: Provider) -> Callable[[int], list[Receipt]]:
    """So many receipts that failed, each of a ticket of its own; the provider is well again afterwards."""

    def fail(count: int) -> list[Receipt]:
        desk.fails(400)
        for number in range(count):
            make_ticket(f"TCK-{3001 + number}")
            press.settled(ticket=f"TCK-{3001 + number}")
        drafts_for_any(desk)
        return failed()

    return fail


def failed() -> list[Receipt]:
    return list(Receipt.objects.filter(replay_of=None, subject__startswith="TCK-3").order_by("created_at"))


def started(user: User, receipts: list[Receipt]) -> BulkReplay:
    return bulk_replays.start(user=user, plan=plan(receipts, WORDS), reason=WHY)


def carry_out(bulk: BulkReplay) -> None:
    """What the job and the workers do, here and one after the other."""
    while bulk_replays.carry_on(bulk.pk):
        for receipt in Receipt.objects.filter(bulk_item__bulk=bulk, status="pending"):
            inflight = queued.begin_queued(receipt.pk, receipt.attempt)
            if inflight is not None:
                inflight.wait(30)


def states(bulk: BulkReplay) -> list[str]:
    return list(bulk.items.order_by("position").values_list("state", flat=True))


def jobs() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'receipts.bulk_replay'")
        count: int = cursor.fetchone()[0]
        return count


class TestPlan:
    def test_is_a_verdict_for_each_the_oldest_first_and_writes_nothing(
        self, failures: Any, operator: User, press: Presser
    ) -> None:
        first, second, third = failures(3)
        Ticket.objects.filter(pk=second.subject).update(status="closed")
        before = rows()

        found = plan([third, first, second], WORDS)

        assert [(item.receipt_id, item.verdict) for item in found.items] == [
            (first.pk, "draft_again"),
            (second.pk, "target_refuses"),
            (third.pk, "draft_again"),
        ]
        assert found.counts() == {("draft_again", None): 2, ("target_refuses", "ticket_closed"): 1}
        assert rows() == before

    def test_comes_back_as_it_was_shown(self, failures: Any, operator: User) -> None:
        shown = plan(failures(2), WORDS)
        assert Plan.unseal(shown.seal(operator), operator) == shown

    def test_is_nobody_elses_and_cannot_be_written_by_hand(self, failures: Any, operator: User) -> None:
        sealed = plan(failures(1), WORDS).seal(operator)
        for text, user in ((sealed, person("olga", "Operators")), (sealed[:-1] + "x", operator), ("", operator)):
            with pytest.raises(errors.InvalidRequest):
                Plan.unseal(text, user)


class TestStart:
    def test_freezes_the_plan_with_its_event_and_its_job(self, failures: Any, operator: User) -> None:
        receipts = failures(3)
        Ticket.objects.filter(pk=receipts[1].subject).update(status="closed")

        bulk = started(operator, receipts)

        assert (bulk.actor, bulk.reason, bulk.filter) == (operator, WHY, WORDS)
        assert states(bulk) == ["planned", "excluded", "planned"]
        excluded = bulk.items.get(state="excluded")
        assert (excluded.refusal_code, excluded.refusal_reason) == ("target_refuses", "ticket_closed")
        event = AuditEvent.objects.get(verb="bulk_replay")
        assert (event.actor, event.detail["receipts"], event.detail["reason"]) == (operator, 2, WHY)
        assert jobs() == 1

    def test_the_same_plan_twice_is_one(self, failures: Any, operator: User) -> None:
        shown = plan(failures(2), WORDS)
        first, second = (bulk_replays.start(user=operator, plan=shown, reason=WHY) for _ in range(2))
        assert first == second
        assert (jobs(), AuditEvent.objects.filter(verb="bulk_replay").count()) == (1, 1)

    def test_nothing_is_there_without_the_job(self, failures: Any, operator: User) -> None:
        receipts = failures(1)
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE procrastinate_jobs ADD CONSTRAINT no_more CHECK (false) NOT VALID")
        try:
            with pytest.raises(errors.DatabaseUnavailable):
                started(operator, receipts)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE procrastinate_jobs DROP CONSTRAINT no_more")
        assert not BulkReplay.objects.exists()
        assert not AuditEvent.objects.filter(verb="bulk_replay").exists()

    def test_needs_a_reason_something_to_do_and_the_permission(
        self, failures: Any, operator: User, press: Presser
    ) -> None:
        receipts = failures(1)
        with pytest.raises(errors.InvalidRequest):
            bulk_replays.start(user=operator, plan=plan(receipts, WORDS), reason=" ")
        with pytest.raises(errors.PermissionDenied):
            started(press.user, receipts)
        Ticket.objects.update(status="closed")
        with pytest.raises(errors.InvalidRequest):
            started(operator, receipts)
        assert not BulkReplay.objects.exists()

    def test_has_a_cap(self, failures: Any, operator: User, settings: Any) -> None:
        settings.BULK_REPLAY_MAX = 2
        with pytest.raises(errors.InvalidRequest):
            started(operator, failures(3))


class TestItems:
    """Each as a replay by itself: the same engine, the same refusals."""

    def test_each_becomes_a_new_receipt_of_the_operator(self, failures: Any, operator: User) -> None:
        receipts = failures(3)
        before = rows()[:3]
        bulk = started(operator, receipts)

        carry_out(bulk)

        new = Receipt.objects.filter(replay_of__isnull=False).order_by("created_at")
        assert [(r.replay_of_id, r.status, r.user, r.replay_reason) for r in new] == [
            (receipt.pk, "applied", operator, WHY) for receipt in receipts
        ]
        assert Followup.objects.count() == 3
        assert rows()[:3] == before
        bulk.refresh_from_db()
        assert bulk.started_at
        assert bulk.finished_at
        assert bulk_replays.tally(bulk.pk) == bulk_replays.Tally(
            waiting=0, pending=0, retrying=0, applied=3, failed=0, refused=0, stopped=0, excluded=0
        )

    def test_one_bad_item_never_ends_the_rest(self, failures: Any, operator: User) -> None:
        receipts = failures(4)
        bulk = started(operator, receipts)
        Ticket.objects.filter(pk=receipts[1].subject).update(status="closed")
        by_hand = replay(user=operator, receipt=receipts[2], reason="By hand.", queued=True).receipt

        carry_out(bulk)

        assert states(bulk) == ["replayed", "refused", "refused", "replayed"]
        closed, doubled = bulk.items.filter(state="refused").order_by("position")
        assert (closed.refusal_code, closed.refusal_reason) == ("target_refuses", "ticket_closed")
        assert doubled.look_at == by_hand

    def test_no_more_are_in_flight_than_may_be(self, failures: Any, operator: User, settings: Any) -> None:
        settings.BULK_REPLAY_IN_FLIGHT = 2
        bulk = started(operator, failures(5))
        for _ in range(3):
            assert bulk_replays.carry_on(bulk.pk)
        assert states(bulk) == ["replayed", "replayed", "planned", "planned", "planned"]

    def test_an_item_that_was_stopped_meanwhile_opens_nothing(self, failures: Any, operator: User) -> None:
        """The stamp is in the new receipt's transaction: without it, there is no receipt."""
        bulk = started(operator, failures(1))
        item = bulk.items.get()
        bulk_replays.stop(user=operator, bulk=bulk)

        bulk_replays._carry_out(bulk, item)

        assert Receipt.objects.count() == 1
        assert states(bulk) == ["stopped"]

    def test_rights_are_asked_for_again_when_a_queued_replay_begins(
        self, failures: Any, operator: User, desk: Provider
    ) -> None:
        new = replay(user=operator, receipt=failures(1)[0], reason=WHY, queued=True).receipt
        calls = desk.calls
        operator.groups.clear()

        assert queued.begin_queued(new.pk, 1) is None

        new.refresh_from_db()
        assert (new.status, new.error_code, new.error_reason) == ("failed", "permission_denied", "role_taken")
        event = AuditEvent.objects.get(verb="access_refused")
        assert (event.actor, event.receipt_id) == (operator, new.pk)
        assert desk.calls == calls

    def test_lost_job_is_found_out(self, failures: Any, operator: User) -> None:
        started(operator, failures(1))
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM procrastinate_jobs")
        bulk_replays.look_after()
        bulk_replays.look_after()
        assert jobs() == 1

    def test_states_hold_by_the_database(self, failures: Any, operator: User) -> None:
        bulk = started(operator, failures(1))
        for wrong in ({"state": "replayed"}, {"state": "refused"}, {"state": "done"}, {"refusal_code": "in_flight"}):
            with pytest.raises(IntegrityError), transaction.atomic():
                BulkReplayItem.objects.filter(bulk=bulk).update(**wrong)
        with pytest.raises(IntegrityError), transaction.atomic():
            bulk.items.create(
                receipt=bulk.items.get().receipt,
                position=9,
                verdict="draft_again",
                expected_replay_no=1,
                state="planned",
            )


@pytest.mark.processes
class TestWorkers:
    """Real ones."""

    def finished(self, *bulks: BulkReplay) -> bool:
        return BulkReplay.objects.filter(pk__in=[b.pk for b in bulks], finished_at__isnull=False).count() == len(bulks)

    @pytest.mark.parametrize("at_commit", [False, True])
    def test_killed_at_one_item_of_many_leaves_no_double_and_no_hole(
        self, start: Any, failures: Any, operator: User, at_commit: bool
    ) -> None:
        bulk = started(operator, failures(12))
        connection.close()
        fifth = "NEW.replay_of IS NOT NULL AND (SELECT count(*) FROM bulk_replay_items WHERE state = 'replayed') >= 5"
        with held_at("tool_receipts", at_commit=at_commit, when=fifth) as let_go:
            worker = start(ATTEMPT_DEADLINE_SECONDS="3", FILL_BUDGET_SECONDS="2")
            eventually(lambda: waiting_at_the_point() == 1)
            worker.kill()
            let_go()
        assert states(bulk).count("planned") > 0
        self.recover()
        start()

        def all_is_done() -> bool:
            flow.sweep()  # what the dead worker was drafting
            bulk_replays.look_after()  # what the tick does once a minute
            return self.finished(bulk)

        eventually(all_is_done, 120)
        assert states(bulk) == ["replayed"] * 12
        assert Receipt.objects.filter(replay_of__isnull=False, status="applied").count() == 12
        assert Receipt.objects.filter(replay_of__isnull=False).count() == Followup.objects.count() == 12

    def recover(self) -> None:
        # the queue finds out after half a minute without a heartbeat; here at once
        with connection.cursor() as cursor:
            cursor.execute("UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - interval '1 hour'")
        tasks.recover_jobs.defer(timestamp=0)
        connection.close()

    def test_worker_that_is_told_to_stop_hands_over(
        self, start: Any, failures: Any, operator: User, desk: Provider
    ) -> None:
        bulk = started(operator, failures(6))
        desk.gate.clear()
        worker = start(BULK_REPLAY_IN_FLIGHT="2")
        desk.wait_for_calls(6 + 2)
        worker.signal(signal.SIGTERM)
        desk.gate.set()
        assert worker.wait() == 0
        start()

        eventually(lambda: self.finished(bulk), 90)
        assert states(bulk) == ["replayed"] * 6
        assert Receipt.objects.filter(replay_of__isnull=False).count() == Followup.objects.count() == 6

    def test_stop_lets_nothing_more_begin(self, start: Any, failures: Any, operator: User, desk: Provider) -> None:
        bulk = started(operator, failures(6))
        desk.gate.clear()
        start(BULK_REPLAY_IN_FLIGHT="2")
        desk.wait_for_calls(6 + 2)

        assert bulk_replays.stop(user=operator, bulk=bulk) == 4
        assert bulk_replays.stop(user=operator, bulk=bulk) is None
        desk.gate.set()

        eventually(lambda: self.finished(bulk), 90)
        assert states(bulk) == ["replayed"] * 2 + ["stopped"] * 4
        assert Followup.objects.count() == 2
        event = AuditEvent.objects.get(verb="bulk_stop")
        assert (event.actor, event.detail["stopped"]) == (operator, 4)

    def test_two_operators_with_the_same_receipts_replay_each_once(
        self, start: Any, failures: Any, operator: User
    ) -> None:
        receipts = failures(10)
        plans = [(operator, plan(receipts, WORDS)), (person("olga", "Operators"), plan(receipts, WORDS))]
        bulks = [bulk_replays.start(user=user, plan=shown, reason=WHY) for user, shown in plans]
        connection.close()
        start()
        start()

        eventually(lambda: self.finished(*bulks), 90)
        assert Receipt.objects.filter(replay_of__isnull=False).count() == Followup.objects.count() == 10
        tallies = [bulk_replays.tally(bulk.pk) for bulk in bulks]
        assert sum(tally.applied for tally in tallies) == 10
        assert sum(tally.refused for tally in tallies) == 10
        for lost in BulkReplayItem.objects.filter(state="refused"):
            assert lost.look_at is not None
            assert lost.look_at.replay_of_id == lost.receipt_id

    def test_a_role_that_was_taken_meanwhile_ends_the_rest(
        self, start: Any, failures: Any, operator: User, desk: Provider
    ) -> None:
        bulk = started(operator, failures(6))
        desk.gate.clear()
        start(BULK_REPLAY_IN_FLIGHT="2")
        desk.wait_for_calls(6 + 2)
        operator.groups.clear()
        desk.gate.set()

        eventually(lambda: self.finished(bulk), 90)
        assert states(bulk) == ["replayed"] * 2 + ["refused"] * 4
        said = set(bulk.items.filter(state="refused").values_list("refusal_code", "refusal_reason"))
        assert said == {("permission_denied", "role_taken")}
        event = AuditEvent.objects.get(verb="access_refused")
        assert (event.actor, event.detail["receipts"]) == (operator, 4)
