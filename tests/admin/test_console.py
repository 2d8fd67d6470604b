"""The audit console: who gets in, what nobody can do, what is found, what a page says."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from receipts import ledger
from receipts.admin import readonly
from receipts.errors import ArgMismatch, FillFailed, ReceiptsError
from receipts.explanations import explain
from receipts.models import Attempt, AuditEvent, Receipt, Verb
from receipts_project.accounts.models import User
from receipts_project.accounts.roles import AUDITORS, LEADS
from tests import factories
from tests.admin.conftest import Console

LIST = "/admin/receipts/receipt/"
LEDGER = ("receipt", "attempt", "run", "auditevent")


def page(receipt: Receipt) -> str:
    return f"{LIST}{receipt.pk}/change/"


def rows(response: Any) -> set[str]:
    assert response.status_code == 200, response.content
    return {str(row.pk) for row in response.context["cl"].result_list}


class TestDoors:
    @pytest.mark.parametrize("name", LEDGER)
    def test_an_auditor_sees_every_list(self, console: Console, auditor: User, alice: User, name: str) -> None:
        factories.applied(alice)
        assert console(auditor).get(f"/admin/receipts/{name}/").status_code == 200

    def test_a_lead_does_not_get_in(self, console: Console, alice: User) -> None:
        assert console(alice).get(LIST).status_code == 302

    @pytest.mark.parametrize("name", LEDGER)
    def test_staff_without_the_permission_sees_nothing(self, console: Console, desk: None, name: str) -> None:
        clerk = factories.person("clerk", LEADS, is_staff=True)
        assert console(clerk).get(f"/admin/receipts/{name}/").status_code == 403


class TestReadOnly:
    @pytest.mark.parametrize("who", ["auditor", "root"])
    @pytest.mark.parametrize("name", LEDGER)
    def test_nobody_adds_changes_or_deletes(
        self, console: Console, alice: User, request: Any, who: str, name: str
    ) -> None:
        factories.failed(alice, ArgMismatch())
        client = console(request.getfixturevalue(who))
        key = _one_of(name)
        base = f"/admin/receipts/{name}/"
        before = list(Receipt.objects.values())
        assert client.get(f"{base}add/").status_code == 403
        assert client.post(f"{base}add/", {}).status_code == 403
        assert client.post(f"{base}{key}/change/", {"status": "applied"}).status_code == 403
        assert client.post(f"{base}{key}/delete/", {"post": "yes"}).status_code == 403
        forged = {"action": "delete_selected", "_selected_action": [key], "post": "yes"}
        client.post(base, forged)
        assert list(Receipt.objects.values()) == before
        assert Attempt.objects.count() == 1

    @pytest.mark.parametrize("who", ["auditor", "root"])
    def test_offers_no_save_and_no_delete(self, console: Console, request: Any, alice: User, who: str) -> None:
        receipt = factories.applied(alice)
        for address in (LIST, page(receipt)):
            text = console(request.getfixturevalue(who)).get(address).content.decode()
            assert 'name="_save"' not in text
            assert "deletelink" not in text
            assert "delete_selected" not in text
            assert ('name="action"' in text) == (who == "root" and address == LIST)  # plans a replay


def _one_of(name: str) -> Any:
    if name == "auditevent":
        receipt = Receipt.objects.get()
        return ledger.record(ledger.Event(verb=Verb.EXPORT, actor_id=receipt.user_id), receipt=receipt).pk
    receipt = Receipt.objects.get()
    return {"receipt": receipt.pk, "run": receipt.run_id, "attempt": Attempt.objects.get().pk}[name]


class TestSearch:
    @pytest.fixture
    def receipt(self, alice: User) -> Receipt:
        factories.applied(alice, ticket="TCK-1009")
        return factories.applied(alice)

    @pytest.mark.parametrize(
        "column", ["pk", "run_id", "number", "result_ref", "subject", "input_hash", "idempotency_key"]
    )
    def test_finds_by(self, console: Console, auditor: User, receipt: Receipt, column: str) -> None:
        words = f" {getattr(receipt, column)} "
        assert rows(console(auditor).get(LIST, {"q": words})) == {str(receipt.pk)}

    @pytest.mark.parametrize(
        "words",
        ["test-key", "%", "' OR 1=1 --", "FUP-", "TCK-0", "x" * 5000, "f" * 16, "R-", "R-0000000g", "R-00000000"],
    )
    def test_finds_nothing_by_parts_or_mischief(
        self, console: Console, auditor: User, receipt: Receipt, words: str
    ) -> None:
        assert rows(console(auditor).get(LIST, {"q": words})) == set()

    def test_says_that_it_cannot_search_for_nul(self, console: Console, auditor: User, receipt: Receipt) -> None:
        assert "Null characters are not allowed" in console(auditor).get(LIST, {"q": "a\0b"}).content.decode()

    def test_a_run_is_found_by_its_id(self, console: Console, auditor: User, receipt: Receipt) -> None:
        found = rows(console(auditor).get("/admin/receipts/run/", {"q": str(receipt.run_id)}))
        assert found == {str(receipt.run_id)}
        assert rows(console(auditor).get("/admin/receipts/run/", {"q": "file"})) == set()


class TestFilters:
    @pytest.fixture
    def made(self, alice: User) -> dict[str, str]:
        made = {
            "applied": factories.applied(alice),
            "overdue": factories.pending(alice, seconds=-1),
            "retryable": factories.failed(alice, FillFailed(reason="provider_timeout")),
            "permanent": factories.failed(alice, ArgMismatch()),
        }
        return {name: str(row.pk) for name, row in made.items()}

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ({"status__exact": "failed"}, "retryable permanent"),
            ({"outcome": "retryable"}, "retryable"),
            ({"attention": "overdue"}, "overdue"),
            ({"error_code": "arg_mismatch"}, "permanent"),
            ({"error_reason": "provider_timeout"}, "retryable"),
            ({"tool": "file_followup"}, "applied overdue retryable permanent"),
            ({"within": "hour"}, "applied overdue retryable permanent"),
            ({"within": "month", "outcome": "ok"}, "applied"),
        ],
    )
    def test_find(
        self, console: Console, auditor: User, made: dict[str, str], query: dict[str, str], names: str
    ) -> None:
        assert rows(console(auditor).get(LIST, query)) == {made[name] for name in names.split()}

    @pytest.mark.parametrize(
        "query", [{"outcome": "x"}, {"within": "\0"}, {"error_code": "nope"}, {"user__password__startswith": "a"}]
    )
    def test_what_cannot_be_meant_shows_no_rows_as_if_it_matched(
        self, console: Console, auditor: User, made: dict[str, str], query: dict[str, str]
    ) -> None:
        assert console(auditor).get(LIST, query).status_code in (302, 400)


class TestList:
    def test_shows_sentences_and_not_codes_alone(self, console: Console, auditor: User, alice: User) -> None:
        factories.failed(alice, FillFailed(reason="provider_timeout"))
        factories.failed(alice, ArgMismatch())
        text = console(auditor).get(LIST).content.decode()
        assert "The model provider did not answer in time." in text
        assert "Model attempted to retarget ticket." in text
        assert "failed, retryable" in text

    def test_names_receipts_as_the_leads_pages_do(self, console: Console, auditor: User, alice: User) -> None:
        receipt = factories.applied(alice)
        text = console(auditor).get(LIST).content.decode()
        assert f">{receipt.number}</a>" in text
        assert receipt.number == f"R-{str(receipt.pk)[-8:]}"

    @pytest.mark.parametrize("error", [ArgMismatch(), FillFailed(reason="provider_timeout"), FillFailed()])
    def test_says_what_happened_as_the_leads_pages_do(
        self, console: Console, auditor: User, alice: User, error: ReceiptsError
    ) -> None:
        receipt = factories.failed(alice, error, answered=isinstance(error, ArgMismatch))
        said = explain(error.code, error.reason)
        for client, address in ((console(auditor), page(receipt)), (console(alice), f"/receipts/{receipt.pk}")):
            text = html.unescape(client.get(address).content.decode())
            assert said.sentence in text
            assert said.next_step in text

    def test_counts_a_thousand_at_most(self, alice: User) -> None:
        factories.applied(alice)
        paginator = readonly.CappedPaginator(Receipt.objects.order_by("pk"), 50)
        with CaptureQueriesContext(connection) as seen:
            assert paginator.count == 1
        assert f"LIMIT {readonly.COUNTED}" in seen[0]["sql"]

    def test_costs_the_same_queries_for_one_row_and_for_many(
        self, console: Console, auditor: User, alice: User, bob: User
    ) -> None:
        def queries() -> int:
            client = console(auditor)
            with CaptureQueriesContext(connection) as seen:
                assert client.get(LIST).status_code == 200
            return len(seen)

        factories.applied(alice)
        few = queries()
        for user in (alice, bob, alice):
            factories.failed(user, ArgMismatch())
        assert queries() == few


class TestPage:
    def test_tells_model_decision_and_tool_result_apart(self, console: Console, auditor: User, alice: User) -> None:
        receipt = factories.applied(alice)
        text = console(auditor).get(page(receipt)).content.decode()
        decision, result = text.index("Model decision"), text.index("Tool result")
        assert text.index("What happened") < decision < result
        assert factories.ARGUMENTS["summary"] in text[decision:result]
        assert str(receipt.result_ref) in text[result:]
        assert f"/admin/receipts/run/{receipt.run_id}/change/" in text

    def test_lists_the_attempts_and_events(self, console: Console, auditor: User, alice: User) -> None:
        receipt = factories.failed(alice, FillFailed(reason="provider_timeout"))
        again = ledger.reopen(receipt, actor_id=alice.pk, seconds=30)
        assert again is not None
        ledger.settle_failed(again, ArgMismatch(), replayable=True)
        text = console(auditor).get(page(receipt)).content.decode()
        assert "The model provider did not answer in time." in text
        assert "Model attempted to retarget ticket." in text
        assert "retried" in text

    def test_shows_hostile_text_harmless(self, console: Console, auditor: User, alice: User) -> None:
        record = {"proposed": {"summary": "<script>alert(1)</script>\u202e\u0007"}, "gate": "text"}
        receipt = factories.pending(alice)
        ledger.settle_failed(receipt, ArgMismatch(), replayable=True, decision=ledger.Decision(record=record))
        text = console(auditor).get(page(receipt)).content.decode()
        assert "<script>alert(1)" not in text
        assert "\u202e" not in text
        assert "\\u202e" in text

    def test_nothing_is_inline(self, console: Console, auditor: User, alice: User) -> None:
        receipt = factories.applied(alice)
        for address in (LIST, page(receipt), "/admin/"):
            response = console(auditor).get(address)
            text = response.content.decode()
            assert "<style" not in text
            assert " style=" not in text
            assert " onclick=" not in text
            assert "'unsafe" not in response["Content-Security-Policy"]

    @pytest.mark.parametrize("key", ["x", "00000000-0000-7000-8000-000000000000", "a%00"])
    def test_no_such_receipt(self, console: Console, auditor: User, key: str) -> None:
        assert console(auditor).get(f"{LIST}{key}/change/").status_code in (302, 404)


class TestOtherPages:
    def test_attempt_run_and_event(self, console: Console, auditor: User, alice: User) -> None:
        factories.failed(alice, ArgMismatch())
        client = console(auditor)
        for name, key in ((name, _one_of(name)) for name in LEDGER):
            assert client.get(f"/admin/receipts/{name}/{key}/change/").status_code == 200, name

    def test_administrator_manages_tickets_members_and_people(self, console: Console, root: User, alice: User) -> None:
        factories.applied(alice)
        client = console(root)
        for name in ("tickets_ticket", "tickets_member", "tickets_followup", "accounts_user"):
            assert client.get(reverse(f"admin:{name}_changelist")).status_code == 200, name
        assert client.get(reverse("admin:tickets_ticket_change", args=["TCK-1008"])).status_code == 200
        assert client.get(reverse("admin:tickets_followup_changelist") + "?q=TCK-1008").status_code == 200

    def test_somebody_with_receipts_cannot_be_deleted(self, console: Console, root: User, alice: User) -> None:
        receipt = factories.applied(alice)
        console(root).post(reverse("admin:accounts_user_delete", args=[alice.pk]), {"post": "yes"})
        assert Receipt.objects.get(pk=receipt.pk).user == alice


class TestPowers:
    """Whoever gets or loses a power, and whatever a role may do: an event says it, and neither is there alone."""

    FORM = {"username": "alice", "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_active": "on"}

    @pytest.fixture
    def leads(self, alice: User) -> str:
        return str(factories.Group.objects.get(name=LEADS).pk)

    def change(self, client: Any, user: User, **form: Any) -> None:
        response = client.post(reverse("admin:accounts_user_change", args=[user.pk]), self.FORM | form)
        assert response.status_code == 302, response.context["errors"]

    def test_of_a_role(self, console: Console, root: User, alice: User) -> None:
        self.change(console(root), alice, groups=[str(factories.Group.objects.get(name=AUDITORS).pk)])
        event = AuditEvent.objects.get()
        assert (event.verb, event.actor) == ("role_change", root)
        assert event.detail == {"user": "alice", "given": [AUDITORS], "taken": [LEADS]}

    @pytest.mark.parametrize("flag", ["is_superuser", "is_staff"])
    def test_of_a_flag(self, console: Console, root: User, alice: User, leads: str, flag: str) -> None:
        self.change(console(root), alice, groups=[leads], **{flag: "on"})
        assert AuditEvent.objects.get().detail == {"user": "alice", "given": [flag], "taken": []}
        self.change(console(root), alice, groups=[leads])
        assert AuditEvent.objects.last().detail == {"user": "alice", "given": [], "taken": [flag]}

    def test_of_nothing_leaves_none(self, console: Console, root: User, alice: User, leads: str) -> None:
        self.change(console(root), alice, groups=[leads], first_name="Alice")
        assert not AuditEvent.objects.exists()

    def test_of_what_a_role_may_do(self, console: Console, root: User, leads: str) -> None:
        may = str(Permission.objects.get(codename="export_receipt").pk)
        address = reverse("admin:auth_group_change", args=[leads])
        console(root).post(address, {"name": LEADS, "permissions": [may]})
        event = AuditEvent.objects.get()
        assert (event.verb, event.actor) == ("role_change", root)
        assert event.detail == {
            "role": LEADS,
            "given": ["receipts.export_receipt"],
            "taken": ["receipts.file_followup"],
        }

    def test_of_a_role_that_is_gone(self, console: Console, root: User, leads: str) -> None:
        console(root).post(reverse("admin:auth_group_delete", args=[leads]), {"post": "yes"})
        assert AuditEvent.objects.get().detail["taken"] == ["receipts.file_followup", "the role itself"]

    def test_no_power_changes_without_its_event(self, console: Console, root: User, alice: User) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE audit_events ADD CONSTRAINT refuses CHECK (verb <> 'role_change') NOT VALID")
        client = console(root)
        client.raise_request_exception = False
        response = client.post(
            reverse("admin:accounts_user_change", args=[alice.pk]), self.FORM | {"is_superuser": "on"}
        )
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE audit_events DROP CONSTRAINT refuses")
        assert response.status_code == 500
        alice.refresh_from_db()
        assert not alice.is_superuser
