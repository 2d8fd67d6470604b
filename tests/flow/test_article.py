"""The article's three failure tests, as acceptance tests: its requests, its texts, its codes, its SQL."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from knox.models import AuthToken

from receipts_project.accounts.models import User
from tests.flow.provider import GOOD, Provider

URL = "/api/v1/tickets/TCK-1008/followups"


@pytest.fixture
def client(alice: User) -> Client:
    _, token = AuthToken.objects.create(alice)
    return Client(headers={"Authorization": f"Token {token}"})


def fetchval(query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


def post(client: Client, key: str, body: dict[str, Any]) -> Any:
    return client.post(URL, body, content_type="application/json", headers={"Idempotency-Key": key})


def test_duplicate_key_does_not_double_file(client: Client, desk: Provider) -> None:
    body = {"ticket_id": "TCK-1008", "notes": "Customer still blocked on SSO."}

    first = post(client, "follow-7f3a", body)
    second = post(client, "follow-7f3a", body)

    assert first.status_code == 201
    assert second.status_code == 200
    assert second.json()["result_ref"] == first.json()["result_ref"]
    assert (first.json()["status"], second.headers["Idempotent-Replayed"]) == ("applied", "true")
    assert fetchval("SELECT count(*) FROM followups WHERE ticket_id='TCK-1008'") == 1
    assert desk.calls == 1


def test_model_cannot_retarget_ticket(client: Client, desk: Provider) -> None:
    desk.says({"ticket_id": "TCK-EVIL", "summary": "nope", "assignee": "ada"})

    answer = post(client, "follow-retarget", {"ticket_id": "TCK-1008", "notes": "please file this"})

    assert answer.status_code == 422
    assert answer.json()["detail"] == "model attempted to retarget ticket"
    assert answer.json()["code"] == "arg_mismatch"
    assert fetchval("SELECT error_code FROM tool_receipts WHERE idempotency_key='follow-retarget'") == "arg_mismatch"
    assert fetchval("SELECT count(*) FROM followups") == 0


def test_fill_timeout_marks_receipt_failed(client: Client, desk: Provider, settings: Any) -> None:
    settings.FILL_BUDGET_SECONDS = 0.3
    desk.gate.clear()

    answer = post(client, "follow-timeout", {"ticket_id": "TCK-1008", "notes": "timeout path"})

    assert answer.status_code == 502
    assert answer.json()["detail"] == "argument fill failed"
    assert (answer.json()["code"], answer.json()["reason"]) == ("fill_failed", "provider_timeout")
    assert fetchval("SELECT status FROM tool_receipts WHERE idempotency_key='follow-timeout'") == "failed"


def test_ticket_mismatch_has_its_words(client: Client, desk: Provider) -> None:
    answer = post(client, "follow-mismatch", {"ticket_id": GOOD["ticket_id"].replace("8", "9"), "notes": "x"})

    assert (answer.status_code, answer.json()["detail"]) == (422, "ticket_id mismatch")
    assert fetchval("SELECT count(*) FROM tool_receipts") == 0
