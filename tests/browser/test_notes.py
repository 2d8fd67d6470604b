"""Notes that save themselves, in a real browser: whatever is refused or breaks, what was typed stays."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Opener
from tests.browser.test_press import NOTES, panel, press, rows
from tickets.models import Message, NotesDraft, Ticket

TICKET = "/tickets/TCK-1008"
KEEPS_THEM = "This browser keeps them"


def type_notes(page: Page, text: str) -> None:
    page.get_by_label("Notes for the follow-up").fill(text)


def saved(page: Page) -> None:
    expect(page.locator("#press .notes-saved")).to_contain_text("Saved", timeout=15_000)


def kept() -> list[str]:
    return [str(text) for (text,) in rows("SELECT text FROM notes_drafts ORDER BY text")]


def holds(page: Page, text: str) -> None:
    expect(page.get_by_label("Notes for the follow-up")).to_have_value(text, timeout=15_000)


def test_save_themselves_for_every_browser_of_this_person(open_page: Opener) -> None:
    page = open_page("lead", TICKET)
    type_notes(page, NOTES)
    saved(page)
    assert kept() == [NOTES]
    page.reload()
    holds(page, NOTES)
    holds(open_page("lead", TICKET), NOTES)
    holds(open_page("lead2", TICKET), "")


def test_are_gone_when_their_receipt_says_filed(open_page: Opener) -> None:
    page = open_page("lead", TICKET)
    type_notes(page, NOTES)
    saved(page)
    press(page)
    panel(page, "filed")
    holds(page, "")
    page.reload()
    holds(page, "")
    assert kept() == []


def test_what_is_typed_while_it_drafts_is_kept(open_page: Opener) -> None:
    page = open_page("lead", TICKET)
    press(page)
    type_notes(page, "The next thing")
    panel(page, "filed")
    page.reload()
    holds(page, "The next thing")


class TestTwoTabs:
    def test_the_later_one_is_told_and_chooses(self, open_page: Opener) -> None:
        first = open_page("lead", TICKET)
        second = first.context.new_page()
        second.goto(TICKET)
        type_notes(first, "From the first tab")
        saved(first)
        type_notes(second, "From the second tab")
        others = second.locator("#press .notes-others")
        expect(others).to_contain_text("Nothing was overwritten")
        others.get_by_text("Show the saved ones").click()
        expect(others.locator(".notes-others-text")).to_have_text("From the first tab")
        holds(second, "From the second tab")
        assert kept() == ["From the first tab"]
        others.get_by_role("button", name="Keep what stands above").click()
        saved(second)
        assert kept() == ["From the second tab"]
        expect(others).to_be_hidden()

    def test_or_takes_the_saved_ones_and_may_undo_that(self, open_page: Opener) -> None:
        first = open_page("lead", TICKET)
        second = first.context.new_page()
        second.goto(TICKET)
        type_notes(first, "From the first tab")
        saved(first)
        type_notes(second, "From the second tab")
        second.locator("#press [data-choice=others]").click()
        holds(second, "From the first tab")
        second.keyboard.press("Control+z")
        holds(second, "From the second tab")


class TestRefusals:
    def test_offline_they_wait_in_the_browser_and_are_saved_afterwards(self, open_page: Opener) -> None:
        page = open_page("lead", TICKET)
        page.context.set_offline(True)
        type_notes(page, NOTES)
        expect(page.locator("#press .notes-trouble")).to_contain_text(KEEPS_THEM)
        assert kept() == []
        page.context.set_offline(False)
        saved(page)
        expect(page.locator("#press .notes-trouble")).to_be_hidden()
        assert kept() == [NOTES]

    def test_a_tab_that_died_offline_lost_nothing(self, open_page: Opener) -> None:
        page = open_page("lead", TICKET)
        context = page.context
        context.set_offline(True)
        type_notes(page, NOTES)
        expect(page.locator("#press .notes-trouble")).to_contain_text(KEEPS_THEM)
        page.close()
        context.set_offline(False)
        page = context.new_page()
        page.goto(TICKET)
        holds(page, NOTES)
        saved(page)

    def test_a_server_that_breaks(self, open_page: Opener) -> None:
        page = open_page("lead", TICKET)
        page.route("**/notes", lambda route: route.fulfill(status=500, body="<h1>oops</h1>"))
        type_notes(page, NOTES)
        expect(page.locator("#press .notes-trouble")).to_contain_text(KEEPS_THEM)
        holds(page, NOTES)
        page.reload()
        holds(page, NOTES)

    def test_a_sign_in_that_expired(self, open_page: Opener) -> None:
        page = open_page("lead", TICKET)
        page.context.clear_cookies(name="sessionid")
        type_notes(page, NOTES)
        expect(page.locator("#press .notes-trouble")).to_contain_text("You are signed out")
        expect(page.locator("#press .notes-trouble a")).to_have_attribute("target", "_blank")
        holds(page, NOTES)

    def test_a_token_that_was_lost_is_fetched_anew(self, open_page: Opener) -> None:
        page = open_page("lead", TICKET)
        page.context.clear_cookies(name="csrftoken")
        type_notes(page, NOTES)
        saved(page)
        page.context.clear_cookies(name="csrftoken")
        press(page)
        panel(page, "filed")

    def test_a_hundred_kilobytes_are_refused_before_the_press_and_kept(self, open_page: Opener) -> None:
        page = open_page("lead", TICKET)
        mile = "A mile of text. " * 6_400
        type_notes(page, mile)
        expect(page.locator("#notes-count")).to_contain_text("102,400 of 8,000")
        expect(page.locator("#press .notes-trouble")).to_contain_text("Too long")
        page.get_by_role("button", name="Draft follow-up and file it").click()
        expect(page.locator("#panel-sentence")).to_contain_text("longer than 8,000 characters")
        page.reload()
        holds(page, mile)
        assert rows("SELECT count(*) FROM tool_receipts") == [(0,)]

    def test_a_colleagues_change_leaves_them_alone(self, open_page: Opener) -> None:
        page = open_page("lead", TICKET)
        type_notes(page, NOTES)
        Ticket.objects.filter(pk="TCK-1008").update(subject="Another subject by a colleague")
        newest = Message.objects.filter(ticket_id="TCK-1008").latest("id")
        Message.objects.create(
            ticket_id="TCK-1008", author="support", author_name="Mette", body="New.", created_at=newest.created_at
        )
        page.get_by_role("button", name="Check contact address").click()
        panel(page, "filed")
        expect(page.get_by_role("heading", level=1)).to_have_text("Another subject by a colleague")
        expect(page.locator("#turns")).to_contain_text("Mette")
        holds(page, NOTES)

    def test_a_save_that_got_no_answer_is_no_conflict_later(self, open_page: Opener) -> None:
        page = open_page("lead", TICKET)

        def lose(route: Route) -> None:
            route.fetch()
            route.abort("connectionreset")

        page.route("**/notes", lose, times=1)
        type_notes(page, NOTES)
        expect(page.locator("#press .notes-trouble")).to_contain_text(KEEPS_THEM)
        type_notes(page, f"{NOTES} And more.")
        saved(page)
        expect(page.locator("#press .notes-others")).to_be_hidden()
        assert kept() == [f"{NOTES} And more."]


def test_signing_out_empties_what_this_browser_kept(open_page: Opener) -> None:
    page = open_page("lead", TICKET)
    page.route("**/notes", lambda route: route.abort())
    type_notes(page, NOTES)
    expect(page.locator("#press .notes-trouble")).to_contain_text(KEEPS_THEM)
    assert page.evaluate("Object.keys(localStorage).length") == 1
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/login"))
    assert page.evaluate("Object.keys(localStorage).length + Object.keys(sessionStorage).length") == 0


def test_without_script_a_button_saves_them(open_page: Opener) -> None:
    page = open_page("lead", TICKET, java_script_enabled=False)
    type_notes(page, NOTES)
    page.get_by_role("button", name="Save notes, file nothing").first.click()
    expect(page.locator(".flash").first).to_contain_text("Your notes are saved")
    holds(page, NOTES)
    assert NotesDraft.objects.get().text == NOTES
