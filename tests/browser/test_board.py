"""The board in a real browser: it moves by itself and leaves the reader's focus and place alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from receipts_project.accounts.models import User
from tests.browser.conftest import Opener
from tests.web.conftest import press, signed_in
from tickets.models import Ticket

HEARD = """() => {
  window.announced = [];
  const node = document.getElementById("announcer");
  new MutationObserver(() => window.announced.push(node.textContent)).observe(node, { childList: true });
}"""

#: Where a card is on the screen.
TOP = "id => document.getElementById(id).getBoundingClientRect().top"


@pytest.fixture(params=["columns", "list"])
def board(open_page: Opener, request: pytest.FixtureRequest) -> Page:
    """The board of a lead, in both layouts."""
    page = open_page("lead", f"/?view={request.param}")
    page.evaluate(HEARD)
    return page


@pytest.fixture
def colleague(desk: object) -> Callable[..., None]:
    """Changes tickets as the other lead does, by the card's own form."""
    client = signed_in(User.objects.get(username="lead2"))

    def change(ticket: str, **wanted: str) -> None:
        now = Ticket.objects.get(pk=ticket)
        given = {"status": now.status, "assignee": now.assignee_id or "", "seen": now.place, "query": ""}
        answer = client.post(f"/tickets/{ticket}/place", given | wanted)
        assert answer.status_code == 303

    return change


def card(page: Page, ticket: str) -> Any:
    return page.locator(f"#{ticket}")


def oldest_open(place: int = 12) -> str:
    """A ticket far enough down that the page scrolls to it."""
    return str(Ticket.objects.filter(status="open").order_by("-updated_at", "-id")[place].pk)


def look_now(page: Page) -> None:
    """What the script does when the reader comes back to the tab."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


class TestRefresh:
    def test_shows_a_press_without_a_reload_and_announces_only_how_many(
        self, board: Page, colleague: Callable[..., None]
    ) -> None:
        press(signed_in(User.objects.get(username="lead2")), "Call them back.")
        look_now(board)
        expect(card(board, "TCK-1008")).to_contain_text("Filed")
        expect(card(board, "TCK-1008")).to_contain_text("Tomasz Nowak")
        assert board.evaluate("window.announced") == ["1 ticket changed"]

    def test_keeps_the_focus_and_the_scroll(self, board: Page, colleague: Callable[..., None]) -> None:
        here, above = oldest_open(), oldest_open(13)
        link = card(board, here).get_by_role("link").first
        link.focus()
        link.scroll_into_view_if_needed()
        before = board.evaluate(TOP, here)
        colleague(above, assignee="grace" if Ticket.objects.get(pk=above).assignee_id != "grace" else "ada")
        look_now(board)
        expect(board.locator("[data-cards] > li").first).to_have_id(
            above
        )  # it went to the top, above the reader's place
        assert abs(board.evaluate(TOP, here) - before) < 2
        assert board.evaluate("document.activeElement.closest('li').id") == here

    def test_the_focus_stays_on_a_card_that_is_drawn_anew(self, board: Page, colleague: Callable[..., None]) -> None:
        here = oldest_open(3)
        card(board, here).locator("summary").focus()
        colleague(here, assignee="grace" if Ticket.objects.get(pk=here).assignee_id != "grace" else "ada")
        look_now(board)
        expect(board.locator("[data-cards] > li").first).to_have_id(here)
        assert board.evaluate("id => document.activeElement === document.querySelector(`#${id} summary`)", here)

    def test_waits_while_the_reader_types_or_has_a_menu_open(self, board: Page, colleague: Callable[..., None]) -> None:
        here = oldest_open(3)
        asked: list[str] = []
        board.on("request", lambda request: asked.append(request.url))
        board.get_by_role("searchbox").fill("half a wo")
        colleague("TCK-1012", status="closed")
        look_now(board)
        board.wait_for_timeout(300)
        assert asked == []
        board.get_by_role("searchbox").fill("")
        card(board, here).locator("summary").click()
        look_now(board)
        board.wait_for_timeout(300)
        assert asked == []
        board.keyboard.press("Escape")
        look_now(board)
        expect(board.locator("#announcer")).to_have_text("1 ticket changed")

    def test_does_not_ask_while_nobody_looks_or_it_is_paused(self, board: Page) -> None:
        asked: list[str] = []
        board.get_by_role("button", name="Pause updates").click()
        board.on("request", lambda request: asked.append(request.url))
        look_now(board)
        board.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
        board.get_by_role("button", name="Pause updates").click()
        look_now(board)
        board.wait_for_timeout(4500)
        assert asked == []

    def test_says_that_it_may_be_out_of_date_where_the_connection_is_lost(self, board: Page) -> None:
        board.context.set_offline(True)
        look_now(board)
        expect(board.get_by_text("What is shown may be out of date")).to_be_visible()
        board.context.set_offline(False)
        look_now(board)
        expect(board.get_by_text("What is shown may be out of date")).to_be_hidden()


class TestMoving:
    def test_moves_and_assigns_by_keyboard_alone(self, board: Page) -> None:
        here = oldest_open(2)
        tab_to(board, f"#{here} summary")
        board.keyboard.press("Enter")
        board.keyboard.press("Tab")
        board.keyboard.type("Wait")
        board.keyboard.press("Tab")
        board.keyboard.type("Grace")
        board.keyboard.press("Tab")
        board.keyboard.press("Enter")
        expect(card(board, here)).to_contain_text("Now it is waiting, with Grace Lindholm.")
        assert Ticket.objects.get(pk=here).place == "waiting/grace"
        assert board.evaluate("id => document.activeElement === document.querySelector(`#${id} summary`)", here)
        assert board.evaluate("window.announced") == [f"{here}: Now it is waiting, with Grace Lindholm."]

    def test_says_so_when_a_colleague_was_quicker(self, board: Page, colleague: Callable[..., None]) -> None:
        here = oldest_open(2)
        card(board, here).locator("summary").click()
        card(board, here).get_by_label("Status").select_option("closed")
        colleague(here, status="waiting", assignee="alan")
        card(board, here).get_by_role("button", name="Save").click()
        expect(card(board, here)).to_contain_text("Nothing was changed: somebody else was quicker.")
        expect(card(board, here)).to_contain_text("Alan")
        assert Ticket.objects.get(pk=here).place == "waiting/alan"

    def test_a_card_that_leaves_the_page_is_told_above_it(self, open_page: Opener) -> None:
        page = open_page("lead", "/?status=open")
        here = oldest_open(1)
        card(page, here).locator("summary").click()
        card(page, here).get_by_label("Status").select_option("closed")
        card(page, here).get_by_role("button", name="Save").click()
        expect(page.locator("#outcome")).to_contain_text(f"{here}: Now it is closed")
        expect(page.locator("#outcome")).to_be_focused()
        expect(card(page, here)).to_have_count(0)

    def test_works_without_script_and_comes_back_to_the_card(self, open_page: Opener) -> None:
        page = open_page("lead", "/?view=list", java_script_enabled=False)
        here = oldest_open(5)
        card(page, here).locator("summary").click()
        card(page, here).get_by_label("Status").select_option("waiting")
        card(page, here).get_by_role("button", name="Save").click()
        expect(page).to_have_url(re.compile(rf"/\?view=list#{here}$"))
        expect(card(page, here)).to_contain_text("Now it is waiting")
        assert Ticket.objects.get(pk=here).status == "waiting"


def test_the_back_button_keeps_filters_and_place(open_page: Opener) -> None:
    page = open_page("lead", "/?view=list")
    page.get_by_role("searchbox").fill("TCK-10")
    page.get_by_label("Priority").select_option("high")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("link", name="Remove filter Priority: High")).to_be_visible()
    filtered, shown = page.url, page.locator("[data-cards] > li").count()
    page.locator(".row-title a").first.click()
    expect(page).to_have_url(re.compile("/tickets/TCK-"))
    page.go_back()
    expect(page).to_have_url(filtered)
    expect(page.locator("[data-cards] > li")).to_have_count(shown)
    page.get_by_role("link", name="Remove filter Priority: High").click()
    expect(page).to_have_url(re.compile(r"q=TCK-10"))
    expect(page).not_to_have_url(re.compile(r"priority=high"))


@pytest.mark.parametrize("view", ["columns", "list"])
def test_fits_a_narrow_screen(open_page: Opener, view: str) -> None:
    """320 px wide, which is also 1280 px at 400 %."""
    page = open_page("lead", f"/?view={view}", viewport={"width": 320, "height": 640})
    page.locator("details.place summary").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.goto(f"/?view={view}&q=TCK&priority=low&assignee=grace&waiting=us")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    Ticket.objects.update(updated_at=timezone.now(), subject="W" * 200, requester_name="N" * 90)
    page.goto(f"/?view={view}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def tab_to(page: Page, selector: str) -> None:
    """Press Tab until what is meant has the focus."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached by keyboard")
