"""Tickets over REST: everybody signed in reads, leads write."""

from __future__ import annotations

from typing import Any

import pytest

from receipts_project.accounts.models import User
from tests import factories
from tests.api.conftest import Api
from tickets.models import Member, Message, Ticket

TICKETS = "/api/v1/tickets"
NEW = {"subject": "Printer on fire", "requester_name": "Rita", "requester_email": "rita@example.com"}


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [row["ticket_id"] for row in response.json()["results"]]


class TestRead:
    def test_everybody_signed_in_sees_every_ticket(self, api: Api, charlie: User, auditor: User) -> None:
        for reader in (charlie, auditor):
            assert ids(api(reader).get(TICKETS)) == ["TCK-1010", "TCK-1009", "TCK-1008"]

    def test_a_ticket_comes_with_its_conversation_in_order(self, api: Api, charlie: User) -> None:
        ticket = Ticket.objects.get(pk="TCK-1008")
        for author, body in (("requester", "It fails."), ("support", "Since when?")):
            Message.objects.create(
                ticket=ticket, author=author, author_name="R", body=body, created_at=ticket.created_at
            )
        shown = api(charlie).get(f"{TICKETS}/TCK-1008").json()
        assert [turn["body"] for turn in shown["conversation"]] == ["It fails.", "Since when?"]

    @pytest.mark.parametrize("ticket", ["TCK-9999", "tck-1008", "%00", "TCK-1008%00", "x" * 300])
    def test_no_such_ticket(self, api: Api, lead: User, ticket: str) -> None:
        for rest in ("", "/followups"):
            assert api(lead).get(f"{TICKETS}/{ticket}{rest}").status_code == 404

    def test_followups_name_their_receipt(self, api: Api, alice: User) -> None:
        receipt = factories.applied(alice)
        (only,) = api(alice).get(f"{TICKETS}/TCK-1008/followups").json()["results"]
        assert (only["followup_id"], only["receipt_id"]) == (receipt.result_ref, str(receipt.pk))
        assert only["created_by"] == "alice"

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({"status": "closed"}, "TCK-1010"),
            ({"priority": "high"}, "TCK-1009"),
            ({"assignee": "ada"}, "TCK-1009"),
            ({"assignee": "nobody"}, ""),
            ({"q": "vpn BERLIN"}, "TCK-1009"),
            ({"q": "tck-1008"}, "TCK-1008"),
            ({"q": "%"}, ""),
            ({"q": "rita"}, "TCK-1010 TCK-1009 TCK-1008"),
        ],
    )
    def test_filters(self, api: Api, alice: User, query: dict[str, str], found: str) -> None:
        Ticket.objects.filter(pk="TCK-1009").update(priority="high", assignee="ada", subject="VPN down in Berlin")
        assert ids(api(alice).get(TICKETS, query)) == found.split()

    @pytest.mark.parametrize(
        ("name", "value"), [("status", "x"), ("priority", "1"), ("assignee", "a\0"), ("q", "a\0b"), ("sort", "id")]
    )
    def test_filters_refuse_by_name(self, api: Api, lead: User, name: str, value: str) -> None:
        response = api(lead).get(TICKETS, {name: value})
        assert response.status_code == 400
        assert list(response.json()["fields"]) == [name]


class TestOpen:
    def test_a_lead_opens_a_ticket_with_the_next_number(self, api: Api, alice: User) -> None:
        post = api(alice).post(TICKETS, NEW | {"message": "Smoke!", "assignee": "ada"}, "application/json")
        assert post.status_code == 201, post.content
        assert post["Location"] == f"{TICKETS}/{post.json()['ticket_id']}"
        shown = api(alice).get(post["Location"]).json()
        assert shown == post.json()
        assert (shown["status"], shown["priority"], shown["assignee"]) == ("open", "normal", "ada")
        assert [turn["body"] for turn in shown["conversation"]] == ["Smoke!"]

    def test_others_do_not(self, api: Api, auditor: User, charlie: User) -> None:
        for user in (auditor, charlie):
            response = api(user).post(TICKETS, NEW, "application/json")
            assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
        assert Ticket.objects.count() == 3

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"subject": ""}, "subject"),
            ({"subject": "x" * 201}, "subject"),
            ({"subject": 7}, "subject"),
            ({"requester_email": "rita"}, "requester_email"),
            ({"priority": "urgent"}, "priority"),
            ({"assignee": "nobody"}, "assignee"),
            ({"assignee": ""}, "assignee"),
            ({"assignee": ["ada"]}, "assignee"),
            ({"language": "../en"}, "language"),
            ({"id": "TCK-1"}, "id"),
            ({"status": "closed"}, "status"),
        ],
    )
    def test_refuses_by_name(self, api: Api, lead: User, changes: dict[str, Any], field: str) -> None:
        response = api(lead).post(TICKETS, NEW | changes, "application/json")
        assert response.status_code == 400
        assert list(response.json()["fields"]) == [field]


class TestChange:
    def test_a_lead_changes_status_priority_assignee_and_subject(self, api: Api, alice: User) -> None:
        before = Ticket.objects.get(pk="TCK-1008").updated_at
        changes = {"status": "waiting", "priority": "low", "assignee": "grace", "subject": "SSO, again"}
        response = api(alice).patch(f"{TICKETS}/TCK-1008", changes, "application/json")
        assert response.status_code == 200
        assert response.json().items() >= changes.items()
        ticket = Ticket.objects.get(pk="TCK-1008")
        assert (ticket.status, ticket.assignee_id) == ("waiting", "grace")
        assert ticket.updated_at > before
        assert api(alice).patch(f"{TICKETS}/TCK-1008", {"assignee": None}, "application/json").status_code == 200

    def test_others_do_not(self, api: Api, auditor: User) -> None:
        response = api(auditor).patch(f"{TICKETS}/TCK-1008", {"status": "closed"}, "application/json")
        assert response.status_code == 403
        assert Ticket.objects.get(pk="TCK-1008").status == "open"

    def test_a_member_who_left_cannot_be_given_a_ticket(self, api: Api, alice: User) -> None:
        Member.objects.filter(pk="alan").update(active=False)
        response = api(alice).patch(f"{TICKETS}/TCK-1008", {"assignee": "alan"}, "application/json")
        assert (response.status_code, list(response.json()["fields"])) == (400, ["assignee"])

    @pytest.mark.parametrize("changes", [{"id": "TCK-1"}, {"requester_email": "x@example.com"}, {"status": "gone"}])
    def test_refuses_by_name(self, api: Api, alice: User, changes: dict[str, str]) -> None:
        response = api(alice).patch(f"{TICKETS}/TCK-1008", changes, "application/json")
        assert (response.status_code, list(response.json()["fields"])) == (400, list(changes))


def test_body_that_is_encoded_is_not_taken(api: Api, alice: User) -> None:
    """Read as what it is not, it could be another request than the client meant."""
    response = api(alice).post(
        "/api/v1/tickets", "{}", content_type="application/json", headers={"content-encoding": "gzip"}
    )
    assert response.status_code == 415
