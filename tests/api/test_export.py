"""Exports over REST: exactly the listed rows, complete or not saying so, recorded, refused on record."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext

from receipts import ledger
from receipts.errors import ArgMismatch, FillFailed
from receipts.export import formats, listing
from receipts.models import AuditEvent, Receipt, Trigger
from receipts_project.accounts.models import User
from tests import factories
from tests.api.conftest import Api

RECEIPTS, EXPORT = "/api/v1/receipts", "/api/v1/receipts/export"


def body(response: Any) -> bytes:
    assert response.status_code == 200, response.content
    data = b"".join(response.streaming_content)
    response.close()
    return data


def lines(response: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body(response).decode().split("\n")[:-1]]


def events() -> list[dict[str, Any]]:
    return list(AuditEvent.objects.filter(verb="export").order_by("id").values_list("detail", flat=True))


@pytest.fixture
def mixed(alice: User, bob: User) -> list[Receipt]:
    return [
        factories.applied(alice),
        factories.applied(bob, ticket="TCK-1009"),
        factories.failed(alice, ArgMismatch()),
        factories.failed(bob, FillFailed(reason="provider_timeout")),
        factories.pending(alice, seconds=-1),
        factories.pending(bob),
    ]


class TestRows:
    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"status": "applied"},
            {"outcome": "retryable"},
            {"error_code": "fill_failed", "error_reason": "provider_timeout"},
            {"tool": "file_followup", "user": "alice"},
            {"contract": "file_followup@1", "ticket_id": "TCK-1009"},
            {"overdue": "true"},
            {"overdue": "false"},
            {"created_after": "2099-01-01T00:00:00Z"},
            {"created_before": "2099-01-01T00:00:00Z"},
        ],
    )
    def test_are_those_of_the_list_in_its_order(
        self, api: Api, auditor: User, mixed: list[Receipt], asked: dict[str, str]
    ) -> None:
        client = api(auditor)
        listed = client.get(RECEIPTS, asked).json()["results"]
        *exported, last = lines(client.get(EXPORT, asked | {"format": "jsonl"}))
        assert exported == listed
        table = list(csv.reader(io.StringIO(body(client.get(EXPORT, asked | {"format": "csv"})).decode(), newline="")))
        assert [row[0] for row in table[1:-1]] == [row["receipt_id"] for row in listed]
        assert last["export"]["rows"] == json.loads(table[-1][1])["rows"] == len(listed)

    @pytest.mark.parametrize(
        "asked", [{"user": "alice"}, {"run": None}, {"input_hash": None}, {"idempotency_key": None}]
    )
    def test_are_those_of_the_list_also_where_a_row_names_itself(
        self, api: Api, auditor: User, mixed: list[Receipt], asked: dict[str, str | None]
    ) -> None:
        columns = {"run": "run_id", "input_hash": "input_hash", "idempotency_key": "idempotency_key"}
        chosen = {name: value or str(getattr(mixed[2], columns[name])) for name, value in asked.items()}
        client = api(auditor)
        listed = client.get(RECEIPTS, chosen).json()["results"]
        assert listed
        assert lines(client.get(EXPORT, chosen))[:-1] == listed

    def test_go_beyond_a_page(self, api: Api, auditor: User, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listing, "CHUNK", 2)
        made = [str(factories.failed(alice, ArgMismatch()).pk) for _ in range(5)]
        *rows, last = lines(api(auditor).get(EXPORT))
        assert [row["receipt_id"] for row in rows] == made[::-1]
        assert last["export"]["rows"] == 5

    def test_cost_the_same_few_queries_a_chunk(
        self, api: Api, auditor: User, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listing, "CHUNK", 2)
        client, counts = api(auditor), []
        for chunks in (2, 4):
            while Receipt.objects.count() < 2 * chunks:
                factories.failed(alice, ArgMismatch())
            with CaptureQueriesContext(connection) as queries:
                lines(client.get(EXPORT))
            counts.append(len(queries))
        assert counts[1] - counts[0] == 2  # a query for the attempts of each chunk; fetches are not counted

    def test_are_of_one_moment(self, api: Api, auditor: User, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listing, "CHUNK", 1)
        factories.failed(alice, ArgMismatch())
        factories.failed(alice, ArgMismatch())
        stream = iter(api(auditor).get(EXPORT).streaming_content)
        data = next(stream)
        with connection.cursor() as cursor:
            cursor.execute("SHOW transaction_isolation")
            assert cursor.fetchone() == ("repeatable read",)
        data += b"".join(stream)
        assert data.count(b"\n") == 3

    def test_say_nothing_of_what_the_reader_may_not_see(self, api: Api, mixed: list[Receipt], alice: User) -> None:
        alice.user_permissions.add(Permission.objects.get(codename="export_receipt"))
        assert {row["user"] for row in lines(api(alice).get(EXPORT))[:-1]} == {"alice"}


class TestLastLine:
    def test_states_rows_filter_zone_moment_who_and_completeness(
        self, api: Api, auditor: User, mixed: list[Receipt]
    ) -> None:
        last = lines(api(auditor).get(EXPORT, {"status": "applied"}))[-1]["export"]
        moment = last.pop("exported_at")
        assert last == {"rows": 2, "filter": {"status": "applied"}, "zone": "UTC", "complete": True, "by": "ines"}
        assert moment.endswith("Z")

    def test_of_csv_holds_the_same_and_is_as_wide_as_all(self, api: Api, auditor: User, mixed: list[Receipt]) -> None:
        raw = body(api(auditor).get(EXPORT, {"format": "csv"})).decode()
        table = list(csv.reader(io.StringIO(raw, newline="")))
        assert {len(row) for row in table} == {len(formats.COLUMNS)}
        assert table[0] == list(formats.COLUMNS)
        assert table[-1][0] == "# export"
        assert raw.splitlines()[-1].startswith("# export,")
        facts = json.loads(table[-1][1])
        assert (facts["rows"], facts["complete"]) == (6, True)
        assert not any(table[-1][2:])


class TestBreak:
    def test_a_client_that_hangs_up_leaves_an_event_that_says_so(
        self, api: Api, auditor: User, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listing, "CHUNK", 1)
        for _ in range(3):
            factories.failed(alice, ArgMismatch())
        response = api(auditor).get(EXPORT)
        stream = iter(response.streaming_content)
        assert b"receipt_id" in next(stream) + next(stream)
        response.close()
        begun, cut = events()
        assert (begun["stage"], cut["stage"], cut["rows"]) == ("begun", "cut", 1)
        assert begun["export"] == cut["export"]
        assert not connection.in_atomic_block

    def test_a_client_that_leaves_before_the_first_byte_too(
        self, api: Api, auditor: User, mixed: list[Receipt]
    ) -> None:
        api(auditor).get(EXPORT).close()
        assert [(event["stage"], event.get("rows")) for event in events()] == [("begun", None), ("cut", 0)]

    def test_says_nothing_complete_when_reading_breaks(
        self, api: Api, auditor: User, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listing, "CHUNK", 1)
        monkeypatch.setattr(listing, "EXPORT_SECONDS", -1.0)
        factories.failed(alice, ArgMismatch())
        factories.failed(alice, ArgMismatch())
        response, pieces = api(auditor).get(EXPORT), []
        with pytest.raises(TimeoutError):
            pieces.extend(response.streaming_content)
        response.close()
        assert b"receipt_id" in b"".join(pieces)
        assert b'"complete"' not in b"".join(pieces)
        assert events()[-1]["stage"] == "cut"

    def test_gives_its_place_back(self, api: Api, auditor: User, mixed: list[Receipt]) -> None:
        client = api(auditor)
        open_ones = [client.get(EXPORT) for _ in range(listing.AT_ONCE)]
        full = client.get(EXPORT)
        assert (full.status_code, full.json()["code"]) == (503, "overloaded")
        assert full["Retry-After"]
        for response in open_ones:
            response.close()
        assert len(lines(client.get(EXPORT))) == 7


class TestRecord:
    def test_an_export_is_an_event_with_format_filter_and_rows(
        self, api: Api, auditor: User, mixed: list[Receipt]
    ) -> None:
        body(api(auditor).get(EXPORT, {"format": "csv", "user": "alice"}))
        begun, done = events()
        assert (begun["stage"], done["stage"]) == ("begun", "complete")
        assert (done["format"], done["filter"], done["rows"]) == ("csv", {"user": "alice"}, 3)
        assert set(AuditEvent.objects.filter(verb="export").values_list("actor", flat=True)) == {auditor.pk}

    def test_begin_stands_before_the_first_byte(self, api: Api, auditor: User, mixed: list[Receipt]) -> None:
        response = api(auditor).get(EXPORT)
        assert [event["stage"] for event in events()] == ["begun"]
        response.close()

    def test_a_filter_is_redacted(self, api: Api, auditor: User, mixed: list[Receipt]) -> None:
        last = lines(api(auditor).get(EXPORT, {"user": "rita@example.com"}))[-1]
        assert last["export"]["filter"] == events()[0]["filter"] == {"user": "[e-mail]"}

    @pytest.mark.parametrize("address", [EXPORT, "/api/v1/runs/{run}/export"])
    def test_a_refusal_is_an_event(self, api: Api, alice: User, address: str) -> None:
        receipt = factories.applied(alice)
        response = api(alice).get(address.format(run=receipt.run_id))
        assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
        event = AuditEvent.objects.get()
        assert (event.verb, event.actor_id, event.detail) == ("access_refused", alice.pk, {"action": "export"})

    @pytest.mark.parametrize(
        ("asked", "field"),
        [
            ({"format": "xml"}, "format"),
            ({"colour": "red"}, "colour"),
            ({"status": ""}, "status"),
            ({"cursor": "x"}, "cursor"),
        ],
    )
    def test_what_was_not_understood_exports_nothing(
        self, api: Api, auditor: User, asked: dict[str, str], field: str
    ) -> None:
        response = api(auditor).get(EXPORT, asked)
        assert (response.status_code, list(response.json()["fields"])) == (400, [field])
        assert events() == []

    def test_needs_a_sign_in(self, api: Api, db: None) -> None:
        assert api(None).get(EXPORT).status_code == 401

    def test_a_head_exports_nothing(self, api: Api, auditor: User) -> None:
        assert api(auditor).head(EXPORT).status_code == 405
        assert events() == []

    def test_accept_chooses_the_format(self, api: Api, auditor: User, mixed: list[Receipt]) -> None:
        response = api(auditor).get(EXPORT, headers={"accept": "text/csv"})
        assert body(response).startswith(b"receipt_id,")
        assert response["Content-Type"] == "text/csv; charset=utf-8"
        assert response["Content-Disposition"].startswith('attachment; filename="receipts-')


class TestRun:
    def unpacked(self, response: Any) -> dict[str, bytes]:
        with zipfile.ZipFile(io.BytesIO(body(response))) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def test_is_an_archive_of_manifest_and_run_receipts(self, api: Api, auditor: User, alice: User) -> None:
        receipt = factories.applied(alice)
        files = self.unpacked(api(auditor).get(f"/api/v1/runs/{receipt.run_id}/export"))
        manifest = json.loads(files.pop(f"{receipt.run_id}/manifest.json"))
        ((name, content),) = files.items()
        assert name == f"{receipt.run_id}/receipt-{receipt.pk}-attempt-1.json"
        shown = api(auditor).get(f"{RECEIPTS}/{receipt.pk}/run-receipts").json()["results"]
        assert [json.loads(content)] == shown
        assert manifest["files"][0]["sha256"] == hashlib.sha256(content).hexdigest()
        (event,) = events()
        assert (event["format"], event["rows"]) == ("zip", 1)
        assert AuditEvent.objects.get().run_id == receipt.run_id

    def test_of_a_workflow_holds_the_runs_that_it_opened(self, api: Api, auditor: User, alice: User) -> None:
        parent = ledger.open_run(
            workflow="nightly", trigger=Trigger.COMMAND.value, actor_id=alice.pk, manifest={}, enqueue=lambda run: None
        )
        assert parent is not None
        receipt = factories.applied(alice, parent_run_id=parent)
        files = self.unpacked(api(auditor).get(f"/api/v1/runs/{parent}/export"))
        manifest = json.loads(files[f"{parent}/manifest.json"])
        assert [row["receipt_id"] for row in manifest["receipts"]] == [str(receipt.pk)]
        assert f"{parent}/runs/{receipt.run_id}/receipt-{receipt.pk}-attempt-1.json" in files

    @pytest.mark.parametrize("run", ["00000000-0000-7000-8000-000000000000", "nonsense"])
    def test_that_is_not_there_is_404(self, api: Api, auditor: User, run: str) -> None:
        assert api(auditor).get(f"/api/v1/runs/{run}/export").status_code == 404
        assert events() == []
