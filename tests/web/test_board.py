"""The board: filters in the URL, counts, keyset pages, and how each ticket's latest press stands."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from receipts_project.accounts.models import User
from tests.web.conftest import press, signed_in, text_of
from tickets.models import Ticket


@pytest.fixture
def seeded(lead: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A lead before the demo's board. The two tickets of the flow's desk make room for the demo's."""
    monkeypatch.setenv("DEMO_PASSWORD", "a demo password")
    Ticket.objects.all().delete()
    call_command("seed_demo", verbosity=0)
    return lead


def ids(page: Any) -> list[str]:
    return re.findall(r'<h2 class="row-title"><a href="/tickets/(TCK-\d+)"', text_of(page))


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
        first = seeded.get("/")
        older = re.search(r'rel="next" href="([^"]+)"', text_of(first))
        assert older
        second = seeded.get(older[1].replace("&amp;", "&"))
        seen = ids(first) + ids(second)
        assert len(seen) == len(set(seen)) == Ticket.objects.count()
        newer = re.search(r'rel="prev" href="([^"]+)"', text_of(second))
        assert newer
        assert ids(seeded.get(newer[1].replace("&amp;", "&"))) == ids(first)

    def test_needs_the_same_queries_for_one_ticket_and_for_many(
        self, seeded: Client, django_assert_max_num_queries: Any
    ) -> None:
        with django_assert_max_num_queries(9):
            seeded.get("/")


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
