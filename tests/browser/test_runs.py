"""The pages of workflows and runs in a real browser: a run moves before the reader's eyes, and stays in its place."""

from __future__ import annotations

import datetime as dt
import itertools
import re

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from receipts import ledger
from receipts.errors import ArgMismatch, FillFailed
from receipts.models import Receipt, Run, Schedule
from tests.browser.conftest import Opener
from tests.web.test_runs import STALE, failed, filed, opened, retrying, workflow_run

HEARD = """() => {
  window.announced = [];
  const node = document.getElementById("announcer");
  new MutationObserver(() => window.announced.push(node.textContent)).observe(node, { childList: true });
}"""


@pytest.fixture
def run(desk: object) -> Run:
    """A run of eight, of which two are filed; the others are queued."""
    run = workflow_run(slot="2026-06-02 00:00", planned=8)
    filed(run, 2)
    opened(run, 6)
    return run


def words(page: Page, text: str) -> None:
    expect(page.locator("#run .slip-state")).to_contain_text(text, timeout=10_000)


def settle(receipts: list[Receipt]) -> None:
    """What a worker does with those that are queued, when the model tries another ticket."""
    for receipt in receipts:
        begun = ledger.begin(receipt, seconds=30)
        assert begun
        ledger.settle_failed(begun, ArgMismatch(), replayable=True)


class TestInProgress:
    def test_moves_without_a_reload_and_announces_its_end_alone(self, open_page: Opener, run: Run) -> None:
        page = open_page("auditor", f"/runs/{run.pk}")
        page.evaluate(HEARD)
        words(page, "Under way · 2 of 8 filed · 6 waiting")
        expect(page.locator("#refresh")).to_be_hidden()
        waiting = list(Receipt.objects.filter(run__parent=run, status="pending"))
        settle(waiting[:1])
        words(page, "2 of 8 filed · 1 not filed · 5 waiting")
        expect(page.locator("#run progress")).to_have_js_property("value", 3)
        expect(page.get_by_role("heading", name="What failed, by cause")).to_be_visible()
        assert page.evaluate("window.announced") == []
        settle(waiting[1:])
        ledger.finish_run(run.pk)
        words(page, "Finished, some not filed")
        assert [said.strip() for said in page.evaluate("window.announced")] == [
            "Finished, some not filed · 2 of 8 filed · 6 not filed"
        ]
        expect(page.locator("#run-times")).to_contain_text("after")
        expect(page.locator("#run-times time").first).to_contain_text("EE")  # the reader's own zone, once more
        asked = page.evaluate("performance.getEntriesByType('resource').length")
        page.wait_for_timeout(2500)
        assert page.evaluate("performance.getEntriesByType('resource').length") == asked

    def test_keeps_the_focus_where_it_is(self, open_page: Opener, run: Run) -> None:
        failed(run, FillFailed(reason="provider_timeout"))
        page = open_page("auditor", f"/runs/{run.pk}")
        page.get_by_role("link", name="Show this receipt").focus()
        settle(list(Receipt.objects.filter(run__parent=run, status="pending")[:1]))
        words(page, "2 not filed")
        focused = page.evaluate("document.activeElement.getAttribute('href')")
        assert focused == "?code=fill_failed&reason=provider_timeout#receipts"

    def test_does_not_ask_while_nobody_looks(self, open_page: Opener, run: Run) -> None:
        page = open_page("auditor", f"/runs/{run.pk}")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/runs/" in request.url else None)
        look = """hidden => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
        page.evaluate(look, True)
        page.wait_for_timeout(2600)
        assert asked == []
        page.evaluate(look, False)
        page.wait_for_timeout(300)
        assert len(asked) == 1

    def test_offers_to_refresh_where_the_connection_is_lost(self, open_page: Opener, run: Run) -> None:
        page = open_page("auditor", f"/runs/{run.pk}")
        page.context.set_offline(True)
        expect(page.get_by_role("link", name="Refresh")).to_be_visible(timeout=10_000)
        words(page, "Under way · 2 of 8 filed")
        page.context.set_offline(False)
        filed(run, 1)
        words(page, "3 of 8 filed")
        expect(page.locator("#refresh")).to_be_hidden()

    def test_works_without_script(self, open_page: Opener, run: Run) -> None:
        page = open_page("auditor", f"/runs/{run.pk}", java_script_enabled=False)
        words(page, "2 of 8 filed")
        settle(list(Receipt.objects.filter(run__parent=run, status="pending")[:1]))
        page.get_by_role("link", name="Refresh").click()
        words(page, "1 not filed")


def test_from_the_workflow_to_a_failed_receipt_by_keyboard(open_page: Opener, run: Run) -> None:
    failed(run, FillFailed(reason="provider_timeout"))
    page = open_page("auditor", "/runs")
    tab_to(page, "Nightly stale tickets", within=".row-title")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"/runs/{run.pk}$"))
    tab_to(page, "Show this receipt")
    page.keyboard.press("Enter")
    expect(page.locator("#receipts .row")).to_have_count(1)
    tab_to(page, "", within="#receipts .row-title")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/receipts/[0-9a-f-]+$"))


def tab_to(page: Page, text: str, within: str = "body") -> None:
    """Press Tab until a link with this text has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        at = "([within, text]) => document.activeElement.matches(`${within} a`)"
        if page.evaluate(f"{at} && document.activeElement.textContent.includes(text)", [within, text]):
            return
    raise AssertionError(f"no link {text!r} can be reached by keyboard")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_narrow_screen_and_the_policy(open_page: Opener, run: Run, scheme: str) -> None:
    """320 px wide, which is also 1280 px at 400 %. The policy is checked when the page closes."""
    week = timezone.now() - dt.timedelta(days=7)
    Schedule.objects.create(workflow=STALE, cron="0 3 * * *", zone="UTC", since=week)
    failed(run, FillFailed(reason="provider_timeout"))
    retrying(run, FillFailed(reason="provider_unavailable"), 2)
    done = workflow_run(planned=3)
    filed(done, 3)
    ledger.finish_run(done.pk)
    single = Receipt.objects.filter(run__parent=run)[0].run_id
    page = open_page("auditor", viewport={"width": 320, "height": 640}, color_scheme=scheme)
    for address in ("/runs", "/runs?workflow=weekly", f"/runs/{run.pk}", f"/runs/{done.pk}", f"/runs/{single}"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, address
        unnamed = "[...document.querySelectorAll('a, button')].filter(it => !it.textContent.trim()).length"
        assert page.evaluate(unnamed) == 0
        levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(it => +it.tagName[1])")
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), address
