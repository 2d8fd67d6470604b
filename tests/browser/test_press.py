"""The press, in a real browser: the panel says what the row says, whatever happens to the connection."""

from __future__ import annotations

import json
import re
import uuid

import pytest
from django.db import connection
from playwright.sync_api import Page, Route, expect

from receipts.standin import StandIn
from tests.browser.conftest import PASSWORD, Opener

NOTES = "Customer still blocked on SSO. Ada should explain the two certificates to the auditors by Thursday."


def rows(sql: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def filed() -> int:
    return int(str(rows("SELECT count(*) FROM followups WHERE ticket_id = 'TCK-1008'")[0][0]))


def press(page: Page, notes: str = NOTES) -> None:
    page.get_by_label("Notes for the follow-up").fill(notes)
    page.get_by_role("button", name="Draft follow-up and file it").click()


def panel(page: Page, state: str) -> None:
    """Wait until the panel stands there."""
    expect(page.locator("#panel")).to_have_attribute("data-state", state, timeout=15_000)


class TestPress:
    def test_from_the_login_to_filed(self, open_page: Opener) -> None:
        page = open_page(None, "/tickets/TCK-1008")
        page.get_by_label("User name").fill("lead")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        press(page)
        panel(page, "drafting")
        expect(page.locator("#panel-words")).to_have_text("Drafting — nothing filed yet")
        expect(page.locator("#panel-draft-label")).to_have_text("Draft for TCK-1008, not filed")
        expect(page.locator("#panel-elapsed")).to_contain_text("of 20 s")
        panel(page, "filed")
        [(receipt, status, summary)] = rows(
            "SELECT r.id, r.status, f.summary FROM tool_receipts r JOIN followups f ON f.receipt_id = r.id"
        )
        assert status == "applied"
        expect(page.locator("#panel-summary")).to_have_text(str(summary))
        expect(page.locator("#panel-state")).to_contain_text(f"Filed · receipt R-{str(receipt)[-8:]} · ")
        assert page.get_by_label("Notes for the follow-up").input_value() == ""
        expect(page.locator("#followups")).to_contain_text(f"receipt R-{str(receipt)[-8:]}")
        expect(page.locator("#presses")).to_contain_text(f"R-{str(receipt)[-8:]}")
        expect(page.locator("#followups time")).to_contain_text("EET")
        page.locator("#panel-receipt a").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("was filed on TCK-1008")

    def test_a_double_click_files_once(self, open_page: Opener, standin: StandIn) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        page.get_by_label("Notes for the follow-up").fill(NOTES)
        page.get_by_role("button", name="Draft follow-up and file it").dblclick()
        panel(page, "filed")
        assert (filed(), standin.calls) == (1, 1)

    def test_the_next_notes_can_be_typed_and_pressed_afterwards(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        press(page)
        page.get_by_label("Notes for the follow-up").fill("Something else while it drafts, for grace.")
        panel(page, "filed")
        assert page.get_by_label("Notes for the follow-up").input_value().startswith("Something else")
        page.get_by_role("button", name="Draft follow-up and file it").click()
        panel(page, "drafting")
        panel(page, "filed")
        assert filed() == 2

    def test_announces_boundaries_and_no_words_of_the_draft(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        page.evaluate(
            """() => {
              window.announced = [];
              const node = document.getElementById("announcer");
              new MutationObserver(() => window.announced.push(node.textContent)).observe(node, { childList: true });
            }"""
        )
        press(page)
        panel(page, "filed")
        heard = page.evaluate("window.announced")
        assert heard[0] == "Drafting — nothing filed yet"
        assert heard[-1].startswith("Filed, R-")
        assert len(heard) <= 4

    def test_model_text_is_text(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        press(page, "Ask <img src=x onerror=alert(1)> and <b>tell</b> ada what came of it.")
        panel(page, "filed")
        assert page.locator("#panel-summary *").count() == 0
        expect(page.locator("#panel-summary")).to_contain_text("<img src=x")

    def test_the_lists_are_refreshed_under_a_focused_link(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        press(page)
        panel(page, "filed")
        link = page.locator("#presses li a")
        link.focus()
        href = link.get_attribute("href")
        page.get_by_label("Notes for the follow-up").evaluate("box => { box.value = 'Another note, for grace.' }")
        submit = "new Event('submit', { cancelable: true, bubbles: true })"
        page.evaluate(f"document.getElementById('press').dispatchEvent({submit})")
        panel(page, "drafting")
        panel(page, "filed")
        expect(page.locator("#presses li")).to_have_count(2)
        assert page.evaluate("document.activeElement.getAttribute('href')") == href

    def test_says_filing_between_the_decision_and_the_row_and_that_the_conversation_moved(
        self, open_page: Opener
    ) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        pending = {"receipt_id": str(uuid.uuid4()), "status": "pending", "overdue": False, "settled_at": None}
        arguments = {"ticket_id": "TCK-1008", "summary": "Call Henrik back.", "assignee": "ada"}
        applied = pending | {"status": "applied", "arguments": arguments, "context_moved": True}
        stream = [("receipt", pending), ("decision", {"proposed": arguments}), ("receipt", applied), ("end", {})]
        body = "".join(f"event: {name}\nid: {n}\ndata: {json.dumps(data)}\n\n" for n, (name, data) in enumerate(stream))
        page.route("**/followups", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body))
        page.evaluate(
            """() => {
              window.stood = [];
              const panel = document.getElementById("panel");
              new MutationObserver((seen) => seen.forEach((change) => window.stood.push(change.oldValue)))
                .observe(panel, { attributeFilter: ["data-state"], attributeOldValue: true });
            }"""
        )
        press(page)
        panel(page, "filed")
        assert page.evaluate("window.stood")[-3:] == ["checking", "drafting", "filing"]
        expect(page.locator("#panel-moved")).to_contain_text("The conversation changed while the draft was written.")
        expect(page.locator("#panel-moved")).to_be_visible()

    def test_a_refusals_words_are_a_sentence(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        problem = {"status": 422, "code": "arg_mismatch", "detail": "model attempted to retarget ticket"}
        page.route(
            "**/followups",
            lambda route: route.fulfill(status=422, content_type="application/problem+json", body=json.dumps(problem)),
        )
        press(page)
        expect(page.locator("#panel-sentence")).to_have_text("Model attempted to retarget ticket.")


class TestFailure:
    def test_says_why_and_one_click_goes_on_with_the_same_receipt(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        press(page, f"{NOTES} standin: provider_unavailable once")
        panel(page, "not_filed")
        expect(page.locator("#panel-sentence")).to_have_text("The model provider is unavailable.")
        expect(page.locator("#panel-owner")).to_have_text("the system")
        expect(page.locator("#panel-next")).to_have_text("Press again in a moment.")
        assert filed() == 0
        page.get_by_role("button", name="Press again, same receipt").click()
        panel(page, "filed")
        assert rows("SELECT status, attempt FROM tool_receipts") == [("applied", 2)]

    def test_pressing_the_button_with_the_same_notes_goes_on_too(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        press(page, f"{NOTES} standin: provider_unavailable once")
        panel(page, "not_filed")
        page.get_by_role("button", name="Draft follow-up and file it").click()
        panel(page, "filed")
        assert rows("SELECT status, attempt FROM tool_receipts") == [("applied", 2)]

    def test_a_permanent_one_keeps_the_notes_and_offers_no_retry(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        press(page, f"{NOTES} standin: arg_mismatch")
        panel(page, "not_filed")
        expect(page.locator("#panel-retry")).to_be_hidden()
        assert page.get_by_label("Notes for the follow-up").input_value().startswith(NOTES)
        press(page, f"{NOTES} Again.")
        panel(page, "filed")
        assert [status for (status,) in rows("SELECT status FROM tool_receipts ORDER BY created_at")] == [
            "failed",
            "applied",
        ]

    def test_too_long_notes_are_refused_before_the_press(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        press(page, "🙂" * 8001)
        expect(page.locator("#panel-sentence")).to_contain_text("longer than 8,000 characters")
        expect(page.locator("#notes-count")).to_contain_text("8,001 of 8,000")
        assert rows("SELECT count(*) FROM tool_receipts") == [(0,)]

    def test_an_expired_sign_in_keeps_the_notes(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        page.context.clear_cookies(name="sessionid")
        press(page)
        expect(page.locator("#panel-sentence")).to_contain_text("Signed out — sign in to continue.")
        assert page.get_by_label("Notes for the follow-up").input_value() == NOTES
        page.locator("#panel-next a").click()
        page.get_by_label("User name").fill("lead")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_label("Notes for the follow-up")).to_have_value(NOTES)


class TestConnection:
    def test_a_lost_answer_is_asked_for_again_under_the_same_key(self, open_page: Opener, standin: StandIn) -> None:
        """The server files; the answer never arrives."""
        page = open_page("lead", "/tickets/TCK-1008")
        lost = 0

        def lose_the_first(route: Route) -> None:
            nonlocal lost
            lost += 1
            if lost == 1:
                route.fetch()
                route.abort("connectionreset")
            else:
                route.continue_()

        page.route("**/followups", lose_the_first)
        press(page)
        expect(page.locator("#panel-words")).to_have_text("Not confirmed yet — checking")
        panel(page, "filed")
        expect(page.locator("#panel-words")).to_have_text("Already filed")
        assert (filed(), standin.calls) == (1, 1)

    def test_a_ledger_out_of_reach_is_not_called_a_failure(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        problem = {"status": 503, "code": "database_unavailable", "detail": "The ledger cannot be reached."}
        page.route(
            "**/followups",
            lambda route: route.fulfill(status=503, content_type="application/problem+json", body=json.dumps(problem)),
            times=1,
        )
        press(page)
        expect(page.locator("#panel-words")).to_have_text("Not confirmed yet — checking")
        panel(page, "filed")
        assert filed() == 1

    def test_a_streams_end_is_no_success(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008")
        pending = {"receipt_id": str(uuid.uuid4()), "status": "pending", "overdue": False, "settled_at": None}
        body = f"event: receipt\nid: 1\ndata: {json.dumps(pending)}\n\nevent: end\nid: 2\ndata: {{}}\n\n"
        page.route("**/followups", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body))
        press(page)
        panel(page, "complete")
        expect(page.locator("#panel-words")).to_have_text("Draft complete — waiting for confirmation")
        panel(page, "checking")
        expect(page.locator("#panel-words")).not_to_contain_text("Filed")

    def test_a_reload_while_it_drafts_ends_at_the_rows_truth(self, open_page: Opener, standin: StandIn) -> None:
        standin.pace = 12
        page = open_page("lead", "/tickets/TCK-1008")
        press(page)
        panel(page, "drafting")
        page.reload()
        panel(page, "filed")
        assert (filed(), standin.calls) == (1, 1)

    def test_going_away_and_back_does_too(self, open_page: Opener, standin: StandIn) -> None:
        standin.pace = 12
        page = open_page("lead", "/tickets/TCK-1008")
        press(page)
        panel(page, "drafting")
        page.get_by_role("link", name="My receipts").click()
        page.go_back()
        panel(page, "filed")
        expect(page.get_by_role("button", name="Draft follow-up and file it")).not_to_have_attribute(
            "aria-disabled", "true"
        )
        assert (filed(), standin.calls) == (1, 1)

    def test_two_tabs_file_what_each_was_asked_to(self, open_page: Opener) -> None:
        first, second = open_page("lead", "/tickets/TCK-1008"), open_page("lead2", "/tickets/TCK-1008")
        press(first, "First note: call Henrik about the cookie loop.")
        press(second, "Second note: ask Mette for the metadata file.")
        panel(first, "filed")
        panel(second, "filed")
        expect(first.locator("#panel-summary")).to_contain_text("First note")
        expect(second.locator("#panel-summary")).to_contain_text("Second note")


class TestWithoutScript:
    def test_the_whole_press(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008", java_script_enabled=False)
        press(page)
        expect(page.locator("#verdict .slip-state")).to_contain_text("Filed · receipt R-")
        assert rows("SELECT status FROM tool_receipts") == [("applied",)]
        page.go_back()
        press(page, "Other notes, for grace.")
        expect(page.locator("#verdict .slip-state")).to_contain_text("Filed · receipt R-")
        assert filed() == 2

    def test_failure_and_retry(self, open_page: Opener) -> None:
        page = open_page("lead", "/tickets/TCK-1008", java_script_enabled=False)
        press(page, f"{NOTES} standin: provider_unavailable once")
        expect(page.locator("#verdict .slip-state")).to_contain_text("Not filed")
        page.get_by_role("button", name="Press again, same receipt").click()
        expect(page.locator("#verdict .slip-state")).to_contain_text("Filed")
        assert rows("SELECT status, attempt FROM tool_receipts") == [("applied", 2)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_narrow_screen_and_the_policy(open_page: Opener, scheme: str) -> None:
    """320 px wide, which is also 1280 px at 400 %. The policy is checked when the page closes."""
    page = open_page("lead", "/tickets/TCK-1008", viewport={"width": 320, "height": 640}, color_scheme=scheme)
    press(page)
    panel(page, "filed")
    expect(page.locator("#panel-state")).to_be_in_viewport()
    receipt = page.locator("#panel-receipt a").get_attribute("href")
    for address in ("/", "/?q=unicorn", "/tickets/TCK-1037", "/tickets/TCK-1038", "/receipts", receipt, "/nowhere"):
        page.goto(address or "")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, address


def test_times_are_the_readers_own_with_their_zone(open_page: Opener) -> None:
    page = open_page("lead", "/tickets/TCK-1008")
    expect(page.locator(".ticket-head time")).to_contain_text("EET")


def test_the_row_opens_the_ticket_by_keyboard(open_page: Opener) -> None:
    page = open_page("lead", "/?q=TCK-1008")
    page.get_by_role("link", name="SSO login loops").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/tickets/TCK-1008$"))
