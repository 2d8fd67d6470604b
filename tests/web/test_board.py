"""The board: filters in the URL, counts, keyset pages, and how each ticket's latest press stands."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from receipts.models import Receipt
from receipts_project.accounts.models import User
from tests.web.conftest import press, signed_in, text_of
from tickets.board import LANE_SIZE
from tickets.models import Message, Ticket


@pytest.fixture
def seeded(lead: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A lead before the demo's board. The two tickets of the flow's desk make room for the demo's."""
    monkeypatch.setenv("DEMO_PASSWORD", "a demo password")
    Ticket.objects.all().delete()
    call_command("seed_demo", verbosity=0)
    return lead


def ids(page: Any) -> list[str]:
    return re.findall(r'<h[23] class="row-title"><a href="/tickets/(TCK-\d+)"', text_of(page))


class TestFilters:
    def test_search_finds_by_id_subject_and_requester(self, seeded: Client) -> None:
        assert ids(seeded.get("/?q=1008")) == ["TCK-1008"]
        assert ids(seeded.get("/?q=sso certificate")) == ["TCK-1008"]
        assert ids(seeded.get("/?q=henrik")) == ["TCK-1008"]

    def test_status_priority_and_assignee_narrow_it_down(self, seeded: Client) -> None:
        found = ids(seeded.get("/?status=open&priority=high&assignee=ada"))
        wanted = Ticket.objects.filter(status="open", priority="high", assignee="ada")
        assert set(found) == set(wanted.values_list("pk", flat=True))

    def test_nobody_is_an_assignee(self, seeded: Client) -> None:
        assert set(ids(seeded.get("/?assignee=nobody"))) == set(
            Ticket.objects.filter(assignee=None).values_list("pk", flat=True)
        )

    def test_waiting_on_us_is_where_the_customer_spoke_last_and_nothing_is_closed(self, seeded: Client) -> None:
        last = {message.ticket_id: message.author for message in Message.objects.order_by("id")}
        open_ones = Ticket.objects.exclude(status="closed").values_list("pk", flat=True)
        wanted = {pk for pk in open_ones if last.get(pk) == "requester"}
        assert wanted
        seen = set(ids(seeded.get("/?waiting=us&view=list")))
        assert seen <= wanted
        assert len(seen) == min(len(wanted), 25)

    def test_each_filter_that_is_on_can_be_taken_off_alone(self, seeded: Client) -> None:
        page = text_of(seeded.get("/?q=sso&priority=high&status=open"))
        chips = dict(re.findall(r'class="chip" href="([^"]+)".*?dir="auto">([^<]+)<', page))
        assert chips == {"?priority=high&amp;status=open": "Search: “sso”", "?q=sso&amp;status=open": "Priority: High"}

    def test_tabs_count_within_the_other_filters(self, seeded: Client) -> None:
        page = text_of(seeded.get("/?assignee=grace&status=closed"))
        closed = Ticket.objects.filter(assignee="grace", status="closed").count()
        assert f'Closed <span class="count">{closed}</span>' in page
        assert 'href="?assignee=grace"' in page

    @pytest.mark.parametrize("query", ["q=%00", "status=nonsense", "cursor=garbled", "priority=%FF", "q=" + "x" * 999])
    def test_a_broken_link_still_shows_the_board(self, seeded: Client, query: str) -> None:
        page = seeded.get(f"/?{query}")
        assert page.status_code == 200
        assert ids(page)

    def test_says_so_when_nothing_matches(self, seeded: Client) -> None:
        assert "Nothing matches these filters" in text_of(seeded.get("/?q=unicorn"))


class TestPages:
    def test_walks_all_tickets_once_and_back(self, seeded: Client) -> None:
        first = seeded.get("/?view=list")
        older = re.search(r'rel="next" href="([^"]+)"', text_of(first))
        assert older
        second = seeded.get(older[1].replace("&amp;", "&"))
        seen = ids(first) + ids(second)
        assert len(seen) == len(set(seen)) == Ticket.objects.count()
        newer = re.search(r'rel="prev" href="([^"]+)"', text_of(second))
        assert newer
        assert ids(seeded.get(newer[1].replace("&amp;", "&"))) == ids(first)

    @pytest.mark.parametrize("view", ["columns", "list"])
    def test_needs_the_same_queries_for_one_ticket_and_for_many(
        self, seeded: Client, django_assert_max_num_queries: Any, view: str
    ) -> None:
        with django_assert_max_num_queries(11):
            seeded.get(f"/?view={view}")


class TestPresses:
    def test_shows_how_the_latest_press_stands(self, lead: Client) -> None:
        press(lead)
        page = text_of(lead.get("/"))
        assert "<span>Filed</span>" in page
        assert "/receipts/" in page

    def test_shows_a_colleagues_press_without_a_door_to_their_receipt(self, lead: Client, bob: User) -> None:
        press(lead)
        page = text_of(signed_in(bob).get("/"))
        assert "<span>Filed</span>" in page
        assert "alice" in page
        assert 'href="/receipts/' not in page

    def test_says_who_pressed_and_lets_only_them_at_the_receipt(self, lead: Client, alice: User, bob: User) -> None:
        press(lead)
        alice.first_name, alice.last_name = "Alice", "Aalto"
        alice.save()
        mine, theirs = text_of(lead.get("/")), text_of(signed_in(bob).get("/"))
        door = f'<a href="/receipts/{Receipt.objects.get().pk}">'
        assert "Alice Aalto" in mine
        assert door in mine
        assert "Alice Aalto" in theirs
        assert door not in theirs


class TestColumns:
    def test_shows_each_status_in_a_lane_with_its_count(self, seeded: Client) -> None:
        page = text_of(seeded.get("/?view=columns"))
        for status in Ticket.Status:
            count = Ticket.objects.filter(status=status).count()
            lane = lane_of(page, status)
            assert f'{status.label} <span class="count">{count}</span>' in lane
            newest = Ticket.objects.filter(status=status).order_by("-updated_at", "-id")[:LANE_SIZE]
            assert re.findall(r'<li class="row[^"]*" id="(TCK-\d+)"', lane) == [ticket.pk for ticket in newest]

    def test_each_lane_is_paged_by_itself(self, lead: Client) -> None:
        make_tickets(2 * LANE_SIZE)
        first = text_of(lead.get("/?view=columns"))
        older = re.search(r'rel="next" href="([^"]+)"', lane_of(first, "open"))
        assert older
        second = text_of(lead.get(older[1].replace("&amp;", "&")))
        assert not set(ids_in(lane_of(first, "open"))) & set(ids_in(lane_of(second, "open")))
        assert ids_in(lane_of(first, "closed")) == ids_in(lane_of(second, "closed"))

    def test_a_garbled_place_is_the_first_page(self, lead: Client) -> None:
        assert ids(lead.get("/?cursor_open=garbled&view=columns"))

    def test_the_choice_is_remembered_and_one_status_is_a_list(self, lead: Client) -> None:
        assert 'class="lanes lanes-columns"' in text_of(lead.get("/"))
        lead.get("/?view=list")
        assert 'class="lanes lanes-list"' in text_of(lead.get("/"))
        lead.get("/?view=columns")
        assert 'class="lanes lanes-columns"' in text_of(lead.get("/?view=nonsense"))
        assert 'class="lanes lanes-list"' in text_of(lead.get("/?status=open"))


class TestRefresh:
    def test_answers_304_while_nothing_has_changed(self, lead: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tickets.board_views.AGES_EVERY", 10**9)
        first = lead.get("/")
        again = lead.get("/", headers={"If-None-Match": first["ETag"]})
        assert (again.status_code, again.content) == (304, b"")

    def test_answers_anew_when_a_press_or_a_colleague_changed_a_card(
        self, lead: Client, bob: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tickets.board_views.AGES_EVERY", 10**9)
        before = lead.get("/")
        press(signed_in(bob))
        pressed = lead.get("/", headers={"If-None-Match": before["ETag"]})
        assert pressed.status_code == 200
        assert versions(before).items() ^ versions(pressed).items() == {
            ("TCK-1008", versions(before)["TCK-1008"]),
            ("TCK-1008", versions(pressed)["TCK-1008"]),
        }
        place(signed_in(bob), status="waiting")
        assert lead.get("/", headers={"If-None-Match": pressed["ETag"]}).status_code == 200

    def test_a_board_narrowed_otherwise_is_another(self, lead: Client, bob: User) -> None:
        tags = {lead.get(address)["ETag"] for address in ("/", "/?status=open", "/?q=TCK-1008")}
        assert len(tags | {signed_in(bob).get("/")["ETag"]}) == 4


class TestPlace:
    def test_moves_and_assigns_and_comes_back_to_the_same_place(self, lead: Client) -> None:
        answer = place(lead, status="waiting", assignee="grace", query="q=sso&priority=normal")
        assert (answer.status_code, answer["Location"]) == (303, "/?q=sso&priority=normal#TCK-1008")
        ticket = Ticket.objects.get(pk="TCK-1008")
        assert ticket.place == "waiting/grace"
        assert "Now it is waiting, with Grace." in card_of(text_of(lead.get("/")), "TCK-1008")
        assert "Now it is" not in text_of(lead.get("/"))

    def test_takes_a_ticket_from_its_assignee(self, lead: Client) -> None:
        Ticket.objects.update(assignee="ada")
        place(lead, seen="open/ada", assignee="")
        assert Ticket.objects.get(pk="TCK-1008").assignee is None

    def test_changes_nothing_when_a_colleague_was_quicker_and_says_so(self, lead: Client, bob: User) -> None:
        place(signed_in(bob), status="closed", assignee="grace")
        place(lead, status="waiting", assignee="ada")
        assert Ticket.objects.get(pk="TCK-1008").place == "closed/grace"
        told = card_of(text_of(lead.get("/")), "TCK-1008")
        assert "Nothing was changed: somebody else was quicker. Now it is closed, with Grace." in told

    def test_the_second_of_two_clicks_changes_nothing_and_is_no_conflict(self, lead: Client) -> None:
        place(lead, status="waiting")
        first = Ticket.objects.get(pk="TCK-1008").updated_at
        place(lead, status="waiting")
        assert Ticket.objects.get(pk="TCK-1008").updated_at == first
        assert "Now it is waiting" in text_of(lead.get("/"))

    def test_a_customers_message_meanwhile_is_no_conflict(self, lead: Client) -> None:
        Ticket.objects.filter(pk="TCK-1008").update(updated_at="2030-01-01T00:00Z")
        place(lead, status="waiting")
        assert Ticket.objects.get(pk="TCK-1008").status == "waiting"

    def test_what_left_the_board_is_told_above_it(self, lead: Client) -> None:
        place(lead, status="closed", query="status=open")
        page = text_of(lead.get("/?status=open"))
        assert re.search(r'id="outcome"[^>]*><a href="/tickets/TCK-1008">TCK-1008</a>: Now it is closed', page)

    def test_gives_nothing_to_who_has_left_but_keeps_what_they_have(self, lead: Client) -> None:
        assert place(lead, assignee="charles").status_code == 400
        assert place(lead, assignee="who").status_code == 400
        Ticket.objects.update(assignee="charles")
        assert "Charles</option>" in card_of(text_of(lead.get("/")), "TCK-1008")
        assert place(lead, seen="open/charles", assignee="charles", status="waiting").status_code == 303
        assert Ticket.objects.get(pk="TCK-1008").place == "waiting/charles"

    def test_is_for_leads(self, lead: Client, auditor: User) -> None:
        client = signed_in(auditor)
        assert 'class="place"' not in text_of(client.get("/"))
        assert place(client, status="closed").status_code == 403
        assert Client().post("/tickets/TCK-1008/place").status_code == 302
        assert lead.get("/tickets/TCK-1008/place")["Location"] == "/tickets/TCK-1008"
        assert place(lead, ticket="TCK-404", status="closed").status_code == 404
        assert Ticket.objects.get(pk="TCK-1008").place == "open/"

    def test_the_form_leads_nowhere_but_to_the_board(self, lead: Client) -> None:
        answer = place(lead, status="closed", query="//elsewhere.example/\r\nSet-Cookie: a=b")
        assert answer["Location"].startswith("/?")
        assert "\n" not in answer["Location"]


def place(client: Client, ticket: str = "TCK-1008", **form: str) -> Any:
    """What the card's form sends; as it is drawn for an open ticket that nobody has."""
    return client.post(
        f"/tickets/{ticket}/place", {"seen": "open/", "status": "open", "assignee": "", "query": "", **form}
    )


def make_tickets(count: int) -> None:
    sample = Ticket.objects.get(pk="TCK-1008")
    Ticket.objects.bulk_create(
        Ticket(
            id=f"TCK-{3000 + number}",
            subject="One of many",
            requester_name="Rita",
            requester_email="rita@example.com",
            created_at=sample.created_at,
            updated_at=sample.updated_at,
        )
        for number in range(count)
    )


def lane_of(page: str, status: str) -> str:
    found = re.search(rf'<section class="lane" aria-labelledby="{status}">.*?</section>', page, re.DOTALL)
    assert found, status
    return found[0]


def card_of(page: str, ticket: str) -> str:
    found = re.search(rf'<li class="row[^"]*" id="{ticket}".*?</li>', page, re.DOTALL)
    assert found, ticket
    return found[0]


def ids_in(page: str) -> list[str]:
    return re.findall(r'<li class="row[^"]*" id="(TCK-\d+)"', page)


def versions(page: Any) -> dict[str, str]:
    return dict(re.findall(r'<li class="row[^"]*" id="(TCK-\d+)" data-version="(\w+)"', text_of(page)))
