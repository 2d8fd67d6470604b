"""The press over HTTP: statuses, headers and the three ways to wait. The flow's own rules have their own tests."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models.signals import post_init
from django.test import Client

from receipts import queued
from receipts.models import Receipt
from receipts_project.accounts.models import User
from tests.api.conftest import Api
from tests.flow.provider import GOOD, Provider, completion
from tickets.models import Followup

KEY = "press-0001"
NOTES = {"notes": "Customer still blocked on SSO."}
ADDRESS = "/api/v1/tickets/TCK-1008/followups"

Press = Callable[..., Any]


@pytest.fixture
def press(api: Api, alice: User, provider: Provider) -> Press:
    """Presses as Alice; every part can be replaced."""
    client = api(alice)

    def post(
        body: Any = NOTES, *, key: str | None = KEY, address: str = ADDRESS, by: Client = client, **headers: str
    ) -> Any:
        raw = body if isinstance(body, bytes | str) else json.dumps(body)
        if key is not None:
            headers["Idempotency-Key"] = key
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return by.post(address, raw, content_type=sent.pop("Content-Type", "application/json"), headers=sent)

    return post


class TestJson:
    def test_first_press_is_201_with_location_and_the_receipt(self, press: Press) -> None:
        response = press()
        receipt = Receipt.objects.get()
        assert response.status_code == 201
        assert response["Location"] == f"/api/v1/receipts/{receipt.pk}"
        assert response["Idempotency-Key"] == KEY
        assert response["Cache-Control"] == "no-store"
        assert "Idempotent-Replayed" not in response
        shown = response.json()
        assert (shown["status"], shown["result_ref"]) == ("applied", Followup.objects.get().pk)
        assert shown["model_decision"]["proposed"] == GOOD

    def test_answer_equals_the_receipt_that_is_read_later(self, press: Press, api: Api, alice: User) -> None:
        response = press()
        assert api(alice).get(response["Location"]).json() == response.json()

    def test_same_key_is_200_from_the_ledger(self, press: Press, provider: Provider) -> None:
        first, second = press(), press(key=f'"{KEY}"')
        assert (second.status_code, second["Idempotent-Replayed"]) == (200, "true")
        assert second.json() == first.json()
        assert second["Location"] == first["Location"]
        assert provider.calls == 1

    def test_permanent_failure_is_stored(self, press: Press, provider: Provider) -> None:
        provider.answer = lambda _: (200, completion(GOOD | {"ticket_id": "TCK-9999"}))
        first, second = press(), press()
        for response in (first, second):
            problem = response.json()
            assert response["Content-Type"] == "application/problem+json"
            assert (response.status_code, problem["code"]) == (422, "arg_mismatch")
            assert problem["detail"] == "model attempted to retarget ticket"
            assert problem["receipt_id"] in response["Location"]
        assert "Idempotent-Replayed" not in first
        assert second["Idempotent-Replayed"] == "true"
        assert provider.calls == 1

    def test_a_fault_after_the_commit_does_not_claim_that_nothing_was_filed(self, press: Press) -> None:
        press()

        def break_on_reading(instance: Receipt, **_: Any) -> None:
            raise ZeroDivisionError(instance.pk)

        post_init.connect(break_on_reading, sender=Receipt)
        try:
            response = press()
        finally:
            post_init.disconnect(break_on_reading, sender=Receipt)
        assert (response.status_code, response.json()["code"]) == (500, "server_fault")
        assert response.json()["detail"] == (
            "Something in this product broke. If a receipt was opened, it tells what became of it."
        )
        assert Receipt.objects.get().status == "applied"

    def test_retryable_failure_says_so_and_runs_again(self, press: Press, provider: Provider) -> None:
        provider.answer = lambda _: (503, {"error": "busy"})
        failed = press()
        assert (failed.status_code, failed.json()["code"]) == (502, "fill_failed")
        assert failed.json()["detail"] == "argument fill failed"
        assert failed.json()["retryable"] is True
        provider.answer = lambda _: (200, completion(GOOD))
        again = press()
        assert (again.status_code, again.json()["attempt"]) == (201, 2)
        assert "Idempotent-Replayed" not in again

    def test_in_flight_is_409_at_once_with_retry_after(self, press: Press, provider: Provider) -> None:
        provider.gate.clear()
        first: list[Any] = []
        thread = threading.Thread(target=lambda: first.append(press()))
        thread.start()
        provider.wait_for_calls(1)
        second = press()
        provider.gate.set()
        thread.join(20)
        assert (second.status_code, second.json()["code"]) == (409, "idempotency_in_flight")
        assert int(second["Retry-After"]) >= 1
        assert second.json()["receipt_id"] == first[0].json()["receipt_id"]
        assert first[0].status_code == 201

    def test_session_sign_in_needs_a_csrf_token(self, press: Press, alice: User) -> None:
        browser = Client(headers={"host": "localhost"}, enforce_csrf_checks=True)
        browser.force_login(alice, backend="receipts_project.accounts.backends.RoleBackend")
        response = press(by=browser)
        assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
        assert "CSRF" in response.json()["detail"]
        assert Receipt.objects.count() == 0


class TestStream:
    def test_narrates_to_the_settled_row(self, press: Press) -> None:
        response = press(Accept="text/event-stream")
        text = b"".join(response.streaming_content).decode()
        response.close()
        assert (response.status_code, response["Content-Type"]) == (200, "text/event-stream")
        assert (response["Cache-Control"], response["X-Accel-Buffering"]) == ("no-store", "no")
        names = [line[7:] for line in text.splitlines() if line.startswith("event: ")]
        assert names[0] == "receipt"
        assert names[-2:] == ["receipt", "end"]
        last = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")][-2]
        assert (last["status"], last["http_status"]) == ("applied", 201)
        assert last["result_ref"] == Followup.objects.get().pk

    def test_a_refusal_before_the_receipt_keeps_its_status(self, press: Press) -> None:
        response = press({"notes": " "}, Accept="text/event-stream")
        assert (response.status_code, response["Content-Type"]) == (400, "application/problem+json")

    def test_a_hung_up_stream_still_files(self, press: Press) -> None:
        press(Accept="text/event-stream").close()
        for _ in range(200):
            if Followup.objects.exists():
                break
            threading.Event().wait(0.05)
        assert Receipt.objects.get().status == "applied"

    def test_the_ledgers_answer_is_narrated_too(self, press: Press, provider: Provider) -> None:
        press()
        response = press(Accept="text/event-stream")
        assert b'"status":"applied"' in b"".join(response.streaming_content)
        response.close()
        assert response["Idempotent-Replayed"] == "true"
        assert provider.calls == 1


class TestAsync:
    @pytest.mark.parametrize("prefer", ["respond-async", "wait=5, Respond-Async", "respond-async; foo=1"])
    def test_is_202_and_the_receipt_tells_the_rest(self, press: Press, api: Api, alice: User, prefer: str) -> None:
        response = press(Prefer=prefer)
        assert (response.status_code, response["Preference-Applied"]) == (202, "respond-async")
        assert response.json()["status"] == "pending"
        running = queued.begin_queued(uuid.UUID(response.json()["receipt_id"]), 1)
        assert running
        running.future.result(20)
        assert api(alice).get(response["Location"]).json()["status"] == "applied"

    @pytest.mark.parametrize(
        "prefer", ['foo="a, respond-async, b"', 'foo="a\\", respond-async', "respond-async-not, wait=1"]
    )
    def test_other_wishes_are_not_this_one(self, press: Press, prefer: str) -> None:
        assert press(Prefer=prefer).status_code == 201

    def test_what_the_ledger_can_answer_is_answered(self, press: Press) -> None:
        press()
        response = press(Prefer="respond-async")
        assert response.status_code == 200
        assert "Preference-Applied" not in response


class TestRefusals:
    def refused(self, response: Any, status: int, code: str) -> dict[str, Any]:
        assert (response.status_code, response["Content-Type"]) == (status, "application/problem+json")
        problem: dict[str, Any] = response.json()
        assert (problem["status"], problem["code"]) == (status, code)
        assert problem["type"] == f"/api/v1/problems/{code}"
        assert Receipt.objects.count() == 0
        return problem

    def test_not_signed_in(self, press: Press, api: Api) -> None:
        self.refused(press(by=api(None)), 401, "not_authenticated")

    def test_not_allowed(self, press: Press, api: Api, auditor: User, operator: User, charlie: User) -> None:
        for user in (auditor, operator, charlie):
            self.refused(press(by=api(user)), 403, "permission_denied")

    @pytest.mark.parametrize("ticket", ["TCK-9999", "tck-1008", "x", "%00", "TCK-1008%00", "TCK-%ff", "T" * 400])
    def test_no_such_ticket(self, press: Press, ticket: str) -> None:
        self.refused(press(address=f"/api/v1/tickets/{ticket}/followups"), 404, "not_found")

    def test_no_such_ticket_comes_before_the_key(self, press: Press) -> None:
        self.refused(press(key=None, address="/api/v1/tickets/TCK-9999/followups"), 404, "not_found")

    def test_key_comes_before_the_body(self, press: Press) -> None:
        response = press(b"{", key=None)
        self.refused(response, 400, "idempotency_key_required")
        assert "Idempotency-Key" not in response
        self.refused(press(b"{", key="bad key"), 400, "idempotency_key_invalid")
        assert "describedby" in press(b"{", key="bad key")["Link"]

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            (b"", "notes"),
            (b"{", "body"),
            (b'{"notes": "a", "notes": "b"}', "body"),
            (b'{"notes": "\\ud800"}', "notes"),
            (b'{"notes": "a\\u0000b"}', "notes"),
            ({}, "notes"),
            ({"notes": ""}, "notes"),
            ({"notes": " \n"}, "notes"),
            ({"notes": "\u200b\u2060 \ufeff\u00ad\u2800"}, "notes"),
            ({"notes": 7}, "notes"),
            ({"notes": "x" * 8001}, "notes"),
            ({"notes": "a", "priority": "high"}, "priority"),
            ({"notes": "a", "ticket_id": 1008}, "ticket_id"),
        ],
    )
    def test_body(self, press: Press, body: Any, field: str) -> None:
        problem = self.refused(press(body), 400, "invalid_request")
        assert field in problem["fields"] or (body == b"" and "body" in problem["fields"])

    def test_a_body_in_chunks_without_its_length_is_told_so(self, press: Press) -> None:
        # as the server hands it over: no CONTENT_LENGTH, so Django would read nothing
        problem = self.refused(press(b"", Transfer_Encoding="chunked"), 400, "invalid_request")
        assert problem["fields"] == {"body": "came in chunks, without its length: send it with a Content-Length header"}

    def test_another_ticket_in_the_body(self, press: Press) -> None:
        problem = self.refused(press(NOTES | {"ticket_id": "TCK-1009"}), 422, "ticket_mismatch")
        assert problem["detail"] == "ticket_id mismatch"

    def test_a_body_that_is_not_json(self, press: Press) -> None:
        self.refused(press(b"notes=a", Content_Type="application/x-www-form-urlencoded"), 415, "unsupported_media_type")

    def test_throttled_with_retry_after(self, press: Press, settings: Any) -> None:
        settings.THROTTLE_PRESSES = "1/hour"
        press()
        response = press(key="press-0002")
        assert (response.status_code, response.json()["code"]) == (429, "throttled")
        assert 1 <= int(response["Retry-After"]) <= 3600
        assert press().status_code == 200, "the ledger's answers are never throttled"

    def test_reused_key_shows_the_receipt_but_no_old_value(self, press: Press) -> None:
        first = press()
        response = press({"notes": "Something else entirely."})
        assert (response.status_code, response.json()["code"]) == (422, "idempotency_key_reused")
        assert response.json()["receipt_id"] == first.json()["receipt_id"]
        assert NOTES["notes"] not in response.content.decode()
        assert press(address="/api/v1/tickets/TCK-1009/followups").status_code == 422


class TestRetry:
    @pytest.fixture
    def failed(self, press: Press, provider: Provider) -> str:
        """The address of a receipt whose provider was busy; it is well again."""
        provider.fails(503)
        address: str = press()["Location"]
        provider.says(GOOD)
        return address

    def test_who_pressed_continues_the_same_receipt(self, failed: str, api: Api, alice: User) -> None:
        response = api(alice).post(f"{failed}/retry")
        assert (response.status_code, response["Location"]) == (201, failed)
        assert (response.json()["attempt"], response.json()["status"]) == (2, "applied")
        again = api(alice).post(f"{failed}/retry")
        assert (again.status_code, again["Idempotent-Replayed"]) == (200, "true")
        assert Followup.objects.count() == 1

    def test_an_operator_continues_anothers(self, failed: str, api: Api, operator: User) -> None:
        response = api(operator).post(f"{failed}/retry")
        assert (response.status_code, response.json()["user"]) == (201, "alice")

    def test_others_do_not(self, failed: str, api: Api, auditor: User, bob: User) -> None:
        assert api(auditor).post(f"{failed}/retry").status_code == 403
        assert api(bob).post(f"{failed}/retry").status_code == 404
        assert Followup.objects.count() == 0

    def test_without_waiting(self, failed: str, api: Api, alice: User) -> None:
        response = api(alice).post(f"{failed}/retry", headers={"prefer": "respond-async"})
        assert (response.status_code, response.json()["attempt"]) == (202, 2)


class TestCancel:
    @pytest.fixture
    def waiting(self, press: Press) -> str:
        """The address of a receipt that waits for a worker."""
        address: str = press(Prefer="respond-async")["Location"]
        return address

    def test_settles_it_before_it_is_filed(self, waiting: str, api: Api, alice: User) -> None:
        response = api(alice).post(f"{waiting}/cancel")
        assert response.status_code == 200
        told = response.json()
        assert (told["status"], told["error_code"], told["http_status"], told["outcome"]) == (
            "failed",
            "cancelled",
            409,
            "retryable",
        )
        assert api(alice).post(f"{waiting}/cancel").json()["settled_at"] == told["settled_at"]

    def test_comes_too_late_for_what_is_settled(self, press: Press, api: Api, alice: User) -> None:
        response = api(alice).post(f"{press()['Location']}/cancel")
        assert (response.status_code, response.json()["code"]) == (409, "already_settled")
        assert Followup.objects.count() == 1

    def test_is_not_for_others(self, waiting: str, api: Api, auditor: User, bob: User, operator: User) -> None:
        assert api(auditor).post(f"{waiting}/cancel").status_code == 403
        assert api(bob).post(f"{waiting}/cancel").status_code == 404
        assert api(operator).post(f"{waiting}/cancel").status_code == 200


class TestByHand:
    ARGUMENTS = {"summary": "Check the certificate of the identity provider.", "assignee": "ada"}

    def test_files_the_given_arguments_without_a_model(self, press: Press, provider: Provider) -> None:
        response = press({"arguments": self.ARGUMENTS})
        assert response.status_code == 201
        told = response.json()
        assert told["arguments"] == {"ticket_id": told["ticket_id"], **self.ARGUMENTS}
        assert told["model_decision"] is None
        assert told["tool_result"] == {"effect": "write", "result_ref": told["result_ref"], "error": None}
        assert provider.calls == 0

    def test_arguments_that_the_contract_does_not_take(self, press: Press) -> None:
        response = press({"arguments": {"summary": "short", "assignee": "ada"}})
        assert (response.status_code, response.json()["code"]) == (422, "fill_invalid")

    def test_notes_and_arguments_together(self, press: Press) -> None:
        response = press({"notes": "Either", "arguments": self.ARGUMENTS})
        assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
