"""Replay: a new run with a link to the old receipt, by an operator, with a reason; never a second side effect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace as with_changes
from typing import Any

import pytest
from django.db import connection

from receipts import errors, flow, ledger, queued
from receipts.contracts import registry
from receipts.models import AuditEvent, Receipt, Run, SealedInput
from receipts.replay import Mode, replay, verdict
from receipts_project.accounts.models import User
from tests.flow.conftest import Presser, person
from tests.flow.provider import GOOD, Provider
from tests.flow.test_recovery import sql
from tickets.models import Followup, Member, Ticket

WHY = "The provider was down last night."


@pytest.fixture
def failed(press: Presser, desk: Provider) -> Receipt:
    """Nothing was drafted: the notes alone are kept."""
    desk.fails(500)
    receipt = press.settled()
    desk.says(GOOD)
    return receipt


@pytest.fixture
def refused(press: Presser, desk: Provider) -> Receipt:
    """Drafted and validated, then refused by the ticket, which was reopened since: the arguments are kept too."""
    Ticket.objects.filter(pk="TCK-1008").update(status="closed")
    receipt = press.settled()
    Ticket.objects.filter(pk="TCK-1008").update(status="open")
    assert receipt.error_code == "ticket_conflict"
    return receipt


def replayed(user: User, receipt: Receipt, **choices: Any) -> Receipt:
    return flow.wait(replay(user=user, receipt=receipt, reason=WHY, **choices))


def row(receipt: Receipt) -> Any:
    return sql(f"SELECT to_jsonb(t)::text FROM tool_receipts t WHERE id = '{receipt.pk}'")


class TestReplay:
    def test_is_a_new_run_with_a_link_to_the_old_receipt(self, failed: Receipt, operator: User, desk: Provider) -> None:
        before = row(failed)

        new = replayed(operator, failed)

        assert (new.status, new.replay_of_id, new.replay_no, new.root_id) == ("applied", failed.pk, 1, failed.pk)
        assert (new.user_id, new.on_behalf_of_id) == (operator.pk, failed.user_id)
        assert new.idempotency_key == f"replay:{failed.pk}:1"
        assert (new.contract, new.contract_sha256) == (failed.contract, failed.contract_sha256)
        assert new.input_hash == failed.input_hash
        assert new.replay_reason == WHY
        run = Run.objects.get(pk=new.run_id)
        assert (run.trigger, run.actor_id) == ("replay", operator.pk)
        assert new.run_id != failed.run_id
        assert Followup.objects.get().created_by_id == failed.user_id
        assert row(failed) == before

    def test_is_told_of_in_the_same_commit(self, failed: Receipt, operator: User) -> None:
        new = replayed(operator, failed)

        event = AuditEvent.objects.get(verb="replay")
        assert (event.actor_id, event.receipt_id, event.run_id) == (operator.pk, failed.pk, new.run_id)
        assert event.detail == {
            "reason": WHY,
            "replay_no": 1,
            "replayed_as": str(new.pk),
            "mode": "draft_again",
            "contract": "file_followup@1",
        }

    def test_same_arguments_ask_no_model(self, refused: Receipt, operator: User, desk: Provider) -> None:
        calls = desk.calls

        new = replayed(operator, refused)

        assert new.status == "applied"
        assert desk.calls == calls
        assert new.arguments_json["summary"] == Followup.objects.get().summary

    def test_drafts_again_where_it_is_told_to(self, refused: Receipt, operator: User, desk: Provider) -> None:
        calls = desk.calls

        assert replayed(operator, refused, mode=Mode.DRAFT_AGAIN).status == "applied"
        assert desk.calls == calls + 1

    def test_failed_replay_may_be_followed_by_the_next_number(
        self, failed: Receipt, operator: User, desk: Provider
    ) -> None:
        desk.fails(500)
        first = replayed(operator, failed)
        desk.says(GOOD)

        second = replayed(operator, failed)

        assert [(r.replay_no, r.status) for r in (first, second)] == [(1, "failed"), (2, "applied")]

    def test_can_wait_for_a_worker(self, failed: Receipt, operator: User) -> None:
        waiting = replay(user=operator, receipt=failed, reason=WHY, queued=True).receipt
        assert (waiting.status, waiting.started_at) == ("pending", None)

        running = queued.begin_queued(waiting.pk, 1)
        assert running is not None
        settled = running.future.result(20)
        assert settled is not None
        assert settled.status == "applied"

    def test_system_does_not_continue_it_for_somebody_whose_role_was_taken(
        self, failed: Receipt, operator: User, desk: Provider
    ) -> None:
        desk.fails(500)
        waiting = replay(user=operator, receipt=failed, reason=WHY, queued=True).receipt
        first = queued.begin_queued(waiting.pk, 1)
        assert first is not None
        assert first.future.result(20).next_attempt_at is not None  # type: ignore[union-attr]
        operator.groups.clear()
        desk.says(GOOD)

        assert queued.retry_unwatched(waiting.pk, 1) is None

        row = ledger.read(waiting.pk)
        assert row is not None
        assert (row.error_code, row.error_reason) == ("permission_denied", "role_taken")
        assert Followup.objects.count() == 0

    def test_reason_is_required_and_redacted(self, failed: Receipt, operator: User) -> None:
        for reason in ("", "  \n", None, "x" * 501):
            with pytest.raises(errors.InvalidRequest) as wrong:
                replay(user=operator, receipt=failed, reason=reason)  # type: ignore[arg-type]
            assert list(wrong.value.fields) == ["reason"]
        new = flow.wait(replay(user=operator, receipt=failed, reason="Asked by rita@example.com"))
        assert new.replay_reason == "Asked by [e-mail]"

    def test_needs_the_permission_and_the_refusal_is_recorded(self, failed: Receipt, press: Presser) -> None:
        with pytest.raises(errors.PermissionDenied):
            replay(user=press.user, receipt=failed, reason=WHY)

        event = AuditEvent.objects.get(verb="access_refused")
        assert (event.actor_id, event.receipt_id, event.detail) == (press.user.pk, failed.pk, {"action": "replay"})
        assert Receipt.objects.count() == 1


class TestRefusals:
    """By name, before any row."""

    @pytest.fixture(autouse=True)
    def writes_nothing(self, operator: User) -> Iterator[None]:
        self.operator = operator
        yield
        assert not Receipt.objects.filter(replay_of__isnull=False, replay_no__gt=1).exists()

    def refusal(self, receipt: Receipt, **choices: Any) -> errors.ReceiptsError:
        before = sql("SELECT count(*)::text FROM tool_receipts")
        told = verdict(ledger.read(receipt.pk), **choices).refusal  # type: ignore[arg-type]
        with pytest.raises(errors.ReceiptsError) as refused:
            replay(user=self.operator, receipt=ledger.read(receipt.pk), reason=WHY, **choices)  # type: ignore[arg-type]
        assert sql("SELECT count(*)::text FROM tool_receipts") == before
        assert told is not None
        assert told.code == refused.value.code
        return refused.value

    def test_applied(self, press: Presser) -> None:
        applied = press.settled()
        assert self.refusal(applied).code == "applied_in_lineage"

    def test_applied_by_a_replay(self, failed: Receipt) -> None:
        new = replayed(self.operator, failed)
        found = self.refusal(failed)
        assert (found.code, found.receipt_id) == ("applied_in_lineage", str(new.pk))

    def test_pending(self, press: Presser) -> None:
        assert self.refusal(press(respond_async=True).receipt).code == "in_flight"

    def test_pending_replay(self, failed: Receipt) -> None:
        new = replay(user=self.operator, receipt=failed, reason=WHY, queued=True).receipt
        found = self.refusal(failed)
        assert (found.code, found.receipt_id) == ("in_flight", str(new.pk))

    def test_contract_that_is_gone(self, failed: Receipt) -> None:
        held = registry._tools.pop(("file_followup", 1))
        try:
            assert self.refusal(failed).code == "contract_gone"
        finally:
            registry._tools["file_followup", 1] = held

    def test_contract_whose_schema_differs(self, failed: Receipt) -> None:
        held = registry._tools["file_followup", 1]
        registry._tools["file_followup", 1] = with_changes(held, schema_sha256="0" * 64)
        try:
            assert self.refusal(failed).code == "contract_gone"
        finally:
            registry._tools["file_followup", 1] = held

    def test_version_that_never_was(self, failed: Receipt) -> None:
        assert self.refusal(failed, contract="file_followup@99").code == "contract_gone"

    def test_contract_of_another_tool(self, failed: Receipt) -> None:
        assert self.refusal(failed, contract="close_ticket@1").code == "invalid_request"

    def test_tool_that_is_never_replayed(self, failed: Receipt) -> None:
        from receipts.contracts import ReplayRule

        held = registry._tools["file_followup", 1]
        registry._tools["file_followup", 1] = with_changes(held, replay_rule=ReplayRule.NEVER)
        try:
            assert self.refusal(failed).code == "not_replayable"
        finally:
            registry._tools["file_followup", 1] = held

    def test_input_that_is_no_longer_kept(self, failed: Receipt) -> None:
        SealedInput.objects.update(expires_at=failed.created_at)
        assert self.refusal(failed).code == "input_expired"

    def test_arguments_that_never_were(self, failed: Receipt) -> None:
        assert self.refusal(failed, mode=Mode.SAME_ARGUMENTS).code == "no_arguments"

    def test_ticket_that_is_closed(self, failed: Receipt) -> None:
        Ticket.objects.update(status="closed")
        found = self.refusal(failed)
        assert (found.code, found.reason) == ("target_refuses", "ticket_closed")

    def test_assignee_who_has_left(self, refused: Receipt) -> None:
        Member.objects.filter(pk=refused.arguments_json["assignee"]).update(active=False)
        found = self.refusal(refused)
        assert (found.code, found.reason) == ("target_refuses", "policy_assignee")

    def test_number_that_has_moved_on(self, failed: Receipt, desk: Provider) -> None:
        desk.fails(500)
        first = replayed(self.operator, failed, expected_no=1)
        with pytest.raises(errors.StaleReplayNo) as stale:
            replay(user=self.operator, receipt=failed, reason=WHY, expected_no=1)
        assert stale.value.receipt_id == str(first.pk)


class TestNewerContract:
    def test_is_a_choice_and_recorded(self, failed: Receipt, operator: User) -> None:
        new = replayed(operator, failed, contract="file_followup@2")

        assert (failed.contract, new.contract) == ("file_followup@1", "file_followup@2")
        assert AuditEvent.objects.get(verb="replay").detail["contract"] == "file_followup@2"

    def test_is_never_taken_by_itself(self, failed: Receipt, operator: User, settings: Any) -> None:
        settings.CONTRACTS = {"file_followup": 2}
        assert replayed(operator, failed).contract == "file_followup@1"


class TestRaces:
    def together(self, count: int, act: Callable[[int], Any]) -> list[Any]:
        """Each with a connection of its own, from one starting line."""
        line, answers = threading.Barrier(count), [None] * count

        def one(number: int) -> None:
            line.wait()
            try:
                answers[number] = act(number)
            except errors.ReceiptsError as error:
                answers[number] = error
            finally:
                connection.close()

        threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        return answers

    def test_two_operators_clicking_together_make_one_receipt(
        self, failed: Receipt, operator: User, desk: Provider
    ) -> None:
        desk.gate.clear()
        people = [operator, person("olga", "Operators")]

        answers = self.together(
            20, lambda n: replay(user=people[n % 2], receipt=ledger.read(failed.pk), reason=WHY, expected_no=1)
        )

        desk.gate.set()
        won = [answer for answer in answers if isinstance(answer, flow.Filing)]
        assert len(won) == 1
        assert flow.wait(won[0]).status == "applied"
        assert Receipt.objects.filter(replay_of=failed).count() == Followup.objects.count() == 1
        for lost in answers:
            if lost is not won[0]:
                assert lost.code in ("in_flight", "stale_replay_no"), lost
                assert lost.receipt_id == str(won[0].receipt.pk)

    def test_replay_and_retry_never_both_run(
        self, failed: Receipt, press: Presser, operator: User, desk: Provider
    ) -> None:
        desk.gate.clear()
        acts = [
            lambda: replay(user=operator, receipt=ledger.read(failed.pk), reason=WHY),
            lambda: flow.retry(user=press.user, receipt=ledger.read(failed.pk)),  # type: ignore[arg-type]
        ]

        answers = self.together(2, lambda n: acts[n]())

        desk.gate.set()
        won = [answer for answer in answers if isinstance(answer, flow.Filing)]
        assert len(won) == 1
        assert flow.wait(won[0]).status == "applied"
        assert Followup.objects.count() == 1

    def test_retry_beside_a_live_replay_is_superseded(self, failed: Receipt, press: Presser, operator: User) -> None:
        new = replay(user=operator, receipt=failed, reason=WHY, queued=True).receipt
        before = row(failed)

        with pytest.raises(errors.Superseded) as superseded:
            flow.retry(user=press.user, receipt=failed)

        assert superseded.value.receipt_id == str(new.pk)
        assert row(failed) == before

    def test_ticket_closed_between_confirm_and_execution_is_refused_at_apply(
        self, failed: Receipt, operator: User, desk: Provider
    ) -> None:
        desk.gate.clear()
        filing = replay(user=operator, receipt=failed, reason=WHY)
        desk.wait_for_calls(2)
        Ticket.objects.update(status="closed")
        desk.gate.set()

        assert flow.wait(filing).error_code == "ticket_conflict"
        assert Followup.objects.count() == 0
