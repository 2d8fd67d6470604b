"""Bulk replay over REST: the plan, what it becomes, its stop, and who may."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from receipts import bulk_replays
from receipts.bulk_plans import plan
from receipts.models import AuditEvent, BulkReplay, Receipt
from receipts.serializers import BulkItemSerializer, BulkPlanSerializer, BulkReplaySerializer, TallySerializer
from receipts_project.accounts.models import User
from tests.api.conftest import Api
from tests.flow.provider import Provider
from tests.pressing import pressed_on_tickets_of_their_own, rows
from tickets.models import Ticket

ADDRESS = "/api/v1/bulk-replays"
WHY = "The provider was down last night."


@pytest.fixture
def failed(alice: User, provider: Provider) -> list[Receipt]:
    provider.fails(400)
    return pressed_on_tickets_of_their_own(alice, 3)


def post(client: Any, **body: Any) -> Any:
    return client.post(ADDRESS, body, content_type="application/json")


def ids(receipts: list[Receipt]) -> list[str]:
    return [str(receipt.pk) for receipt in receipts]


def test_plans_by_filter_and_starts_what_was_shown(api: Api, operator: User, failed: list[Receipt]) -> None:
    client = api(operator)
    Ticket.objects.filter(pk=failed[1].subject).update(status="closed")
    before = rows()
    shown = post(client, filter={"outcome": "failed"}, dry_run=True)
    assert shown.status_code == 200
    assert list(shown.json()) == list(BulkPlanSerializer().fields)
    assert (shown.json()["replays"], shown.json()["excluded"]) == (2, 1)
    assert [item["receipt_id"] for item in shown.json()["items"]] == ids(failed)
    assert shown.json()["items"][1]["reason"] == "ticket_closed"
    assert shown.json()["filter"]["selected"] == "3 receipts, all that match"
    assert rows() == before

    first, again = (post(client, plan=shown.json()["plan"], reason=WHY) for _ in range(2))

    assert first.status_code == again.status_code == 202
    assert first["Location"] == again["Location"] == f"{ADDRESS}/{BulkReplay.objects.get().pk}"
    told = client.get(first["Location"]).json()
    assert list(told) == list(BulkReplaySerializer().fields)
    assert list(told["tally"]) == list(TallySerializer().fields)
    assert list(told["items"][0]) == list(BulkItemSerializer().fields)
    assert [item["state"] for item in told["items"]] == ["planned", "excluded", "planned"]
    assert (told["actor"], told["reason"], told["tally"]["waiting"]) == ("kofi", WHY, 2)


def test_starts_by_ids_and_stops(api: Api, operator: User, failed: list[Receipt]) -> None:
    client = api(operator)
    started = post(client, receipts=ids(failed[:2]), reason=WHY).json()
    stopped = client.post(started["links"]["stop"]).json()
    assert [item["state"] for item in stopped["items"]] == ["stopped", "stopped"]
    assert stopped["stop_requested_by"] == "kofi"
    assert client.post(started["links"]["stop"]).json()["stop_requested_at"] == stopped["stop_requested_at"]
    assert AuditEvent.objects.filter(verb="bulk_stop").count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "receipts"),
        ({"receipts": [], "filter": {}}, "receipts"),
        ({"receipts": []}, "receipts"),
        ({"receipts": "all"}, "receipts"),
        ({"receipts": ["x"]}, "receipts"),
        ({"receipts": [str(uuid.uuid4())]}, "receipts"),
        ({"receipts": [7]}, "receipts"),
        ({"filter": {"nope": "x"}}, "filter.nope"),
        ({"filter": {"status": "x"}}, "status"),
        ({"filter": {"status": ""}}, "filter"),
        ({"filter": []}, "filter"),
        ({"filter": {}, "force": True}, "force"),
        ({"filter": {}, "dry_run": "yes"}, "dry_run"),
        ({"plan": 7}, "plan"),
        ({"plan": "x"}, "plan"),
        ({"filter": {"outcome": "failed"}}, "reason"),
        ({"filter": {"outcome": "ok"}, "reason": WHY}, "plan"),
    ],
)
def test_refuses_what_it_does_not_understand(
    api: Api, operator: User, failed: list[Receipt], body: dict[str, Any], field: str
) -> None:
    response = post(api(operator), **body)
    assert (response.status_code, list(response.json()["fields"])) == (400, [field])
    assert not BulkReplay.objects.exists()


def test_has_a_cap(api: Api, operator: User, failed: list[Receipt], settings: Any) -> None:
    settings.BULK_REPLAY_MAX = 2
    for body in ({"receipts": ids(failed)}, {"filter": {}}):
        response = post(api(operator), **body, reason=WHY)
        assert response.status_code == 400
        assert "more than 2" in str(response.json()["fields"])


class TestWhoMay:
    def client(self, api: Api, who: str | None, request: Any) -> Any:
        return api(request.getfixturevalue(who) if who else None)

    @pytest.mark.parametrize(
        ("who", "status"), [(None, 401), ("alice", 403), ("bob", 403), ("auditor", 403), ("operator", 202)]
    )
    def test_starts(self, api: Api, failed: list[Receipt], who: str | None, status: int, request: Any) -> None:
        response = post(self.client(api, who, request), receipts=ids(failed), reason=WHY)
        assert response.status_code == status
        assert BulkReplay.objects.exists() == (status == 202)
        assert AuditEvent.objects.filter(verb="access_refused").count() == (status == 403)

    @pytest.mark.parametrize(
        ("who", "read", "stop"),
        [(None, 401, 401), ("alice", 404, 404), ("bob", 404, 404), ("auditor", 200, 403), ("operator", 200, 200)],
    )
    def test_looks_and_stops(
        self, api: Api, failed: list[Receipt], operator: User, who: str | None, read: int, stop: int, request: Any
    ) -> None:
        bulk = bulk_replays.start(user=operator, plan=plan(failed, {}), reason=WHY)
        client = self.client(api, who, request)
        assert client.get(f"{ADDRESS}/{bulk.pk}").status_code == read
        assert client.post(f"{ADDRESS}/{bulk.pk}/stop").status_code == stop
        bulk.refresh_from_db()
        assert (bulk.stop_requested_at is not None) == (stop == 200)
