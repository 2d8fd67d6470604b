"""Downloads of the console: what is listed and nothing else; one look at a sealed input. All on record."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import Permission
from django.db import connection

from receipts import ledger
from receipts.errors import ArgMismatch, FillFailed
from receipts.models import Attempt, AuditEvent, Receipt, SealedInput, Trigger
from receipts.sealing import Sealer, sealer
from receipts.told import run_receipt
from receipts_project.accounts.models import User
from receipts_project.accounts.roles import LEADS, OPERATORS
from tests import factories
from tests.admin.conftest import Console

LIST = "/admin/receipts/receipt/"
PLAIN = {"notes": "Rita <rita@example.com> is locked out", "arguments": {"assignee": "ada"}}


@pytest.fixture
def operator(desk: None) -> User:
    return factories.person("kofi", OPERATORS, is_staff=True)


@pytest.fixture
def clerk(desk: None) -> User:
    """May read the lists and nothing more."""
    user = factories.person("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_receipt", "view_attempt", "view_run"]))
    return user


@pytest.fixture
def mixed(alice: User, bob: User) -> list[Receipt]:
    return [
        factories.applied(alice),
        factories.applied(bob, ticket="TCK-1009"),
        factories.failed(alice, ArgMismatch()),
        factories.failed(bob, FillFailed(reason="provider_timeout")),
        factories.pending(alice, seconds=-1),
    ]


def body(response: Any) -> bytes:
    assert response.status_code == 200, response.content
    data = b"".join(response.streaming_content) if response.streaming else response.content
    response.close()
    return data


class TestList:
    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"status__exact": "failed"},
            {"outcome": "retryable"},
            {"attention": "overdue"},
            {"error_code": "arg_mismatch", "within": "hour"},
            {"tool": "file_followup", "q": "TCK-1009"},
            {"q": "nothing like it"},
            {"o": "1"},
        ],
    )
    def test_exports_what_is_listed_in_its_order(
        self, console: Console, auditor: User, mixed: list[Receipt], asked: dict[str, str]
    ) -> None:
        client = console(auditor)
        page = client.get(LIST, asked)
        listed = [str(row.pk) for row in page.context["cl"].result_list]
        links = [html.unescape(link) for link in re.findall(r'href="([^"]*/export/[^"]*)"', page.content.decode())]
        assert len(links) == 2
        table = list(csv.reader(io.StringIO(body(client.get(links[0])).decode(), newline="")))
        lines = body(client.get(links[1])).decode().splitlines()
        assert [row[0] for row in table[1:-1]] == listed
        assert [json.loads(line)["receipt_id"] for line in lines[:-1]] == listed
        assert json.loads(lines[-1])["export"]["rows"] == len(listed)

    def test_exports_all_pages_of_it(self, console: Console, auditor: User, alice: User) -> None:
        for _ in range(52):
            factories.failed(alice, ArgMismatch())
        data = body(console(auditor).get(f"{LIST}export/jsonl/", {"p": "2"}))
        assert data.count(b"\n") == 53

    def test_last_line_and_event_name_filter_and_search(
        self, console: Console, auditor: User, mixed: list[Receipt]
    ) -> None:
        data = body(console(auditor).get(f"{LIST}export/jsonl/", {"status__exact": "applied", "q": "TCK-1009"}))
        chosen = {"status__exact": "applied", "search": "TCK-1009"}
        assert json.loads(data.splitlines()[-1])["export"]["filter"] == chosen
        event = AuditEvent.objects.get(verb="export", detail__stage="complete")
        assert (event.actor, event.detail["filter"], event.detail["rows"]) == (auditor, chosen, 1)

    @pytest.mark.parametrize("asked", [{"outcome": "splendid"}, {"no_such_field": "1"}])
    def test_an_unknown_filter_exports_nothing(
        self, console: Console, auditor: User, mixed: list[Receipt], asked: dict[str, str]
    ) -> None:
        assert console(auditor).get(f"{LIST}export/csv/", asked).status_code == 400
        assert not AuditEvent.objects.exists()

    def test_an_unknown_format_is_not_there(self, console: Console, auditor: User) -> None:
        assert console(auditor).get(f"{LIST}export/xlsx/").status_code == 404

    def test_is_not_offered_to_those_who_may_not_and_refused_on_record(
        self, console: Console, clerk: User, mixed: list[Receipt]
    ) -> None:
        client = console(clerk)
        assert "/export/" not in client.get(LIST).content.decode()
        assert client.get(f"{LIST}export/csv/").status_code == 403
        event = AuditEvent.objects.get()
        assert (event.verb, event.actor, event.detail["action"]) == ("access_refused", clerk, "export")

    def test_needs_the_right_to_see_the_list_too(self, console: Console, desk: None) -> None:
        user = factories.person("eve", is_staff=True)
        user.user_permissions.add(Permission.objects.get(codename="export_receipt"))
        assert console(user).get(f"{LIST}export/csv/").status_code == 403
        assert not AuditEvent.objects.filter(verb="export").exists()

    def test_is_not_for_leads(self, console: Console, alice: User) -> None:
        assert console(alice).get(f"{LIST}export/csv/").status_code == 302

    def test_a_post_exports_nothing(self, console: Console, auditor: User) -> None:
        assert console(auditor).post(f"{LIST}export/csv/").status_code == 405


class TestFiles:
    def test_an_attempt_offers_its_run_receipt(self, console: Console, auditor: User, alice: User) -> None:
        receipt = factories.applied(alice)
        attempt = Attempt.objects.get()
        client = console(auditor)
        address = f"/admin/receipts/attempt/{attempt.pk}/run-receipt.json"
        assert address in client.get(f"/admin/receipts/attempt/{attempt.pk}/change/").content.decode()
        response = client.get(address)
        assert json.loads(body(response)) == run_receipt(attempt)
        assert response["Content-Disposition"].endswith(f'"receipt-{receipt.pk}-attempt-1.json"')
        event = AuditEvent.objects.get()
        assert (event.verb, event.receipt_id, event.detail["rows"]) == ("export", receipt.pk, 1)

    def test_a_run_offers_its_manifest_with_what_it_opened(self, console: Console, auditor: User, alice: User) -> None:
        parent = ledger.open_run(
            workflow="nightly",
            trigger=Trigger.COMMAND.value,
            actor_id=alice.pk,
            manifest={"a": 1},
            enqueue=lambda _: None,
        )
        assert parent is not None
        receipt = factories.applied(alice, parent_run_id=parent)
        client = console(auditor)
        page = client.get(f"/admin/receipts/run/{parent}/change/").content.decode()
        assert f"{parent}/manifest.json" in page
        assert f"{parent}/export.zip" in page
        manifest = json.loads(body(client.get(f"/admin/receipts/run/{parent}/manifest.json")))
        assert (manifest["manifest"], [r["receipt_id"] for r in manifest["receipts"]]) == ({"a": 1}, [str(receipt.pk)])
        with zipfile.ZipFile(io.BytesIO(body(client.get(f"/admin/receipts/run/{parent}/export.zip")))) as archive:
            assert f"{parent}/runs/{receipt.run_id}/receipt-{receipt.pk}-attempt-1.json" in archive.namelist()
        assert [event.run_id for event in AuditEvent.objects.filter(verb="export")] == [parent, parent]

    @pytest.mark.parametrize(
        "address", ["attempt/{attempt}/run-receipt.json", "run/{run}/manifest.json", "run/{run}/export.zip"]
    )
    def test_are_refused_on_record(self, console: Console, clerk: User, alice: User, address: str) -> None:
        receipt = factories.applied(alice)
        path = address.format(attempt=Attempt.objects.get().pk, run=receipt.run_id)
        assert console(clerk).get(f"/admin/receipts/{path}").status_code == 403
        assert AuditEvent.objects.get().verb == "access_refused"


class TestSealedInput:
    @pytest.fixture
    def receipt(self, alice: User) -> Receipt:
        return factories.failed(alice, ArgMismatch(), sealed=sealer().seal(PLAIN))

    def address(self, receipt: Receipt) -> str:
        return f"/admin/receipts/sealedinput/{receipt.pk}/open/"

    def look(self, client: Any, receipt: Receipt, reason: str = "complaint of Rita, rita@example.com") -> Any:
        return client.post(self.address(receipt), {"reason": reason})

    def test_is_shown_once_with_a_reason_on_record(self, console: Console, operator: User, receipt: Receipt) -> None:
        client = console(operator)
        assert self.address(receipt) in client.get(f"{LIST}{receipt.pk}/change/").content.decode()
        asked = client.get(self.address(receipt))
        assert "rita@example.com" not in asked.content.decode()
        assert not AuditEvent.objects.exists()
        shown = self.look(client, receipt)
        text = html.unescape(shown.content.decode())
        assert PLAIN["notes"] in text
        assert '"assignee": "ada"' in text
        assert "<rita@example.com>" not in shown.content.decode()  # escaped
        assert "no-store" in shown["Cache-Control"]
        event = AuditEvent.objects.get()
        assert (event.verb, event.actor, event.receipt_id) == ("view_sealed_input", operator, receipt.pk)
        assert event.detail == {"reason": "complaint of Rita, [e-mail]", "found": "opened"}
        assert "rita@example.com" not in client.get(self.address(receipt)).content.decode()

    @pytest.mark.parametrize("reason", ["", "   ", "x" * 5000])
    def test_needs_a_reason(self, console: Console, operator: User, receipt: Receipt, reason: str) -> None:
        answer = self.look(console(operator), receipt, reason)
        assert (answer.status_code, "Nothing was opened" in answer.content.decode()) == (400, True)
        assert "rita@" not in answer.content.decode()
        assert not AuditEvent.objects.exists()

    def test_says_that_it_has_expired(self, console: Console, operator: User, alice: User) -> None:
        receipt = factories.failed(alice, ArgMismatch(), sealed=sealer().seal(PLAIN), sealed_days=0)
        answer = self.look(console(operator), receipt).content.decode()
        assert "has expired" in answer
        assert "rita@example.com" not in answer
        assert AuditEvent.objects.get().detail["found"] == "expired"

    def test_says_that_no_key_opens_it(self, console: Console, operator: User, alice: User) -> None:
        other = Sealer([Fernet.generate_key().decode()])
        receipt = factories.failed(alice, ArgMismatch(), sealed=other.seal(PLAIN))
        assert "cannot be opened" in self.look(console(operator), receipt).content.decode()
        assert AuditEvent.objects.get().detail["found"] == "unopenable"

    def test_says_that_it_was_purged(self, console: Console, operator: User, receipt: Receipt) -> None:
        SealedInput.objects.all().delete()
        assert "no sealed input any more" in self.look(console(operator), receipt).content.decode()

    @pytest.fixture
    def no_event_can_be_written(self, desk: None) -> Iterator[None]:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION refuse_event() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE EXCEPTION 'no event'; END $$;"
                " CREATE TRIGGER refuse_event BEFORE INSERT ON audit_events"
                " FOR EACH ROW EXECUTE FUNCTION refuse_event()"
            )
        yield
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION refuse_event() CASCADE")

    @pytest.mark.usefixtures("no_event_can_be_written")
    def test_shows_and_exports_nothing_when_the_event_cannot_be_written(
        self, console: Console, operator: User, receipt: Receipt
    ) -> None:
        client = console(operator)
        client.raise_request_exception = False
        look = self.look(client, receipt)
        assert look.status_code == 500
        assert "rita@example.com" not in look.content.decode()
        attempt = Attempt.objects.get()
        for address in (
            f"{LIST}export/csv/",
            f"/admin/receipts/attempt/{attempt.pk}/run-receipt.json",
            f"/admin/receipts/run/{receipt.run_id}/manifest.json",
            f"/admin/receipts/run/{receipt.run_id}/export.zip",
        ):
            answer = client.get(address)
            assert (answer.status_code, str(receipt.pk) in answer.content.decode()) == (500, False)

    def test_is_refused_on_record(self, console: Console, auditor: User, receipt: Receipt) -> None:
        client = console(auditor)
        assert "sealed input" not in client.get(f"{LIST}{receipt.pk}/change/").content.decode().lower()
        assert client.get("/admin/receipts/sealedinput/").status_code == 403
        assert AuditEvent.objects.get().detail == {"action": "see the list of sealed inputs"}
        assert self.look(client, receipt).status_code == 403
        event = AuditEvent.objects.latest("id")
        assert (event.verb, event.actor) == ("access_refused", auditor)

    def test_list_shows_that_it_exists_and_never_what_it_says(
        self, console: Console, operator: User, receipt: Receipt
    ) -> None:
        text = console(operator).get("/admin/receipts/sealedinput/").content.decode()
        assert str(receipt.pk) in text
        assert bytes(SealedInput.objects.get().token).decode() not in text

    def test_a_lead_does_not_get_in(self, console: Console, receipt: Receipt) -> None:
        assert self.look(console(factories.person("lea", LEADS)), receipt).status_code == 302
