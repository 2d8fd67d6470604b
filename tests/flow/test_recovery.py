"""What the ledger can no longer run is refused by name; what nothing may need any more is deleted."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from receipts import errors, flow, jobs, ledger, queued, runner
from receipts.contracts import Applied, Arguments, Context, ToolRefusal, registry
from receipts.models import Attempt, AuditEvent, Receipt, SealedInput
from tests.flow.conftest import Presser
from tests.flow.provider import GOOD, Provider, completion
from tests.flow.test_file import sql
from tickets.models import Followup, Ticket
from tickets.tools import FILE_FOLLOWUP


@pytest.fixture
def failed(press: Presser, desk: Provider) -> Receipt:
    desk.fails(500)
    receipt = press.settled(key="follow-7f3a")
    desk.says(GOOD)
    return receipt


def jobs_of(receipt: Receipt) -> list[tuple[str, float | None]]:
    """The jobs that wait for a receipt: (task, seconds until then)."""
    found: list[tuple[str, float | None]] = sql(
        "SELECT task_name, extract(epoch FROM scheduled_at - clock_timestamp())::float8 FROM procrastinate_jobs"
        f" WHERE status = 'todo' AND args ->> 'receipt_id' = '{receipt.pk}'"
        f" AND args ->> 'attempt' = '{receipt.attempt}'"
    )
    return found


def take_jobs() -> None:
    """What waits is taken from the queue, as by a worker that loses it."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs")


class TestLostJobs:
    """What waits for a worker and has no job gets one again, within a minute."""

    def test_a_queued_receipt(self, press: Presser) -> None:
        waiting = press(respond_async=True).receipt
        assert queued.enqueue_lost() == 0
        take_jobs()

        assert queued.enqueue_lost() == 1

        ((task, _seconds),) = jobs_of(waiting)
        assert task == "receipts.run_attempt"
        assert queued.enqueue_lost() == 0

    def test_a_receipt_whose_retry_is_due(self, press: Presser, desk: Provider, settings: Any) -> None:
        settings.RETRY_FIRST_SECONDS = 0.1
        waiting = self.failed_unwatched(press, desk)
        assert waiting.next_attempt_at
        take_jobs()
        assert queued.enqueue_lost() == 0  # its moment was just now

        self.later(waiting, 60)

        assert queued.enqueue_lost() == 1
        ((task, _seconds),) = jobs_of(waiting)
        assert task == "receipts.retry_attempt"
        assert queued.enqueue_lost() == 0

    def test_not_what_the_system_has_given_up(self, press: Presser, desk: Provider, settings: Any) -> None:
        waiting = self.failed_unwatched(press, desk)
        take_jobs()
        self.later(waiting, settings.RETRY_WITHIN_SECONDS + 1)

        assert queued.enqueue_lost() == 0

    def test_not_what_is_settled_begun_or_overdue(self, press: Presser, desk: Provider, settings: Any) -> None:
        press.settled()
        begun = press(respond_async=True).receipt
        take_jobs()
        assert ledger.begin(begun, 30.0)
        settings.START_BY_SECONDS = 0.001
        press(respond_async=True)
        take_jobs()

        assert queued.enqueue_lost() == 0

    def test_so_many_at_a_time(self, press: Presser, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queued, "LOST_MAX", 2)
        for _ in range(3):
            press(respond_async=True)
        take_jobs()

        assert [queued.enqueue_lost() for _ in range(3)] == [2, 1, 0]

    def failed_unwatched(self, press: Presser, desk: Provider) -> Receipt:
        desk.fails(500)
        waiting = press(respond_async=True).receipt
        inflight = queued.begin_queued(waiting.pk, 1)
        assert inflight
        settled = inflight.wait(30)
        desk.says(GOOD)
        assert settled
        return settled

    def later(self, receipt: Receipt, seconds: float) -> None:
        """So much time passes for the row, whose guards let nobody say so."""
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE tool_receipts DISABLE TRIGGER guard_transition")
            cursor.execute(
                "UPDATE tool_receipts SET created_at = created_at - make_interval(secs => %(by)s),"
                " next_attempt_at = next_attempt_at - make_interval(secs => %(by)s) WHERE id = %(id)s",
                {"by": seconds, "id": receipt.pk},
            )
            cursor.execute("ALTER TABLE tool_receipts ENABLE ALWAYS TRIGGER guard_transition")


class TestContractGone:
    @pytest.fixture
    def gone(self, failed: Receipt, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Receipt:
        """This version of the product holds version 2 alone."""
        settings.CONTRACTS = {}
        monkeypatch.setitem(registry._tools, ("file_followup", 2), replace(FILE_FOLLOWUP, version=2))
        monkeypatch.delitem(registry._tools, ("file_followup", 1))
        return failed

    def test_same_key_is_refused_and_the_row_untouched(self, gone: Receipt, press: Presser) -> None:
        before = sql("SELECT to_jsonb(t)::text FROM tool_receipts t")

        for retry in (lambda: press(key="follow-7f3a"), lambda: flow.retry(user=press.user, receipt=gone)):
            with pytest.raises(errors.ContractGone):
                retry()

        assert sql("SELECT to_jsonb(t)::text FROM tool_receipts t") == before

    def test_worker_leaves_it_for_a_version_that_holds_it(self, gone: Receipt) -> None:
        assert queued.retry_unwatched(gone.pk, 1) is None
        assert ledger.read(gone.pk).attempt == 1  # type: ignore[union-attr]
        ((task, seconds),) = jobs_of(gone)
        assert task == "receipts.retry_attempt"
        assert seconds is not None
        assert 25 < seconds < 50

    def test_so_it_does_with_what_was_queued(
        self, press: Presser, settings: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waiting = press(respond_async=True).receipt
        take_jobs()
        settings.CONTRACTS = {}
        monkeypatch.setitem(registry._tools, ("file_followup", 2), replace(FILE_FOLLOWUP, version=2))
        monkeypatch.delitem(registry._tools, ("file_followup", 1))

        assert queued.begin_queued(waiting.pk, 1) is None

        ((task, seconds),) = jobs_of(waiting)
        assert task == "receipts.run_attempt"
        assert seconds is not None
        assert 25 < seconds < 50


class TestInputExpired:
    def test_retry_is_refused_by_name(self, failed: Receipt, press: Presser) -> None:
        SealedInput.objects.update(expires_at=failed.created_at)

        with pytest.raises(errors.InputExpired):
            flow.retry(user=press.user, receipt=failed)

        assert ledger.read(failed.pk).attempt == 1  # type: ignore[union-attr]

    def test_worker_settles_it_by_name(self, press: Presser) -> None:
        waiting = press(respond_async=True).receipt
        SealedInput.objects.update(expires_at=waiting.created_at)

        assert queued.begin_queued(waiting.pk, 1) is None

        row = ledger.read(waiting.pk)
        assert row
        assert (row.status, row.error_code, row.http_status, row.retryable) == ("failed", "input_expired", 409, False)

    def test_same_key_with_its_notes_needs_no_sealed_input(self, failed: Receipt, press: Presser) -> None:
        SealedInput.objects.update(expires_at=failed.created_at)

        assert press.settled(key="follow-7f3a").status == "applied"


class TestPurge:
    def test_takes_what_expired_and_what_was_applied(self, failed: Receipt, press: Presser, capsys: Any) -> None:
        kept = failed.pk
        press.settled(key="applied-1")
        press.settled(key="applied-2")

        call_command("purge")

        assert capsys.readouterr().out == "2 sealed inputs deleted\n"
        assert list(SealedInput.objects.values_list("receipt_id", flat=True)) == [kept]
        assert AuditEvent.objects.get(verb="purge").detail == {"sealed_inputs": 2}
        assert Receipt.objects.count() == 3

    def test_takes_jobs_that_ended_days_ago(self, press: Presser, capsys: Any) -> None:
        """Of a job that waits nothing is too old."""
        waiting, *ended = (press(respond_async=True).receipt for _ in range(4))
        for receipt, status in zip(ended, ("failed", "cancelled", "failed"), strict=True):
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE procrastinate_jobs SET status = %s WHERE args ->> 'receipt_id' = %s",
                    [status, str(receipt.pk)],
                )
        with connection.cursor() as cursor:
            cursor.execute("UPDATE procrastinate_events SET at = at - make_interval(days => %s)", [7])
            cursor.execute(
                "UPDATE procrastinate_events event SET at = clock_timestamp() FROM procrastinate_jobs job"
                " WHERE job.id = event.job_id AND job.args ->> 'receipt_id' = %s",
                [str(ended[-1].pk)],
            )
        assert jobs.failed_for_good() == 2

        call_command("purge")

        assert capsys.readouterr().out == "0 sealed inputs deleted\n2 ended jobs deleted\n"
        assert jobs.failed_for_good() == 1
        assert len(jobs_of(waiting)) == 1

    def test_says_nothing_of_nothing(self, failed: Receipt) -> None:
        assert ledger.purge_sealed_inputs() == 0
        assert not AuditEvent.objects.exists()


class TestOverloaded:
    def test_retryable_receipt_is_not_reopened_without_a_place(
        self, failed: Receipt, press: Presser, settings: Any
    ) -> None:
        runner.drain(5)

        with pytest.raises(errors.Overloaded):
            press(key="follow-7f3a")

        assert ledger.read(failed.pk).status == "failed"  # type: ignore[union-attr]

    def test_worker_without_a_place_puts_the_job_off_and_counts_no_try(self, press: Presser, settings: Any) -> None:
        settings.MAX_IN_FLIGHT = 0
        waiting = press(respond_async=True).receipt
        take_jobs()

        assert queued.begin_queued(waiting.pk, 1) is None

        ((task, seconds),) = jobs_of(waiting)
        assert task == "receipts.run_attempt"
        assert seconds is not None
        assert 1 < seconds < 4
        assert sql("SELECT attempts FROM procrastinate_jobs") == [(0,)]

    def test_ticket_comes_first(self, press: Presser, settings: Any) -> None:
        settings.MAX_IN_FLIGHT = 0

        with pytest.raises(errors.NotFound):
            press(ticket="TCK-9999")

    def test_answers_what_the_ledger_holds(self, press: Presser) -> None:
        press.settled(key="follow-7f3a")
        runner.drain(5)

        assert press(key="follow-7f3a").deduplicated


class TestHostileFigures:
    def test_counts_that_fit_no_column_are_left_out(self, press: Presser, desk: Provider) -> None:
        answer = completion(GOOD)
        answer["usage"] = {"prompt_tokens": 2**40, "completion_tokens": 5, "total_tokens": 2**41}
        desk.answer = lambda request: (200, answer)

        receipt = press.settled()

        assert (receipt.status, receipt.prompt_tokens, receipt.completion_tokens) == ("applied", None, 5)

    def test_names_that_the_provider_gives_are_redacted(self, press: Presser, desk: Provider, settings: Any) -> None:
        settings.COMPLETIONS_API_KEY = "our-own-key-0123456789"
        answer = completion(GOOD)
        answer |= {"model": "for jane.doe@example.com", "id": settings.COMPLETIONS_API_KEY}
        desk.answer = lambda request: (200, answer)

        receipt = press.settled()

        kept = json.dumps(sql("SELECT to_jsonb(r)::text, to_jsonb(a)::text FROM tool_receipts r, attempts a"))
        assert receipt.status == "applied"
        assert "jane.doe" not in kept
        assert settings.COMPLETIONS_API_KEY not in kept

    def test_answer_that_echoes_our_key_is_refused(self, press: Presser, desk: Provider, settings: Any) -> None:
        settings.COMPLETIONS_API_KEY = "our-own-key-0123456789"
        desk.says({**GOOD, "summary": "Tell them our-own-key-0123456789 please"})

        receipt = press.settled()

        assert (receipt.error_code, receipt.error_reason) == ("fill_invalid", "model_output_unsafe_text")
        assert "our-own-key" not in json.dumps(Attempt.objects.get().model_decision)


class TestFunctionTool:
    """A tool may make its change in Python: fence, function, stamp, in one transaction."""

    @pytest.fixture
    def by_function(self, desk: Provider) -> Any:
        def apply(arguments: Arguments, context: Context, receipt: Receipt) -> Applied:
            ticket = Ticket.objects.select_for_update().get(pk=context.subject)
            if ticket.is_closed:
                raise ToolRefusal("ticket_closed")
            if arguments["assignee"] == "grace":
                raise ZeroDivisionError
            followup = Followup.objects.create(
                id=f"FUP-{receipt.pk.hex[-8:]}",
                ticket=ticket,
                summary=arguments["summary"],
                assignee=arguments["assignee"],
                created_by_id=receipt.user_id,
                receipt=receipt,
                created_at=receipt.created_at,
            )
            if arguments["assignee"] == "alan":  # its time runs out while it works
                while timezone.now() < receipt.deadline_at:
                    time.sleep(0.05)
            return Applied(result_ref=followup.id)

        held = registry._tools["file_followup", 1]
        registry._tools["file_followup", 1] = replace(held, apply=apply)
        yield
        registry._tools["file_followup", 1] = held

    def test_files_and_stamps_in_one_go(self, by_function: None, press: Presser) -> None:
        receipt = press.settled()

        assert receipt.status == "applied"
        assert receipt.result_ref == Followup.objects.get().id

    def test_refusal_rolls_back(self, by_function: None, press: Presser, desk: Provider) -> None:
        desk.says({**GOOD, "ticket_id": "TCK-1010"})

        assert press.settled(ticket="TCK-1010").error_reason == "ticket_closed"

    def test_fault_of_the_function_rolls_back(self, by_function: None, press: Presser, desk: Provider) -> None:
        desk.says({**GOOD, "assignee": "grace"})

        assert press.settled().error_code == "internal_error"
        assert Followup.objects.count() == 0

    def test_stamp_after_the_deadline_rolls_the_change_back(
        self, by_function: None, press: Presser, desk: Provider, settings: Any
    ) -> None:
        settings.ATTEMPT_DEADLINE_SECONDS = 1.0
        desk.says({**GOOD, "assignee": "alan"})

        receipt = press.settled()

        assert (receipt.status, receipt.error_code) == ("failed", "deadline_exceeded")
        assert Followup.objects.count() == 0


def test_late_stamp_of_a_statement_rolls_the_change_back(press: Presser, desk: Provider) -> None:
    """The deadline passes between the fence and the stamp: the statement raises, and nothing of it is there."""
    tool = replace(
        FILE_FOLLOWUP,
        apply=replace(
            FILE_FOLLOWUP.apply,  # type: ignore[arg-type]
            sql=FILE_FOLLOWUP.apply.sql.replace(  # type: ignore[union-attr]
                "clock_timestamp()\n", "(SELECT clock_timestamp() FROM (SELECT pg_sleep(1.2)) AS waited)\n"
            ),
        ),
    )
    assert "pg_sleep" in tool.apply.sql  # type: ignore[union-attr]
    receipt = press(respond_async=True).receipt
    started = ledger.begin(receipt, 1.0)
    context = ledger.context(tool, "TCK-1008")
    assert started
    assert context

    with pytest.raises(ledger.Fenced):
        ledger.apply(
            started,
            tool,
            dict(GOOD),
            context,
            decision=ledger.Decision(),
            lock_timeout_ms=2000,
            statement_timeout_ms=5000,
        )

    assert Followup.objects.count() == 0
    assert ledger.read(started.pk).status == "pending"  # type: ignore[union-attr]
