"""Every odd and hostile answer of the provider catalogue, end to end: what the row says, and that nothing moved."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection

from receipts import fill, flow
from receipts.errors import BY_CODE
from receipts.fill.filling import forget_downgrades
from receipts.models import Attempt
from receipts.presses import NOTES_MAX
from receipts.redaction import redact
from tests.fill.catalogue import APPLIED, Case, cases
from tests.fill.stub import in_thread
from tests.flow.conftest import Presser
from tickets.models import Followup, Ticket

CASES = list(cases("TCK-1008", "TCK-1009", "ada", "file_followup_v1"))
#: A note too long for a press is refused before any receipt (tests/flow/test_file.py); the rest reach the provider.
CATALOGUE = [case for case in CASES if len(case.notes) <= NOTES_MAX]
KEY = "sk-provider-key-0123456789"


def tickets() -> list[Any]:
    return list(Ticket.objects.order_by("pk").values())


@pytest.mark.parametrize("case", CATALOGUE, ids=[case.id for case in CATALOGUE])
def test_row_says_what_the_provider_did(case: Case, press: Presser, settings: Any, caplog: Any) -> None:
    forget_downgrades()
    settings.COMPLETIONS_STREAM = case.stream
    settings.COMPLETIONS_API_KEY = KEY
    settings.FILL_BUDGET_SECONDS = case.budget
    before = tickets()
    with in_thread(*case.responses) as stub:
        settings.COMPLETIONS_URL = stub.url
        receipt = press.settled(notes=case.notes)

        assert len(stub.requests) == case.calls
    if case.expected == APPLIED:
        assert (receipt.status, receipt.error_code) == ("applied", None)
        assert Followup.objects.get().id == receipt.result_ref
    else:
        code, reason, retryable = case.expected
        assert (receipt.status, receipt.error_code, receipt.error_reason) == ("failed", code, reason)
        assert receipt.retryable is retryable
        assert receipt.http_status == BY_CODE[code].http_status
        assert receipt.retry_after is None or 1 <= receipt.retry_after <= 60
        assert Followup.objects.count() == 0
    assert tickets() == before
    attempt = Attempt.objects.get()
    assert attempt.model_decision["calls"] == case.calls
    assert attempt.model_decision["proposed"] == redact(attempt.model_decision["proposed"])
    kept = json.dumps([everything(), caplog.text])
    assert KEY not in kept
    assert "Traceback" not in caplog.text


def everything() -> list[str]:
    kept: list[str] = []
    with connection.cursor() as cursor:
        for table in ("tool_receipts", "attempts", "runs", "audit_events"):
            cursor.execute(f"SELECT to_jsonb(t)::text FROM {table} t")
            kept += [row[0] for row in cursor.fetchall()]
    return kept


def test_a_fault_of_ours_settles_the_row_too(press: Presser, desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a fill may raise leaves a press pending."""

    async def broken(*args: Any, **options: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr(fill, "fill", broken)

    receipt = press.settled()

    assert (receipt.status, receipt.http_status, receipt.error_code) == ("failed", 500, "internal_error")
    with pytest.raises(BY_CODE["internal_error"]):
        flow.answer_of(receipt)
