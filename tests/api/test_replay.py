"""Replay over REST: the dry run, the deed, its refusals, and who may do which."""

from __future__ import annotations

import io
import threading
import uuid
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from receipts import ledger
from receipts.contracts import registry
from receipts.models import AuditEvent, Receipt
from receipts.replay import verdict
from receipts.serializers import DryRunSerializer, RefusalSerializer
from receipts_project.accounts.models import User
from tests import factories
from tests.api.conftest import Api
from tests.flow.provider import GOOD, Provider
from tests.pressing import pressed, refused_by_its_ticket, rows
from tickets.models import Followup, Ticket

WHY = "The provider was down last night."


def address(receipt: Receipt | uuid.UUID) -> str:
    return f"/api/v1/receipts/{getattr(receipt, 'pk', receipt)}/replay"


def post(client: Any, receipt: Receipt | uuid.UUID, headers: Any = None, **body: Any) -> Any:
    return client.post(address(receipt), body, content_type="application/json", headers=headers or {})


@pytest.fixture
def failed(alice: User, provider: Provider) -> Receipt:
    provider.fails(500)
    receipt = pressed(alice)
    provider.says(GOOD)
    return receipt


@pytest.fixture
def refused(alice: User, provider: Provider) -> Receipt:
    return refused_by_its_ticket(alice)


class TestDryRun:
    def test_says_what_a_replay_would_be(self, api: Api, operator: User, failed: Receipt) -> None:
        assert api(operator).get(address(failed)).json() == {
            "replayable": True,
            "mode": "draft_again",
            "contract": "file_followup@1",
            "contracts": ["file_followup@1", "file_followup@2"],
            "expected_replay_no": 1,
            "refusal": None,
        }

    def test_prefers_the_arguments_that_are_kept(self, api: Api, operator: User, refused: Receipt) -> None:
        client = api(operator)
        assert client.get(address(refused)).json()["mode"] == "same_arguments"
        assert client.get(address(refused), {"mode": "draft_again"}).json()["mode"] == "draft_again"

    def test_names_the_refusal_and_the_receipt_to_look_at(self, api: Api, operator: User, failed: Receipt) -> None:
        client = api(operator)
        new = post(client, failed, reason=WHY).json()
        shown = client.get(address(failed)).json()
        assert (shown["replayable"], shown["expected_replay_no"]) == (False, 2)
        assert shown["refusal"]["code"] == "applied_in_lineage"
        assert shown["refusal"]["receipt_id"] == new["receipt_id"]

    def test_names_what_the_ticket_says(self, api: Api, operator: User, failed: Receipt) -> None:
        Ticket.objects.update(status="closed")
        refusal = api(operator).get(address(failed)).json()["refusal"]
        assert (refusal["code"], refusal["reason"]) == ("target_refuses", "ticket_closed")

    def test_is_what_the_schema_promises(self, api: Api, operator: User, failed: Receipt) -> None:
        client = api(operator)
        shown = client.get(address(failed), {"mode": "same_arguments"}).json()
        assert list(shown) == list(DryRunSerializer().fields)
        assert list(shown["refusal"]) == list(RefusalSerializer().fields)

    def test_writes_nothing(self, api: Api, operator: User, failed: Receipt) -> None:
        client = api(operator)
        before = rows()
        client.get(address(failed))
        client.get(address(failed), {"contract": "file_followup@2"})
        assert rows() == before

    @pytest.mark.parametrize(
        "query", [{"mode": "x"}, {"mode": ""}, {"contract": "close_ticket@1"}, {"contract": "x" * 5000}, {"why": "x"}]
    )
    def test_refuses_what_it_does_not_understand(
        self, api: Api, operator: User, failed: Receipt, query: dict[str, str]
    ) -> None:
        response = api(operator).get(address(failed), query)
        assert response.status_code == 400
        assert list(response.json()["fields"]) == list(query)


class TestReplay:
    def test_answers_with_the_new_receipt(self, api: Api, operator: User, failed: Receipt) -> None:
        response = post(api(operator), failed, reason=WHY, expected_replay_no=1)

        assert response.status_code == 201
        new = response.json()
        assert response["Location"] == f"/api/v1/receipts/{new['receipt_id']}"
        assert (new["status"], new["replay_of"]) == ("applied", str(failed.pk))
        assert (new["user"], new["on_behalf_of"]) == ("kofi", "alice")
        assert new["result_ref"] == Followup.objects.get().pk
        assert new["model_decision"]["proposed"] == GOOD
        assert Receipt.objects.get(pk=new["receipt_id"]).replay_reason == WHY

    def test_is_201_whatever_became_of_it(self, api: Api, operator: User, failed: Receipt, provider: Provider) -> None:
        provider.fails(500)
        response = post(api(operator), failed, reason=WHY)
        assert response.status_code == 201
        assert (response.json()["status"], response.json()["http_status"]) == ("failed", 502)

    def test_is_202_where_a_worker_is_to_do_it(self, api: Api, operator: User, failed: Receipt) -> None:
        response = post(api(operator), failed, {"Prefer": "respond-async"}, reason=WHY)
        assert response.status_code == 202
        assert response["Preference-Applied"] == "respond-async"
        assert response["Location"].endswith(response.json()["receipt_id"])
        assert response.json()["status"] == "pending"

    def test_takes_the_choices(self, api: Api, operator: User, refused: Receipt, provider: Provider) -> None:
        provider.says(GOOD | {"due_on": None})
        new = post(api(operator), refused, reason=WHY, mode="draft_again", contract="file_followup@2").json()
        assert (new["contract"], new["status"]) == ("file_followup@2", "applied")

    def test_leaves_the_old_row_as_it_is(self, api: Api, operator: User, failed: Receipt) -> None:
        before = rows()[0]
        post(api(operator), failed, reason=WHY)
        assert rows()[0] == before

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "reason"),
            ({"reason": " \n"}, "reason"),
            ({"reason": 7}, "reason"),
            ({"reason": "x" * 501}, "reason"),
            ({"reason": WHY, "mode": "again"}, "mode"),
            ({"reason": WHY, "mode": ["draft_again"]}, "mode"),
            ({"reason": WHY, "contract": 2}, "contract"),
            ({"reason": WHY, "contract": "file_followup@" + "9" * 5000}, "contract"),
            ({"reason": WHY, "contract": "close_ticket@1"}, "contract"),
            ({"reason": WHY, "expected_replay_no": True}, "expected_replay_no"),
            ({"reason": WHY, "expected_replay_no": 0}, "expected_replay_no"),
            ({"reason": WHY, "force": True}, "force"),
        ],
    )
    def test_refuses_what_it_does_not_understand(
        self, api: Api, operator: User, failed: Receipt, body: dict[str, Any], field: str
    ) -> None:
        response = post(api(operator), failed, **body)
        assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
        assert list(response.json()["fields"]) == [field]
        assert Receipt.objects.count() == 1

    def test_refuses_by_name_with_the_receipt_to_look_at(self, api: Api, operator: User, failed: Receipt) -> None:
        client = api(operator)
        new = post(client, failed, reason=WHY).json()
        for body in ({}, {"expected_replay_no": 1}):
            again = post(client, failed, reason=WHY, **body)
            assert again.status_code == 409
            assert again["Content-Type"] == "application/problem+json"
            assert again.json()["receipt_id"] == new["receipt_id"]
            assert again.json()["code"] == ("stale_replay_no" if body else "applied_in_lineage")
        assert Receipt.objects.count() == 2

    def test_ticket_that_refuses(self, api: Api, operator: User, failed: Receipt) -> None:
        Ticket.objects.update(status="closed")
        problem = post(api(operator), failed, reason=WHY).json()
        assert (problem["code"], problem["reason"]) == ("target_refuses", "ticket_closed")
        assert problem["receipt_id"] == str(failed.pk)

    def test_clicks_of_two_operators_make_one_receipt(
        self, api: Api, operator: User, failed: Receipt, provider: Provider
    ) -> None:
        provider.gate.clear()
        clients = [api(operator), api(factories.person("olga", "Operators"))]
        line, answers = threading.Barrier(8), list[Any]()

        def click(number: int) -> None:
            line.wait()
            answers.append(post(clients[number % 2], failed, reason=WHY, expected_replay_no=1))
            connection.close()

        clicks = [threading.Thread(target=click, args=(number,)) for number in range(8)]
        for one in clicks:
            one.start()
        provider.wait_for_calls(2)
        provider.gate.set()
        for one in clicks:
            one.join(30)

        (won,) = [response for response in answers if response.status_code == 201]
        assert Receipt.objects.filter(replay_of=failed).count() == Followup.objects.count() == 1
        for lost in answers:
            if lost is not won:
                assert lost.status_code == 409
                assert lost.json()["receipt_id"] == won.json()["receipt_id"]


REFUSED = [(None, 401), ("charlie", 404), ("bob", 404), ("alice", 403), ("auditor", 403)]


class TestWhoMay:
    """URL × who: the same 404 for what somebody cannot see, 403 and an event for what they can see but not do."""

    @pytest.mark.parametrize(
        ("who", "status"),
        [
            (None, 401),
            ("charlie", 404),
            ("bob", 404),
            ("alice", 403),
            ("auditor", 403),
            ("operator", 200),
            ("root", 200),
        ],
    )
    def test_opens_the_dry_run(self, api: Api, failed: Receipt, who: str | None, status: int, request: Any) -> None:
        assert api(self.user(who, request)).get(address(failed)).status_code == status
        assert self.refusals() == ([who] if status == 403 else [])

    @pytest.mark.parametrize(
        ("who", "status"),
        [
            (None, 401),
            ("charlie", 404),
            ("bob", 404),
            ("alice", 403),
            ("auditor", 403),
            ("operator", 201),
            ("root", 201),
        ],
    )
    def test_replays(self, api: Api, failed: Receipt, who: str | None, status: int, request: Any) -> None:
        assert post(api(self.user(who, request)), failed, reason=WHY).status_code == status
        assert self.refusals() == ([who] if status == 403 else [])
        assert Receipt.objects.filter(replay_of=failed).count() == (status == 201)

    def user(self, who: str | None, request: Any) -> User | None:
        if who == "root":
            return factories.person("robin", is_superuser=True)
        return request.getfixturevalue(who) if who else None

    def refusals(self) -> list[str]:
        names = {"ines": "auditor"}
        events = AuditEvent.objects.filter(verb="access_refused", detail__action="replay").order_by("id")
        return [names.get(event.actor.username, event.actor.username) for event in events if event.actor]

    def test_another_leads_receipt_is_the_same_404_as_none(self, api: Api, bob: User, failed: Receipt) -> None:
        hers, none = (post(api(bob), key, reason=WHY) for key in (failed.pk, uuid.uuid4()))
        assert hers.content == none.content


class TestReceiptJson:
    """`replayable` and `replay_refusal` say what the dry run says, as far as the row tells."""

    def told(self, api: Api, operator: User, receipt: Receipt) -> str | None:
        shown = api(operator).get(f"/api/v1/receipts/{receipt.pk}").json()
        found = ledger.read(receipt.pk)
        assert found is not None
        refusal = verdict(found).refusal
        assert shown["replay_refusal"] == (refusal.code if refusal else None)
        assert shown["replayable"] == (refusal is None)
        return str(shown["replay_refusal"])

    def test_agrees_with_the_dry_run(
        self, api: Api, operator: User, failed: Receipt, provider: Provider, monkeypatch: Any
    ) -> None:
        assert self.told(api, operator, failed) == "None"
        new = post(api(operator), failed, reason=WHY).json()
        assert self.told(api, operator, failed) == "applied_in_lineage"
        assert self.told(api, operator, Receipt.objects.get(pk=new["receipt_id"])) == "applied_in_lineage"

    def test_input_that_is_gone(self, api: Api, operator: User, failed: Receipt) -> None:
        failed.sealed_input.delete()
        assert self.told(api, operator, failed) == "input_expired"

    def test_contract_that_changed(self, api: Api, operator: User, failed: Receipt, monkeypatch: Any) -> None:
        from dataclasses import replace

        held = registry.get("file_followup", 1)
        monkeypatch.setitem(registry._tools, ("file_followup", 1), replace(held, schema_sha256="0" * 64))
        assert self.told(api, operator, failed) == "contract_gone"


def test_openapi_names_the_replay() -> None:
    out = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", "--format", "openapi-json", stdout=out)
    assert '"replay_receipt"' in out.getvalue()
