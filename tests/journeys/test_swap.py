"""Swapping the provider is a matter of settings: the same journeys, whoever drafts and in whichever framing.

Everything is real but the models: the web process, PostgreSQL, and the provider as a process of its own.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from receipts.models import Receipt
from tests.journeys.conftest import TICKET, Desk, events_of
from tests.journeys.servers import OTHER_TICKET, Provider, Web
from tickets.models import Followup

pytestmark = pytest.mark.processes
KEY = "follow-7f3a"


@pytest.fixture(autouse=True)
def fresh(provider: Provider) -> None:
    provider.reset()


def row() -> Receipt:
    return Receipt.objects.get(idempotency_key=KEY)


def test_only_provider_settings_differ(provider: Provider) -> None:
    assert "COMPLETIONS_URL" in provider.settings
    assert all(name.startswith("COMPLETIONS_") for name in provider.settings)


class TestFile:
    def test_files_once_and_says_so_because_the_row_does(self, web: Web, provider: Provider, desk: Desk) -> None:
        answer = desk.press(web, key=KEY)

        assert answer.status_code == 201, answer.text
        receipt = answer.json()
        assert answer.headers["Location"] == f"/api/v1/receipts/{receipt['receipt_id']}"
        assert (receipt["status"], receipt["ticket_id"], receipt["attempt"]) == ("applied", TICKET, 1)
        assert (row().status, row().result_ref) == ("applied", receipt["result_ref"])
        followup = Followup.objects.get()
        assert (followup.id, followup.ticket_id) == (receipt["result_ref"], TICKET)
        assert receipt["arguments"] == {
            "ticket_id": TICKET,
            "summary": followup.summary,
            "assignee": followup.assignee,
        }
        assert provider.calls() == 1

    def test_names_who_drafted_and_how(self, web: Web, provider: Provider, desk: Desk) -> None:
        decision = desk.press(web).json()["model_decision"]

        assert decision["model"] == provider.model
        assert decision["provider_host"] == urlsplit(provider.url).netloc
        assert (decision["mode"], decision["finish_reason"], decision["calls"]) == ("json_schema", "stop", 1)

    def test_answers_the_same_key_from_the_ledger(self, web: Web, provider: Provider, desk: Desk) -> None:
        first = desk.press(web, key=KEY)

        again = desk.press(web, key=KEY)

        assert (first.status_code, again.status_code) == (201, 200)
        assert again.headers["Idempotent-Replayed"] == "true"
        assert again.json()["result_ref"] == first.json()["result_ref"]
        assert provider.calls() == 1
        assert Followup.objects.count() == 1

    def test_narrates_from_the_pending_row_to_the_applied_one(self, web: Web, desk: Desk, streamed: str) -> None:
        answer = desk.press(web, key=KEY, Accept="text/event-stream")

        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        events = events_of(answer.text)
        names = [name for name, _ in events]
        assert (names[0], names[-2:]) == ("receipt", ["receipt", "end"])
        assert (events[0][1]["status"], events[-2][1]["status"]) == ("pending", "applied")
        assert events[-2][1]["http_status"] == 201
        assert events[-2][1]["result_ref"] == Followup.objects.get().id
        if streamed == "true":
            assert "draft" in names

    def test_goes_on_behind_a_202(self, web: Web, provider: Provider, desk: Desk) -> None:
        answer = desk.press(web, key=KEY, Prefer="respond-async")

        assert answer.status_code == 202
        assert answer.headers["Preference-Applied"] == "respond-async"
        assert answer.json()["status"] == "pending"
        receipt = desk.settled(web, answer.headers["Location"])
        assert (receipt["status"], receipt["http_status"]) == ("applied", 201)
        assert receipt["result_ref"] == Followup.objects.get().id
        assert provider.calls() == 1


class TestRefuse:
    def test_an_answer_for_another_ticket_changes_nothing(self, web: Web, provider: Provider, desk: Desk) -> None:
        notes = provider.aims_elsewhere("Customer still blocked on SSO.")

        answer = desk.press(web, key=KEY, notes=notes)

        assert answer.status_code == 422
        problem = answer.json()
        assert (problem["code"], problem["detail"]) == ("arg_mismatch", "model attempted to retarget ticket")
        assert problem["retryable"] is False
        assert (row().status, row().error_code) == ("failed", "arg_mismatch")
        assert not Followup.objects.filter(ticket_id__in=[TICKET, OTHER_TICKET]).exists()

    def test_and_stays_refused_for_the_same_key(self, web: Web, provider: Provider, desk: Desk) -> None:
        notes = provider.aims_elsewhere("Customer still blocked on SSO.")
        desk.press(web, key=KEY, notes=notes)

        again = desk.press(web, key=KEY, notes=notes)

        assert (again.status_code, again.json()["code"]) == (422, "arg_mismatch")
        assert again.headers["Idempotent-Replayed"] == "true"
        assert provider.calls() == 1


class TestOutage:
    def test_a_stopped_provider_fails_retryably_and_the_same_key_files_later(
        self, web: Web, provider: Provider, desk: Desk
    ) -> None:
        provider.stop()
        try:
            refused = desk.press(web, key=KEY)
        finally:
            provider.start()

        assert refused.status_code == 502
        problem = refused.json()
        assert (problem["code"], problem["reason"]) == ("fill_failed", "provider_unreachable")
        assert problem["detail"] == "argument fill failed"
        assert problem["retryable"] is True
        assert not Followup.objects.exists()

        filed = desk.press(web, key=KEY)

        assert filed.status_code == 201, filed.text
        assert filed.json()["receipt_id"] == problem["receipt_id"]
        assert (filed.json()["attempt"], row().status) == (2, "applied")
        assert provider.calls() == 1
        assert Followup.objects.count() == 1
