"""What leaves the database: asked for in the commit that applies the change, handed over at most once, and where nobody
can know, the row says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from receipts import errors, fill, flow, ledger, queued
from receipts.contracts import (
    Applied,
    Arguments,
    Context,
    Effect,
    FollowOn,
    Handover,
    NotHandedOver,
    ReplayRule,
    registry,
)
from receipts.manifest import tool_of
from receipts.models import Attempt, Receipt, Run
from receipts.presses import Input
from receipts.settlement import Conclusion
from receipts.told import represent
from tests.flow.conftest import Presser
from tests.flow.test_file import overdue
from tickets.models import Followup
from tickets.tools import FILE_FOLLOWUP

ARGUMENTS = {"summary": "Tell the requester that we work on it.", "assignee": "ada"}


class Outside:
    """The other side: counts what reaches it, and does what the test says."""

    def __init__(self) -> None:
        self.handed: list[Arguments] = []
        self.does: Callable[[], None] = lambda: None

    def hand_over(self, arguments: Arguments, receipt: Receipt) -> Applied:
        assert not connection.in_atomic_block
        self.handed.append(arguments)
        self.does()
        return Applied(result_ref="sent", output={"to": "rita@example.com"})


def asks_for_delivery(arguments: Arguments, context: Context, receipt: Receipt) -> Applied:
    key = f"outbox:{receipt.pk}"
    return Applied(
        result_ref="FUP-0",
        follow_on=FollowOn(tool="deliver_email", subject=context.subject, key=key, arguments=ARGUMENTS),
    )


@pytest.fixture
def outside(settings: Any) -> Iterator[Outside]:
    """`deliver_email` hands over to a side that the test drives; `close_ticket` asks for it."""
    side = Outside()
    held = dict(registry._tools)

    def declare(name: str, effect: Effect, apply: Any) -> None:
        registry._tools[name, 1] = replace(
            FILE_FOLLOWUP, name=name, effect=effect, replay_rule=ReplayRule.NEVER, apply=apply, evidence=""
        )

    declare("deliver_email", Effect.OUTBOX, Handover(hand_over=side.hand_over))
    declare("close_ticket", Effect.WRITE, asks_for_delivery)
    yield side
    registry._tools.clear()
    registry._tools.update(held)


def begun(receipt: Receipt) -> Receipt:
    running = queued.begin_queued(receipt.pk, receipt.attempt)
    assert running is not None
    settled = running.future.result(20)
    assert settled is not None
    return settled


@pytest.fixture
def delivery(outside: Outside, press: Presser) -> Receipt:
    """The pending delivery that an applied change asked for."""
    flow.wait(
        flow.file(
            tool="close_ticket",
            user=press.user,
            subject="TCK-1008",
            key="close-1008",
            body=lambda: {"arguments": ARGUMENTS},
        )
    )
    return Receipt.objects.get(tool_name="deliver_email")


class TestFollowOn:
    def test_is_opened_with_the_stamp_and_waits_for_a_worker(self, delivery: Receipt, outside: Outside) -> None:
        asked = Receipt.objects.get(tool_name="close_ticket")

        assert (asked.status, delivery.status, delivery.started_at) == ("applied", "pending", None)
        assert delivery.idempotency_key == f"outbox:{asked.pk}"
        assert (delivery.user_id, delivery.root_id) == (asked.user_id, delivery.pk)
        assert Run.objects.get(pk=delivery.run_id).parent_id == asked.run_id
        assert outside.handed == []
        with connection.cursor() as cursor:
            cursor.execute("SELECT args->>'receipt_id' FROM procrastinate_jobs")
            assert cursor.fetchall() == [(str(delivery.pk),)]

    def test_falls_with_the_change(self, outside: Outside, press: Presser) -> None:
        """A key that was used before: the change rolls back with what it asked for."""

        def twice(arguments: Arguments, context: Context, receipt: Receipt) -> Applied:
            asked = FollowOn(tool="deliver_email", subject="TCK-1008", key="outbox:once", arguments=ARGUMENTS)
            return Applied(result_ref="FUP-0", follow_on=asked)

        registry._tools["close_ticket", 1] = replace(registry.get("close_ticket", 1), apply=twice)
        rows = [
            flow.wait(
                flow.file(
                    tool="close_ticket",
                    user=press.user,
                    subject="TCK-1008",
                    key=f"close-{number}-1008",
                    body=lambda: {"arguments": ARGUMENTS},
                )
            )
            for number in (1, 2)
        ]

        assert [(row.status, row.error_code) for row in rows] == [("applied", None), ("failed", "internal_error")]
        assert Receipt.objects.filter(tool_name="deliver_email").count() == 1


class TestHandover:
    def test_is_made_once_and_stamped(self, delivery: Receipt, outside: Outside) -> None:
        settled = begun(delivery)

        assert (settled.status, settled.result_ref) == ("applied", "sent")
        assert outside.handed == [{"ticket_id": "TCK-1008", **ARGUMENTS}]
        assert queued.begin_queued(delivery.pk, 1) is None

    def test_what_it_gave_back_is_kept_redacted_beside_the_decision(self, delivery: Receipt) -> None:
        settled = begun(delivery)

        kept = Attempt.objects.get(receipt=delivery).tool_result
        assert kept == {"effect": "outbox", "result_ref": "sent", "error": None, "output": {"to": "[e-mail]"}}
        assert represent(Receipt.objects.select_related("user").get(pk=delivery.pk)) | {"tool_result": kept} == (
            represent(settled_with_user(settled))
        )

    def test_certain_failure_is_retried_by_the_system(self, delivery: Receipt, outside: Outside) -> None:
        def unreachable() -> None:
            raise NotHandedOver("database_error", retryable=True)

        outside.does = unreachable
        failed = begun(delivery)

        assert (failed.error_code, failed.retryable) == ("delivery_failed", True)
        assert failed.next_attempt_at is not None
        outside.does = lambda: None
        running = queued.retry_unwatched(delivery.pk, 1)
        assert running is not None
        settled = running.future.result(20)
        assert settled is not None
        assert (settled.status, settled.attempt) == ("applied", 2)

    def test_doubt_is_said_and_never_tried_again(self, delivery: Receipt, outside: Outside) -> None:
        def breaks() -> None:
            raise ConnectionResetError

        outside.does = breaks
        settled = begun(delivery)

        assert (settled.status, settled.error_code, settled.http_status) == ("failed", "outcome_unknown", 504)
        assert (settled.retryable, settled.next_attempt_at) == (False, None)
        assert queued.retry_unwatched(delivery.pk, 1) is None
        told = represent(settled_with_user(settled))
        assert (told["replayable"], told["replay_refusal"]) == (False, "not_replayable")
        assert len(outside.handed) == 1

    def test_process_that_died_in_between_leaves_doubt(self, delivery: Receipt, outside: Outside) -> None:
        assert ledger.begin(delivery, 30)
        overdue(delivery)

        assert flow.sweep() == 1

        row = ledger.read(delivery.pk)
        assert row is not None
        assert (row.error_code, row.retryable) == ("outcome_unknown", False)
        assert outside.handed == []

    def test_nobody_who_began_it_leaves_no_doubt(self, delivery: Receipt) -> None:
        overdue(delivery)

        assert flow.sweep() == 1

        row = ledger.read(delivery.pk)
        assert row is not None
        assert (row.error_code, row.error_reason, row.retryable) == ("abandoned", "never_started", True)

    def test_process_that_slept_past_its_deadline_sends_nothing(self, delivery: Receipt, outside: Outside) -> None:
        """The row is asked once more before anything leaves."""
        started = ledger.begin(delivery, 30)
        assert started is not None
        conclusion = conclusion_of(started)
        overdue(delivery)
        flow.sweep()

        handed = conclusion.hand_over(conclusion.tool.apply)

        assert isinstance(handed, errors.DeadlineExceeded)
        assert outside.handed == []
        assert conclusion.settle(handed).error_code == "outcome_unknown"  # as the sweep settled it

    def test_stamp_that_comes_too_late_leaves_doubt(self, delivery: Receipt, outside: Outside) -> None:
        outside.does = lambda: overdue(delivery)

        settled = begun(delivery)

        assert (settled.status, settled.error_code) == ("failed", "outcome_unknown")
        assert len(outside.handed) == 1

    def test_version_that_does_not_hold_the_tool_leaves_it_to_one_that_does(
        self, delivery: Receipt, outside: Outside
    ) -> None:
        """A rolling deploy: only who holds the contract knows whether it leaves the database."""
        assert ledger.begin(delivery, 30)
        overdue(delivery)
        held = registry._tools.pop(("deliver_email", 1))
        assert flow.sweep() == 0
        registry._tools["deliver_email", 1] = held

        assert flow.sweep() == 1
        assert ledger.read(delivery.pk).error_code == "outcome_unknown"  # type: ignore[union-attr]


def settled_with_user(receipt: Receipt) -> Receipt:
    receipt.user = Receipt.objects.select_related("user").get(pk=receipt.pk).user
    return receipt


def conclusion_of(receipt: Receipt) -> Any:
    tool = tool_of(receipt)
    context = ledger.context(tool, receipt.subject)
    assert context is not None
    return Conclusion(
        receipt=receipt,
        tool=tool,
        context=context,
        given=Input(arguments=ARGUMENTS),
        filled=fill.judge_given(ARGUMENTS, tool, context),
        begun=time.monotonic(),
    )


def test_follow_up_of_the_shipped_tool_asks_for_nothing(press: Presser) -> None:
    press.settled()
    assert Followup.objects.count() == Receipt.objects.count() == 1
