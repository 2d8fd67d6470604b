"""Receipts and runs over REST: who sees what, filters, pages, and addresses that mean nothing."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from receipts.errors import ArgMismatch, FillFailed
from receipts_project.accounts.models import User
from tests import factories
from tests.api.conftest import Api

RECEIPTS = "/api/v1/receipts"


def cursor(moment: str) -> str:
    """As a client might forge one."""
    return base64.urlsafe_b64encode(json.dumps(["after", moment, str(uuid.UUID(int=0))]).encode()).decode()


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [row["receipt_id"] for row in response.json()["results"]]


class TestVisibility:
    def test_a_lead_sees_what_they_pressed_and_what_is_on_their_behalf(
        self, api: Api, alice: User, bob: User, operator: User
    ) -> None:
        mine = factories.applied(alice)
        factories.applied(bob)
        for_me = factories.pending(operator, on_behalf_of_id=alice.pk)
        assert ids(api(alice).get(RECEIPTS)) == [str(for_me.pk), str(mine.pk)]

    @pytest.mark.parametrize("role", ["auditor", "operator"])
    def test_view_receipt_sees_all(self, api: Api, alice: User, bob: User, role: str, request: Any) -> None:
        first, second = factories.applied(alice), factories.applied(bob)
        reader = api(request.getfixturevalue(role))
        assert ids(reader.get(RECEIPTS)) == [str(second.pk), str(first.pk)]
        assert reader.get(f"{RECEIPTS}/{first.pk}").json()["user"] == "alice"

    @pytest.mark.parametrize("rest", ["", "/events", "/run-receipts"])
    def test_another_leads_receipt_is_the_same_404_as_none(self, api: Api, alice: User, bob: User, rest: str) -> None:
        receipt = factories.applied(alice)
        hers, none = (api(bob).get(f"{RECEIPTS}/{key}{rest}") for key in (receipt.pk, uuid.uuid4()))
        assert hers.status_code == none.status_code == 404
        assert hers.content == none.content

    def test_another_leads_run_is_the_same_404(self, api: Api, alice: User, bob: User) -> None:
        run = factories.applied(alice).run_id
        assert api(bob).get(f"/api/v1/runs/{run}").status_code == 404
        assert api(bob).get("/api/v1/runs").json()["results"] == []
        assert api(alice).get(f"/api/v1/runs/{run}").status_code == 200

    @pytest.mark.parametrize("address", [RECEIPTS, "/api/v1/runs", "/api/v1/tickets", "/api/v1/tickets/TCK-1008"])
    def test_nobody_is_401(self, api: Api, db: None, address: str) -> None:
        response = api(None).get(address)
        assert response.status_code == 401
        assert response["WWW-Authenticate"] == "Token"
        assert response.json()["code"] == "not_authenticated"


class TestRead:
    def test_shows_the_model_decision_of_the_last_attempt(self, api: Api, alice: User) -> None:
        shown = api(alice).get(f"{RECEIPTS}/{factories.applied(alice).pk}").json()
        assert shown["model_decision"]["proposed"] == factories.ARGUMENTS
        assert shown["arguments"] == factories.ARGUMENTS

    def test_every_link_of_a_receipt_leads_somewhere(self, api: Api, alice: User) -> None:
        links = api(alice).get(f"{RECEIPTS}/{factories.applied(alice).pk}").json()["links"]
        for elsewhere in ("page", "retry", "replay", "cancel"):  # have tests of their own
            del links[elsewhere]
        for address in links.values():
            assert api(alice).get(address).status_code == 200, address

    def test_run_receipts_list_the_attempts(self, api: Api, alice: User) -> None:
        receipt = factories.failed(alice, FillFailed(reason="provider_timeout"))
        (only,) = api(alice).get(f"{RECEIPTS}/{receipt.pk}/run-receipts").json()["results"]
        assert (only["attempt"], only["status"], only["error_reason"]) == (1, "retryable", "provider_timeout")

    def test_events_as_a_list(self, api: Api, alice: User) -> None:
        events = api(alice).get(f"{RECEIPTS}/{factories.applied(alice).pk}/events").json()
        assert [event["event"] for event in events] == ["receipt", "decision", "end"]

    def test_events_as_a_stream_end_with_the_settled_row(self, api: Api, alice: User) -> None:
        receipt = factories.applied(alice)
        response = api(alice).get(f"{RECEIPTS}/{receipt.pk}/events", headers={"accept": "text/event-stream"})
        text = b"".join(response.streaming_content).decode()
        response.close()
        assert response["Content-Type"] == "text/event-stream"
        assert (response["Cache-Control"], response["X-Accel-Buffering"]) == ("no-store", "no")
        rows = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        assert rows[0]["status"] == "applied"
        assert rows[-1] == {"settled": True}

    @pytest.mark.parametrize("made", ["applied", "failed", "pending"])
    def test_list_and_stream_of_a_receipt_tell_the_same(self, api: Api, alice: User, made: str, settings: Any) -> None:
        receipt = {
            "applied": factories.applied,
            "failed": lambda user: factories.failed(user, ArgMismatch()),
            "pending": lambda user: factories.pending(user, seconds=-1),
        }[made](alice)
        address = f"{RECEIPTS}/{receipt.pk}/events"
        listed = [event["event"] for event in api(alice).get(address).json()]
        response = api(alice).get(address, headers={"accept": "text/event-stream"})
        text = b"".join(response.streaming_content).decode()
        response.close()
        streamed = [line[7:] for line in text.splitlines() if line.startswith("event: ")]
        assert listed == (["receipt", "decision", "end"] if made == "applied" else ["receipt", "end"])
        # a stream of a pending receipt waits, and then says the row again
        assert streamed == (["receipt", "receipt", "end"] if made == "pending" else listed)

    def test_a_stream_too_many_is_503_and_a_closed_one_makes_room(self, api: Api, alice: User, settings: Any) -> None:
        settings.MAX_STREAMS = 1
        address, accept = f"{RECEIPTS}/{factories.applied(alice).pk}/events", {"accept": "text/event-stream"}
        reader = api(alice)
        first = reader.get(address, headers=accept)
        second = reader.get(address, headers=accept)
        assert (second.status_code, second.json()["code"]) == (503, "overloaded")
        first.close()  # never read: the client went before the first byte
        third = reader.get(address, headers=accept)
        assert third.status_code == 200
        third.close()


class TestFilters:
    @pytest.fixture
    def rows(self, alice: User, bob: User) -> dict[str, str]:
        made = {
            "applied": factories.applied(alice),
            "pending": factories.pending(alice, ticket="TCK-1009"),
            "overdue": factories.pending(bob, seconds=-1),
            "retryable": factories.failed(bob, FillFailed(reason="provider_timeout")),
            "permanent": factories.failed(bob, ArgMismatch()),
        }
        return {name: str(row.pk) for name, row in made.items()}

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ({"status": "pending"}, "pending overdue"),
            ({"outcome": "ok"}, "applied"),
            ({"outcome": "retryable"}, "retryable"),
            ({"outcome": "failed"}, "permanent"),
            ({"error_code": "arg_mismatch"}, "permanent"),
            ({"error_reason": "provider_timeout"}, "retryable"),
            ({"tool": "file_followup"}, "applied pending overdue retryable permanent"),
            ({"contract": "file_followup@1"}, "applied pending overdue retryable permanent"),
            ({"contract": "file_followup@2"}, ""),
            ({"ticket_id": "TCK-1009"}, "pending"),
            ({"user": "bob"}, "overdue retryable permanent"),
            ({"user": "nobody"}, ""),
            ({"overdue": "true"}, "overdue"),
            ({"overdue": "false"}, "applied pending retryable permanent"),
            ({"user": "bob", "status": "failed"}, "retryable permanent"),
            ({"created_after": "2020-01-01T00:00:00Z", "created_before": "2021-01-01T00:00:00Z"}, ""),
            ({"created_after": "2020-01-01T00:00:00Z"}, "applied pending overdue retryable permanent"),
        ],
    )
    def test_find(self, api: Api, auditor: User, rows: dict[str, str], query: dict[str, str], names: str) -> None:
        found = ids(api(auditor).get(RECEIPTS, query))
        assert found == [rows[name] for name in reversed(names.split())]

    @pytest.mark.parametrize("name", ["input_hash", "run", "idempotency_key"])
    def test_find_by_exact_values_of_a_row(self, api: Api, alice: User, name: str) -> None:
        receipt = factories.applied(alice)
        factories.pending(alice)
        value = {"input_hash": receipt.input_hash, "run": receipt.run_id, "idempotency_key": receipt.idempotency_key}
        assert ids(api(alice).get(RECEIPTS, {name: value[name]})) == [str(receipt.pk)]

    def test_an_instant_that_the_api_gave_can_be_sent_back(self, api: Api, alice: User) -> None:
        first, second = factories.applied(alice), factories.pending(alice)
        border = api(alice).get(f"{RECEIPTS}/{second.pk}").json()["created_at"]
        assert ids(api(alice).get(RECEIPTS, {"created_after": border})) == [str(second.pk)]
        assert ids(api(alice).get(RECEIPTS, {"created_before": border})) == [str(first.pk)]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("status", "open"),
            ("status", "applied\0"),
            ("outcome", "OK"),
            ("error_code", "nope"),
            ("error_reason", "nope"),
            ("tool", "rm_rf"),
            ("contract", "file_followup"),
            ("contract", "file_followup@9999999999"),
            ("contract", "\0@1"),
            ("ticket_id", "TCK\0"),
            ("user", "a\0"),
            ("overdue", "maybe"),
            ("created_after", "yesterday"),
            ("created_before", "2026-13-45T99:00:00Z"),
            ("created_after", "9999-12-31T23:59:59-23:00"),
            ("created_after", "0001-01-01T00:00:00+23:00"),
            ("created_before", "0001-01-01T00:00:00+00:01"),
            ("input_hash", "XYZ"),
            ("run", "123"),
            ("idempotency_key", "a b"),
            ("page_size", "0"),
            ("page_size", "201"),
            ("page_size", "-1"),
            ("page_size", "٣"),
            ("page_size", "1\0"),
            ("cursor", ""),
            ("cursor", "x"),
            ("cursor", "\0"),
            ("cursor", "ÿ"),
            ("cursor", "W10"),
            ("cursor", "bnVsbA"),
            ("cursor", cursor("9999-12-31T23:59:59-23:00")),
            ("cursor", cursor("0001-01-01T00:00:00+23:00")),
            ("cursor", "W1tbW1tbW1tbW1tbW1tbW1tbW1tbW1tb"),
            ("stauts", "applied"),
            ("run", ""),
            ("user", " "),
            ("format", "json"),
        ],
    )
    def test_refuse_a_value_that_cannot_be_meant(self, api: Api, lead: User, name: str, value: str) -> None:
        response = api(lead).get(RECEIPTS, {name: value})
        assert response.status_code == 400, response.content
        assert response.json()["code"] == "invalid_request"
        assert list(response.json()["fields"]) == [name]

    def test_an_instant_without_offset_is_utc(self, api: Api, alice: User, settings: Any) -> None:
        settings.TIME_ZONE = "Asia/Tokyo"
        receipt = factories.applied(alice)
        border = receipt.created_at.replace(tzinfo=None).isoformat()
        assert ids(api(alice).get(RECEIPTS, {"created_after": border})) == [str(receipt.pk)]
        assert ids(api(alice).get(RECEIPTS, {"created_before": border})) == []

    @pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00"])
    def test_the_ends_of_time_are_instants(self, api: Api, lead: User, moment: str) -> None:
        assert ids(api(lead).get(RECEIPTS, {"created_after": moment})) == []
        assert ids(api(lead).get(RECEIPTS, {"cursor": cursor(moment.rstrip("Z") + "+00:00")})) == []


class TestPages:
    def test_walk_there_and_back_without_gap_or_repeat(self, api: Api, alice: User) -> None:
        made = [str(factories.pending(alice).pk) for _ in range(7)][::-1]
        client = api(alice)
        pages, page = [], client.get(RECEIPTS, {"page_size": 3, "status": "pending"}).json()
        assert page["previous"] is None
        while True:
            pages.append([row["receipt_id"] for row in page["results"]])
            if page["next"] is None:
                break
            page = client.get(page["next"]).json()
        assert pages == [made[:3], made[3:6], made[6:]]
        page = client.get(page["previous"]).json()
        assert [row["receipt_id"] for row in page["results"]] == made[3:6]
        page = client.get(page["previous"]).json()
        assert [row["receipt_id"] for row in page["results"]] == made[:3]
        assert page["previous"] is None

    def test_a_row_that_arrives_meanwhile_does_not_shift_the_next_page(self, api: Api, alice: User) -> None:
        made = [str(factories.pending(alice).pk) for _ in range(4)][::-1]
        client = api(alice)
        first = client.get(RECEIPTS, {"page_size": 2}).json()
        factories.pending(alice)
        assert ids(client.get(first["next"])) == made[2:]

    @pytest.mark.parametrize(
        "address", [RECEIPTS, "/api/v1/runs", "/api/v1/tickets", "/api/v1/tickets/TCK-1008/followups"]
    )
    def test_every_list_pages(self, api: Api, alice: User, address: str) -> None:
        for _ in range(3):
            factories.applied(alice)
        first = api(alice).get(address, {"page_size": 1}).json()
        second = api(alice).get(first["next"]).json()
        assert first["results"] != second["results"]
        assert api(alice).get(second["previous"]).json()["results"] == first["results"]

    def test_costs_the_same_queries_for_one_row_and_for_many(
        self, api: Api, auditor: User, alice: User, bob: User
    ) -> None:
        def queries() -> int:
            client = api(auditor)
            with CaptureQueriesContext(connection) as seen:
                assert client.get(RECEIPTS).status_code == 200
            return len(seen)

        factories.applied(alice)
        few = queries()
        for user in (alice, bob, alice, bob):
            factories.failed(user, FillFailed())
            factories.applied(user)
        assert queries() == few <= 3


class TestAddresses:
    @pytest.mark.parametrize(
        "key",
        [
            "x",
            "0",
            "%00",
            "%ff",
            "{7d9f4f6e-6b0f-4c8e-9a3e-3a1f6c3b2d1e}",
            "7d9f4f6e6b0f4c8e9a3e3a1f6c3b2d1e",
            "٣" * 32,
        ],
    )
    @pytest.mark.parametrize("form", ["receipts/{}", "receipts/{}/events", "receipts/{}/run-receipts", "runs/{}"])
    def test_an_id_that_is_none_is_404(self, api: Api, lead: User, form: str, key: str) -> None:
        response = api(lead).get("/api/v1/" + form.format(key))
        assert (response.status_code, response.json()["code"]) == (404, "not_found")

    @pytest.mark.parametrize("address", [RECEIPTS, "/api/v1/tickets", "/api/v1/runs", "/api/v1/runs/x"])
    def test_a_trailing_slash_is_welcome(self, api: Api, lead: User, address: str) -> None:
        assert api(lead).get(address + "/").json() == api(lead).get(address).json()

    @pytest.mark.parametrize(
        "address", ["/api", "/api/", "/api/v1/", "/api/v2/receipts", "/api/v1/nonsense", "/api/v1/%00"]
    )
    def test_no_such_address_is_a_problem_too(self, api: Api, db: None, address: str) -> None:
        response = api(None).get(address)
        assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")

    def test_another_method_is_405_with_allow(self, api: Api, lead: User) -> None:
        response = api(lead).delete(RECEIPTS)
        assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")
        assert "GET" in response["Allow"]

    def test_a_format_that_is_not_there_is_406(self, api: Api, lead: User) -> None:
        response = api(lead).get(RECEIPTS, headers={"accept": "text/csv"})
        assert (response.status_code, response.json()["code"]) == (406, "not_acceptable")

    @pytest.mark.parametrize(
        "accept",
        [
            "*/*",
            "application/*",
            "application/json;q=0.1",
            "application/json; charset=utf-8",
            "application/json;charset=UTF-8;q=0.5, text/csv",
            "application/problem+json",
            "text/html, */*;q=0.1",
            "",
        ],
    )
    def test_every_wish_that_json_can_meet_gets_json(self, api: Api, alice: User, accept: str) -> None:
        response = api(alice).get(f"{RECEIPTS}/{factories.applied(alice).pk}/events", headers={"accept": accept})
        assert (response.status_code, response["Content-Type"]) == (200, "application/json")

    @pytest.mark.parametrize("accept", ["/", ";;;,,,q=", "text/event-stream;q=x", "a" * 5000, "\x80/é", "*/json"])
    def test_a_garbled_wish_is_no_fault_of_ours(self, api: Api, lead: User, accept: str) -> None:
        assert api(lead).get(RECEIPTS, headers={"accept": accept}).status_code in (200, 406)

    def test_answers_are_never_stored_by_caches(self, api: Api, alice: User) -> None:
        for address in (RECEIPTS, f"{RECEIPTS}/x"):
            assert api(alice).get(address)["Cache-Control"] == "no-store"
