"""The filing flow, row by row of its status table. The HTTP numbers over the wire are in tests/api."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from receipts import errors, flow, ledger, queued
from receipts.models import Attempt, AuditEvent, Receipt, Run, SealedInput
from receipts.runner import Inflight
from receipts.sealing import sealer
from tests.flow.conftest import Presser
from tests.flow.provider import GOOD, Provider
from tickets.models import Followup, Member, Message, Ticket


def sql(query: str, *parameters: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters or None)
        return cursor.fetchall()


class TestFirstPress:
    def test_files_and_stamps_in_one_go(self, press: Presser, desk: Provider) -> None:
        receipt = press.settled(key="follow-7f3a")

        assert (receipt.status, receipt.http_status) == ("applied", 201)
        followup = Followup.objects.get()
        assert (followup.id, followup.summary, followup.assignee) == (receipt.result_ref, GOOD["summary"], "ada")
        assert followup.created_by == press.user
        assert desk.calls == 1

    def test_the_articles_sql_runs_as_printed(self, press: Presser) -> None:
        press.settled(key="follow-7f3a")

        assert sql("SELECT status FROM tool_receipts WHERE idempotency_key='follow-7f3a'") == [("applied",)]
        assert sql("SELECT count(*) FROM followups WHERE ticket_id='TCK-1008'") == [(1,)]
        columns = "id, user_id, idempotency_key, tool_name, arguments_json, status, http_status, error_code,"
        assert len(sql(f"SELECT {columns} result_ref, created_at, applied_at FROM tool_receipts")) == 1

    def test_is_pending_in_the_ledger_before_the_provider_is_called(self, press: Presser, desk: Provider) -> None:
        seen: list[Any] = []

        def look(request: dict[str, Any]) -> tuple[int, Any]:
            seen.extend(sql("SELECT status FROM tool_receipts"))
            connection.close()
            return 200, {"choices": []}

        desk.answer = look
        press.settled()

        assert seen == [("pending",)]

    def test_holds_no_transaction_and_no_connection_while_the_provider_works(
        self, press: Presser, desk: Provider
    ) -> None:
        desk.gate.clear()
        filing = press()
        waiting = threading.Thread(target=flow.wait, args=(filing,))
        waiting.start()
        desk.wait_for_calls(1)

        busy = sql(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND (state LIKE 'idle in%' OR state = 'active')"
        )

        assert busy == []
        desk.gate.set()
        waiting.join()

    def test_leaves_the_run_its_manifest_and_one_attempt(self, press: Presser) -> None:
        receipt = press.settled()

        run = Run.objects.get(pk=receipt.run_id)
        assert (run.workflow, run.trigger, run.actor_id) == ("file_followup", "press", press.user.pk)
        assert run.manifest["contracts"] == {"file_followup@1": receipt.contract_sha256}
        attempt = Attempt.objects.get()
        assert (attempt.receipt_id, attempt.attempt, attempt.status) == (receipt.pk, 1, "ok")
        assert attempt.tool_result == {"effect": "write", "result_ref": receipt.result_ref, "error": None}
        assert attempt.model_decision["proposed"] == GOOD
        assert attempt.model_decision["gate"] is None
        assert not attempt.replayable

    def test_keeps_the_notes_sealed_and_nowhere_else(self, press: Presser) -> None:
        secret = "Call her on +44 20 7946 0958, she is at rita.bell@example.com"
        receipt = press.settled(notes=secret)

        token = bytes(SealedInput.objects.get().token)
        assert sealer().unseal(token)["notes"] == secret
        for table in ("tool_receipts", "attempts", "runs", "audit_events"):
            dump = json.dumps(sql(f"SELECT to_jsonb(t)::text FROM {table} t"))
            assert "7946" not in dump
            assert "rita.bell" not in dump
        assert receipt.input_hash

    def test_the_prompt_holds_this_ticket_only(self, press: Presser, desk: Provider) -> None:
        said = {"author": "requester", "author_name": "Eve", "created_at": timezone.now()}
        Message.objects.create(ticket_id="TCK-1009", body="the other one's secret", **said)
        Message.objects.create(ticket_id="TCK-1008", body="the certificate has expired", **said)
        press.settled()

        prompt = json.dumps(desk.requests)
        assert "the certificate has expired" in prompt
        assert "secret" not in prompt
        assert "TCK-1009" not in prompt

    def test_says_when_the_conversation_moved_while_the_model_wrote(self, press: Presser, desk: Provider) -> None:
        def reply(request: dict[str, Any]) -> tuple[int, Any]:
            Message.objects.create(
                ticket_id="TCK-1008", author="requester", author_name="Rita", body="Solved!", created_at=timezone.now()
            )
            connection.close()
            return desk_good(request)

        desk_good, desk.answer = desk.answer, reply
        receipt = press.settled()

        assert receipt.status == "applied"
        assert receipt.context_moved


class TestSameKey:
    def test_answers_from_the_ledger_for_the_same_request(self, press: Presser, desk: Provider) -> None:
        first = press.settled(key="follow-7f3a")

        again = press(key="follow-7f3a")

        assert again.deduplicated
        assert again.receipt.result_ref == first.result_ref
        assert desk.calls == 1
        assert Followup.objects.count() == 1

    def test_quoted_and_bare_spellings_are_one_key(self, press: Presser) -> None:
        press.settled(key="follow-7f3a")

        assert press(key='"follow-7f3a"').deduplicated

    def test_form_and_script_line_ends_are_one_request(self, press: Presser) -> None:
        press.settled(key="follow-7f3a", notes="one\r\ntwo")

        assert press(key="follow-7f3a", notes="one\ntwo").deduplicated

    def test_is_told_at_once_while_the_first_is_in_flight(self, press: Presser, desk: Provider) -> None:
        desk.gate.clear()
        filing = press(key="follow-7f3a")
        desk.wait_for_calls(1)

        with pytest.raises(errors.IdempotencyInFlight) as refused:
            press(key="follow-7f3a")

        assert refused.value.receipt_id == str(filing.receipt.pk)
        assert 1 <= (refused.value.retry_after or 0) <= 5
        desk.gate.set()
        assert flow.wait(filing).status == "applied"

    @pytest.mark.parametrize("state", ["pending", "applied", "retryable", "permanent"])
    @pytest.mark.parametrize("other", [{"notes": "Something else."}, {"ticket": "TCK-1009"}])
    def test_refuses_another_request_in_every_state(
        self, press: Presser, desk: Provider, state: str, other: dict[str, Any]
    ) -> None:
        match state:
            case "pending":
                desk.gate.clear()
            case "retryable":
                desk.fails(500)
            case "permanent":
                desk.says("not json")
        filing = press(key="follow-7f3a")
        if state == "pending":
            desk.wait_for_calls(1)
        else:
            flow.wait(filing)
        before = sql("SELECT to_jsonb(t)::text FROM tool_receipts t")

        with pytest.raises(errors.IdempotencyKeyReused) as refused:
            press(key="follow-7f3a", **other)

        assert refused.value.receipt_id == str(filing.receipt.pk)
        assert sql("SELECT to_jsonb(t)::text FROM tool_receipts t") == before
        desk.gate.set()

    def test_of_another_person_is_another_press(self, press: Presser, bob: Any) -> None:
        mine = press.settled(key="follow-7f3a")
        theirs = Presser(bob).settled(key="follow-7f3a")

        assert mine.pk != theirs.pk
        assert Followup.objects.count() == 2

    def test_runs_again_after_a_retryable_end_as_the_next_attempt(self, press: Presser, desk: Provider) -> None:
        good, calls = desk.answer, []

        def third_time_lucky(request: dict[str, Any]) -> tuple[int, Any]:
            calls.append(1)
            return (500, {}) if len(calls) <= 2 else good(request)

        desk.answer = third_time_lucky
        ends = [press.settled(key="follow-7f3a") for _ in range(3)]

        assert [end.http_status for end in ends] == [502, 502, 201]
        assert [end.attempt for end in ends] == [1, 2, 3]
        assert list(Attempt.objects.order_by("attempt").values_list("status", flat=True)) == [
            "retryable",
            "retryable",
            "ok",
        ]
        assert AuditEvent.objects.filter(verb="retry", actor=press.user).count() == 2
        assert press(key="follow-7f3a").deduplicated

    def test_permanent_failure_is_answered_from_the_ledger(self, press: Presser, desk: Provider) -> None:
        desk.says("not json")
        first = press.settled(key="follow-7f3a")
        desk.says(GOOD)

        again = press(key="follow-7f3a")

        assert again.deduplicated
        assert again.receipt.error_reason == first.error_reason == "model_output_not_json"
        with pytest.raises(errors.FillInvalid):
            flow.answer_of(again.receipt)


class TestRefusedBeforeAnyReceipt:
    @pytest.fixture(autouse=True)
    def nothing_is_written(self, press: Presser, desk: Provider) -> Any:
        yield
        assert Receipt.objects.count() == 0
        assert Run.objects.count() == 0
        assert desk.calls == 0

    def test_without_the_permission(self, operator: Any) -> None:
        with pytest.raises(errors.PermissionDenied):
            Presser(operator)()

    def test_unknown_ticket(self, press: Presser) -> None:
        for subject in ("TCK-9999", "nonsense", "TCK-1008\x00", "TCK-" + "9" * 300):
            with pytest.raises(errors.NotFound):
                press(ticket=subject)

    def test_key_comes_before_the_body(self, press: Presser) -> None:
        def never() -> Any:
            raise AssertionError("the body was read before the key was checked")

        with pytest.raises(errors.IdempotencyKeyInvalid):
            press(key="short", body=never)
        with pytest.raises(errors.IdempotencyKeyInvalid):
            press(key="replay:1234-5678", body=never)

    def test_ticket_comes_before_the_key(self, press: Presser) -> None:
        with pytest.raises(errors.NotFound):
            press(ticket="TCK-9999", key="short")

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ([], "body"),
            ({}, "notes"),
            ({"notes": ""}, "notes"),
            ({"notes": " \n\t"}, "notes"),
            ({"notes": 7}, "notes"),
            ({"notes": "x" * 8001}, "notes"),
            ({"notes": "a\x00b"}, "notes"),
            ({"notes": "a\ud83d"}, "notes"),
            ({"notes": "fine", "tool": "delete"}, "tool"),
            ({"notes": "fine", "ticket_id": 1008}, "ticket_id"),
            ({"notes": "fine", "ticket_id": None}, "ticket_id"),
        ],
    )
    def test_invalid_body_names_the_field(self, press: Presser, body: Any, field: str) -> None:
        with pytest.raises(errors.InvalidRequest) as refused:
            press(body=lambda: body)

        assert list(refused.value.fields) == [field]

    def test_ticket_of_the_body_must_be_the_routes(self, press: Presser) -> None:
        with pytest.raises(errors.TicketMismatch) as refused:
            press(body=lambda: {"notes": "fine", "ticket_id": "TCK-1009"})

        assert refused.value.detail == "ticket_id mismatch"

    def test_when_every_place_is_taken(self, press: Presser, settings: Any) -> None:
        settings.MAX_IN_FLIGHT = 0

        with pytest.raises(errors.Overloaded) as refused:
            press()

        assert refused.value.retry_after


class TestThrottle:
    def test_counts_presses_of_one_person(self, press: Presser, bob: Any, settings: Any) -> None:
        settings.THROTTLE_PRESSES = "2/min"
        press.settled()
        press.settled()

        with pytest.raises(errors.Throttled) as refused:
            press()

        assert 1 <= (refused.value.retry_after or 0) <= 60
        assert Presser(bob).settled().status == "applied"

    def test_never_refuses_an_answer_from_the_ledger(self, press: Presser, settings: Any) -> None:
        settings.THROTTLE_PRESSES = "1/min"
        press.settled(key="follow-7f3a")

        assert press(key="follow-7f3a").deduplicated

    def test_holds_for_presses_of_the_same_moment(self, press: Presser, settings: Any) -> None:
        settings.THROTTLE_PRESSES = "3/min"
        outcomes: list[str] = []

        def one() -> None:
            try:
                flow.wait(press())
                outcomes.append("filed")
            except errors.Throttled:
                outcomes.append("throttled")
            finally:
                connection.close()

        threads = [threading.Thread(target=one) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(outcomes) == ["filed"] * 3 + ["throttled"] * 9

    def test_counts_retries_too(self, press: Presser, desk: Provider, settings: Any) -> None:
        settings.THROTTLE_PRESSES = "2/min"
        desk.fails(500)
        press.settled(key="follow-7f3a")
        press.settled(key="follow-7f3a")

        with pytest.raises(errors.Throttled):
            press(key="follow-7f3a")

    def test_comes_before_the_ticket(self, press: Presser, settings: Any) -> None:
        settings.THROTTLE_PRESSES = "1/min"
        press.settled()

        with pytest.raises(errors.Throttled):
            press(ticket="TCK-9999")


class TestAtApply:
    def close(self, ticket: str) -> None:
        Ticket.objects.filter(pk=ticket).update(status="closed")
        connection.close()

    def test_ticket_closed_meanwhile_is_refused_for_good(self, press: Presser, desk: Provider) -> None:
        good = desk.answer
        desk.answer = lambda request: (self.close("TCK-1008"), good(request))[1]

        receipt = press.settled(key="follow-7f3a")

        assert (receipt.http_status, receipt.error_code, receipt.error_reason) == (
            409,
            "ticket_conflict",
            "ticket_closed",
        )
        assert not receipt.retryable
        assert receipt.arguments_json == GOOD
        assert Followup.objects.count() == 0
        assert press(key="follow-7f3a").deduplicated
        assert sealer().unseal(bytes(SealedInput.objects.get().token))["arguments"] == GOOD

    def test_assignee_deactivated_meanwhile_is_refused(self, press: Presser, desk: Provider) -> None:
        good = desk.answer

        def leave(request: dict[str, Any]) -> tuple[int, Any]:
            Member.objects.filter(pk="ada").update(active=False)
            connection.close()
            return good(request)

        desk.answer = leave
        receipt = press.settled()

        assert (receipt.http_status, receipt.error_code, receipt.error_reason) == (
            422,
            "fill_invalid",
            "policy_assignee",
        )

    def test_inactive_assignee_is_refused_at_draft(self, press: Presser, desk: Provider) -> None:
        desk.says({**GOOD, "assignee": "charles"})

        receipt = press.settled()

        assert (receipt.error_code, receipt.error_reason) == ("fill_invalid", "policy_assignee")
        assert Attempt.objects.get().model_decision["gate"] == "policy"

    def test_locked_ticket_is_a_retryable_end(self, press: Presser, settings: Any, desk: Provider) -> None:
        settings.APPLY_LOCK_TIMEOUT_MS = 100
        locker = connection.copy()
        locker.set_autocommit(False)
        with locker.cursor() as cursor:
            cursor.execute("SELECT 1 FROM tickets WHERE id = 'TCK-1008' FOR UPDATE")

        receipt = press.settled(key="follow-7f3a")
        locker.rollback()
        locker.close()

        assert (receipt.http_status, receipt.error_code, receipt.error_reason) == (503, "apply_failed", "lock_timeout")
        assert receipt.retryable
        assert press.settled(key="follow-7f3a").status == "applied"

    def test_presses_on_one_ticket_do_not_wait_for_each_other(self, press: Presser, settings: Any) -> None:
        settings.APPLY_LOCK_TIMEOUT_MS = 1000
        sharer = connection.copy()
        sharer.set_autocommit(False)
        with sharer.cursor() as cursor:
            cursor.execute("SELECT 1 FROM tickets WHERE id = 'TCK-1008' FOR SHARE")

        receipt = press.settled()
        sharer.rollback()
        sharer.close()

        assert receipt.status == "applied"


class TestModelAnswer:
    def test_naming_another_ticket_is_a_security_event(self, press: Presser, desk: Provider) -> None:
        desk.says({**GOOD, "ticket_id": "TCK-1009"})

        receipt = press.settled()

        assert (receipt.http_status, receipt.error_code) == (422, "arg_mismatch")
        assert flow.from_row("arg_mismatch", None).detail == "model attempted to retarget ticket"
        event = AuditEvent.objects.get()
        assert (event.verb, event.receipt_id) == ("retarget_refused", receipt.pk)
        assert Followup.objects.count() == 0

    def test_refused_proposal_is_kept_redacted(self, press: Presser, desk: Provider) -> None:
        desk.says({**GOOD, "assignee": "rita.bell@example.com"})

        press.settled()

        assert "rita.bell" not in json.dumps(Attempt.objects.get().model_decision)


class TestDeadlines:
    def test_silent_provider_is_a_fill_timeout(self, press: Presser, desk: Provider, settings: Any) -> None:
        settings.FILL_BUDGET_SECONDS = 0.3
        desk.gate.clear()

        receipt = press.settled(key="follow-timeout")

        assert (receipt.http_status, receipt.error_code, receipt.error_reason) == (
            502,
            "fill_failed",
            "provider_timeout",
        )
        assert sql("SELECT status FROM tool_receipts WHERE idempotency_key='follow-timeout'") == [("failed",)]

    def test_late_tokens_never_land(self, press: Presser, desk: Provider, settings: Any) -> None:
        settings.FILL_BUDGET_SECONDS = 0.3
        desk.gate.clear()
        receipt = press.settled()

        desk.gate.set()

        assert receipt.status == "failed"
        assert Followup.objects.count() == 0

    def test_zombie_rolls_back_when_a_successor_owns_the_row(self, press: Presser, desk: Provider) -> None:
        """Attempt 1 sleeps past its deadline; attempt 2 applies; attempt 1 wakes and tries to apply."""
        desk.gate.clear()
        first = press(key="follow-7f3a")
        desk.wait_for_calls(1)
        overdue(first.receipt)
        held, desk.gate = desk.gate, threading.Event()
        desk.gate.set()

        second = press.settled(key="follow-7f3a")
        held.set()
        zombie = flow.wait(first)

        assert (second.attempt, second.status) == (2, "applied")
        assert (zombie.attempt, zombie.status, zombie.result_ref) == (2, "applied", second.result_ref)
        assert Followup.objects.count() == 1

    def test_overdue_is_taken_over_by_exactly_one_of_many(self, press: Presser, desk: Provider) -> None:
        desk.gate.clear()
        first = press(key="follow-7f3a")
        desk.wait_for_calls(1)
        overdue(first.receipt)
        outcomes: list[str] = []

        def again() -> None:
            try:
                press(key="follow-7f3a")
                outcomes.append("began")
            except errors.IdempotencyInFlight:
                outcomes.append("in flight")
            finally:
                connection.close()

        threads = [threading.Thread(target=again) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(outcomes) == ["began"] + ["in flight"] * 19
        desk.gate.set()

    def test_sweep_settles_the_overdue_and_nothing_else(self, press: Presser, desk: Provider) -> None:
        desk.gate.clear()
        dead, alive = press(), press()
        desk.wait_for_calls(2)
        overdue(dead.receipt)

        assert flow.sweep() == 1
        assert flow.sweep() == 0

        row = ledger.read(dead.receipt.pk)
        assert row is not None
        assert (row.status, row.http_status, row.error_code, row.retryable) == ("failed", 504, "abandoned", True)
        assert Attempt.objects.filter(receipt=row, error_reason="process_died").count() == 1
        desk.gate.set()
        assert flow.wait(alive).status == "applied"
        assert flow.wait(dead).status == "failed"


def overdue(receipt: Receipt) -> None:
    """Turn a pending receipt's clock: as the tables' owner, past the guards, which nothing else may do."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE tool_receipts DISABLE TRIGGER guard_transition")
        cursor.execute(
            "UPDATE tool_receipts SET deadline_at = clock_timestamp() - interval '1 second' WHERE id = %s", [receipt.pk]
        )
        cursor.execute("ALTER TABLE tool_receipts ENABLE ALWAYS TRIGGER guard_transition")


class TestAsync:
    def test_is_accepted_then_applied(self, press: Presser) -> None:
        filing = press(respond_async=True)

        assert filing.receipt.queued
        assert filing.receipt.start_by
        assert filing.receipt.start_by - filing.receipt.created_at == timedelta(hours=1)
        assert sql("SELECT task_name, args->>'receipt_id' FROM procrastinate_jobs") == [
            ("receipts.run_attempt", str(filing.receipt.pk))
        ]
        settled = worked(queued.begin_queued(filing.receipt.pk, 1))
        assert settled.status == "applied"
        assert settled.deadline_at - settled.started_at == timedelta(seconds=30)

    def test_job_that_comes_twice_begins_once(self, press: Presser, desk: Provider) -> None:
        filing = press(respond_async=True)

        worked(queued.begin_queued(filing.receipt.pk, 1))

        assert queued.begin_queued(filing.receipt.pk, 1) is None
        assert desk.calls == 1

    def test_job_is_written_with_the_receipt_or_not_at_all(
        self, press: Presser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with held_out("procrastinate_jobs"), pytest.raises(errors.DatabaseUnavailable):
            press(respond_async=True)

        assert Receipt.objects.count() == 0

    def test_same_key_again_is_in_flight_while_it_waits(self, press: Presser) -> None:
        press(key="follow-7f3a", respond_async=True)

        with pytest.raises(errors.IdempotencyInFlight):
            press(key="follow-7f3a", respond_async=True)


class TestSystemRetry:
    @pytest.fixture(autouse=True)
    def soon(self, settings: Any) -> None:
        settings.RETRY_FIRST_SECONDS = 0.01

    def test_continues_what_nobody_watches_until_it_is_applied(self, press: Presser, desk: Provider) -> None:
        desk.fails(500)
        first = worked(queued.begin_queued(press(respond_async=True).receipt.pk, 1))
        assert (first.status, first.retryable) == ("failed", True)
        assert first.next_attempt_at
        desk.says(GOOD)

        second = worked(queued.retry_unwatched(first.pk, 1))

        assert (second.status, second.attempt, second.next_attempt_at) == ("applied", 2, None)
        event = AuditEvent.objects.get(verb="retry")
        assert event.actor_id is None
        assert sql("SELECT task_name FROM procrastinate_jobs ORDER BY id") == [
            ("receipts.run_attempt",),
            ("receipts.retry_attempt",),
        ]

    def test_ends_after_so_many_attempts(self, press: Presser, desk: Provider, settings: Any) -> None:
        settings.RETRY_ATTEMPTS = 3
        desk.fails(500)
        row = worked(queued.begin_queued(press(respond_async=True).receipt.pk, 1))
        for attempt in (1, 2):
            assert row.next_attempt_at
            row = worked(queued.retry_unwatched(row.pk, attempt))

        assert (row.attempt, row.next_attempt_at) == (3, None)

    def test_leaves_a_watched_press_to_the_person(self, press: Presser, desk: Provider) -> None:
        desk.fails(500)

        assert press.settled().next_attempt_at is None
        assert sql("SELECT count(*) FROM procrastinate_jobs") == [(0,)]

    def test_leaves_a_permanent_end_alone(self, press: Presser, desk: Provider) -> None:
        desk.says("not json")

        assert worked(queued.begin_queued(press(respond_async=True).receipt.pk, 1)).next_attempt_at is None

    def test_honours_what_the_provider_asked_for(self, press: Presser, desk: Provider) -> None:
        desk.fails(429)
        desk.headers["Retry-After"] = "40"

        row = worked(queued.begin_queued(press(respond_async=True).receipt.pk, 1))

        assert row.settled_at
        assert row.next_attempt_at
        assert row.next_attempt_at - row.settled_at >= timedelta(seconds=40)

    def test_person_who_comes_first_wins(self, press: Presser, desk: Provider) -> None:
        desk.fails(500)
        row = worked(queued.begin_queued(press(key="follow-7f3a", respond_async=True).receipt.pk, 1))
        desk.says(GOOD)
        press.settled(key="follow-7f3a")

        assert queued.retry_unwatched(row.pk, 1) is None
        assert Followup.objects.count() == 1

    def test_swept_attempt_is_continued_too(self, press: Presser, desk: Provider) -> None:
        desk.gate.clear()
        filing = press(respond_async=True)
        running = queued.begin_queued(filing.receipt.pk, 1)
        desk.wait_for_calls(1)
        overdue(filing.receipt)
        assert flow.sweep() == 1
        desk.gate.set()
        assert running
        running.future.result(20)

        assert worked(queued.retry_unwatched(filing.receipt.pk, 1)).status == "applied"
        assert Followup.objects.count() == 1


def worked(inflight: Inflight | None) -> Receipt:
    """The settled row of an attempt that a worker's task would carry."""
    assert inflight is not None
    row = inflight.future.result(20)
    assert row is not None
    return row


@contextmanager
def held_out(table: str) -> Iterator[None]:
    """A table that takes no row for a while."""
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT held_out CHECK (false) NOT VALID")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT held_out")


class TestRetry:
    def test_owner_continues_the_same_receipt(self, press: Presser, desk: Provider) -> None:
        desk.fails(500)
        failed = press.settled()
        desk.says(GOOD)

        receipt = flow.wait(flow.retry(user=press.user, receipt=failed))

        assert (receipt.pk, receipt.attempt, receipt.status) == (failed.pk, 2, "applied")

    def test_operator_is_the_actor_of_the_attempt(self, press: Presser, desk: Provider, operator: Any) -> None:
        desk.fails(500)
        failed = press.settled()
        desk.says(GOOD)

        receipt = flow.wait(flow.retry(user=operator, receipt=failed))

        assert receipt.user_id == press.user.pk
        assert Attempt.objects.get(attempt=2).actor == operator
        assert AuditEvent.objects.get(verb="retry").actor == operator
        assert Followup.objects.get().created_by == press.user

    def test_stranger_is_refused(self, press: Presser, desk: Provider, bob: Any) -> None:
        desk.fails(500)
        failed = press.settled()

        with pytest.raises(errors.PermissionDenied):
            flow.retry(user=bob, receipt=failed)

    def test_of_an_applied_receipt_runs_nothing(self, press: Presser, desk: Provider) -> None:
        applied = press.settled()

        assert flow.retry(user=press.user, receipt=applied).deduplicated
        assert desk.calls == 1


def test_a_connection_that_hangs_up_changes_nothing(press: Presser, desk: Provider) -> None:
    """Nobody waits for the attempt; it ends all the same."""
    desk.gate.clear()
    filing = press()
    desk.wait_for_calls(1)
    desk.gate.set()

    assert filing.inflight is not None
    filing.inflight.future.result(20)

    assert ledger.read(filing.receipt.pk).status == "applied"  # type: ignore[union-attr]
