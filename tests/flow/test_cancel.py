"""Cancel: a pending receipt is settled before it is filed; what runs on changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from receipts import errors, flow, ledger, queued
from receipts.contracts import Handover, registry
from receipts.models import AuditEvent, Receipt
from receipts_project.accounts.models import User
from tests.flow.conftest import Presser
from tests.flow.provider import Provider
from tickets.models import Followup


def test_settles_what_waits(press: Presser) -> None:
    waiting = press(respond_async=True).receipt

    row = flow.cancel(user=press.user, receipt=waiting)

    assert (row.status, row.error_code, row.http_status, row.retryable) == ("failed", "cancelled", 409, True)
    assert row.next_attempt_at is None
    assert queued.begin_queued(waiting.pk, 1) is None
    event = AuditEvent.objects.get(verb="cancel")
    assert (event.actor_id, event.receipt_id, event.detail) == (press.user.pk, waiting.pk, {"attempt": 1})


def test_ends_the_providers_call_and_files_nothing(press: Presser, desk: Provider) -> None:
    desk.gate.clear()
    filing = press(key="follow-7f3a")
    desk.wait_for_calls(1)

    flow.cancel(user=press.user, receipt=filing.receipt)

    assert flow.wait(filing).error_code == "cancelled"  # at once: the gate is still closed
    desk.gate.set()
    assert Followup.objects.count() == 0


def test_same_key_files_it_after_all(press: Presser) -> None:
    waiting = press(key="follow-7f3a", respond_async=True).receipt
    flow.cancel(user=press.user, receipt=waiting)

    again = press.settled(key="follow-7f3a")

    assert (again.pk, again.status, again.attempt) == (waiting.pk, "applied", 2)


def test_answer_that_comes_late_is_fenced(press: Presser, desk: Provider) -> None:
    """Another process settled the row, and cannot end the call here."""
    desk.gate.clear()
    filing = press()
    desk.wait_for_calls(1)
    assert ledger.settle_failed(filing.receipt, errors.Cancelled(), replayable=True)
    desk.gate.set()

    assert flow.wait(filing).error_code == "cancelled"
    assert Followup.objects.count() == 0


def test_settled_receipt_stays_as_it_is(press: Presser) -> None:
    applied = press.settled()

    with pytest.raises(errors.AlreadySettled):
        flow.cancel(user=press.user, receipt=applied)

    assert ledger.read(applied.pk).status == "applied"  # type: ignore[union-attr]


def test_twice_is_once(press: Presser) -> None:
    waiting = press(respond_async=True).receipt

    assert flow.cancel(user=press.user, receipt=waiting).pk == flow.cancel(user=press.user, receipt=waiting).pk
    assert AuditEvent.objects.filter(verb="cancel").count() == 1


def test_is_for_its_owner_and_who_may_retry_others(press: Presser, bob: User, operator: User) -> None:
    waiting = press(respond_async=True).receipt

    with pytest.raises(errors.PermissionDenied):
        flow.cancel(user=bob, receipt=waiting)
    assert flow.cancel(user=operator, receipt=waiting).error_code == "cancelled"


def test_what_is_leaving_is_not_called_cancelled(press: Presser, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have left: only a delivery that nobody has begun can be cancelled."""
    waiting = press(respond_async=True).receipt
    held: Any = registry.get("file_followup", 1)
    leaving = replace(held, apply=Handover(hand_over=lambda *_: None))  # type: ignore[arg-type,return-value]
    monkeypatch.setitem(registry._tools, ("file_followup", 1), leaving)
    ledger.begin(waiting, 30)

    with pytest.raises(errors.AlreadySettled):
        flow.cancel(user=press.user, receipt=waiting)

    assert Receipt.objects.get().status == "pending"
