"""Filing by hand: the arguments are given, no model is asked, and the same gates and the same row decide."""

from __future__ import annotations

from typing import Any

import pytest

from receipts import errors, flow, ledger, queued
from receipts.models import Attempt, Receipt, Run, Trigger
from tests.flow.conftest import Presser
from tests.flow.provider import Provider
from tickets.models import Followup

ARGUMENTS = {"summary": "Check the certificate of the identity provider.", "assignee": "ada"}


def by_hand(press: Presser, **arguments: Any) -> Receipt:
    return press.settled(body=lambda: {"arguments": ARGUMENTS | arguments})


def test_is_filed_without_a_model(press: Presser, desk: Provider) -> None:
    receipt = by_hand(press)

    assert (receipt.status, receipt.http_status) == ("applied", 201)
    assert receipt.arguments_json == {"ticket_id": "TCK-1008", **ARGUMENTS}
    assert Followup.objects.get().summary == ARGUMENTS["summary"]
    assert Attempt.objects.get().model_decision is None
    assert receipt.model is None
    assert desk.calls == 0


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        ({"ticket_id": "TCK-1009"}, "arg_mismatch", None),
        ({"summary": "short"}, "fill_invalid", "model_output_invalid"),
        ({"extra": 1}, "fill_invalid", "model_output_invalid"),
        ({"summary": "Check the certificate\u202e of the provider."}, "fill_invalid", "model_output_unsafe_text"),
        ({"assignee": "charles"}, "fill_invalid", "policy_assignee"),
    ],
)
def test_passes_the_same_gates_from_retarget_on(
    press: Presser, arguments: dict[str, Any], code: str, reason: str | None
) -> None:
    receipt = by_hand(press, **arguments)

    assert (receipt.status, receipt.error_code, receipt.error_reason) == ("failed", code, reason)
    assert Followup.objects.count() == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"arguments": []}, "arguments"),
        ({"arguments": "ada"}, "arguments"),
        ({"arguments": {}, "notes": "both"}, "arguments"),
        ({"arguments": {"summary": "\ud800"}}, "arguments"),
        ({"arguments": {"summary": float("nan")}}, "arguments"),
        ({"arguments": {"summary": "x" * 40_000}}, "arguments"),
        ({}, "notes"),
    ],
)
def test_body_that_no_row_could_hold_is_refused_before_any_receipt(press: Presser, body: Any, field: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        press(body=lambda: body)

    assert list(refused.value.fields) == [field]
    assert Receipt.objects.count() == 0


def test_same_key_with_other_arguments_is_another_request(press: Presser) -> None:
    press.settled(key="follow-7f3a", body=lambda: {"arguments": ARGUMENTS})

    with pytest.raises(errors.IdempotencyKeyReused):
        press(key="follow-7f3a", body=lambda: {"arguments": ARGUMENTS | {"assignee": "grace"}})
    with pytest.raises(errors.IdempotencyKeyReused):
        press(key="follow-7f3a", notes="the same key with notes")
    again = press(key="follow-7f3a", body=lambda: {"arguments": dict(reversed(ARGUMENTS.items()))})
    assert again.deduplicated


def test_retry_of_what_was_given_asks_no_model(press: Presser, desk: Provider) -> None:
    """A queued one that nobody began in time, then retried by its owner."""
    waiting = press(body=lambda: {"arguments": ARGUMENTS}, respond_async=True).receipt
    assert ledger.abandon(waiting, errors.Abandoned(reason="never_started"), replayable=True) is None  # not yet
    running = queued.begin_queued(waiting.pk, 1)
    assert running is not None
    settled = running.future.result(20)

    assert settled is not None
    assert settled.status == "applied"
    assert desk.calls == 0


def test_service_presses_once_a_key(press: Presser, desk: Provider) -> None:
    def queue(notes: str = "No reply for three days.") -> Receipt:
        return flow.queue(
            tool="file_followup",
            user=press.user,
            subject="TCK-1008",
            key="nightly:1:TCK-1008",
            body={"notes": notes},
            trigger=Trigger.SCHEDULE,
            parent_run_id=None,
        )

    first = queue()
    assert (first.status, first.started_at) == ("pending", None)
    assert queue().pk == first.pk
    assert Run.objects.get().trigger == "schedule"
    with pytest.raises(errors.IdempotencyKeyReused):
        queue("another reason")
