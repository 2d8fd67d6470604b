"""Replay in the audit console, in a real browser under the strict content security policy."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection
from playwright.sync_api import expect

from receipts import bulk_replays, flow, queued
from receipts.models import BulkReplay, Receipt
from receipts_project.accounts.models import User
from tests.browser.conftest import Opener

LIST = "/admin/receipts/receipt/"
WHY = "The provider was down last night."


def fail(ticket: str, notes: str = "Call back. standin: provider_unavailable") -> Receipt:
    """The stand-in fails as the notes ask; replayed, it would fail again, so most tests give arguments instead."""
    filing = flow.file(
        tool="file_followup",
        user=User.objects.get(username="lead"),
        subject=ticket,
        key=f"key-{uuid.uuid4()}",
        body=lambda: {"notes": notes},
    )
    return flow.wait(filing)


@pytest.fixture
def outage(standin: object, settings: object) -> object:
    """No provider at all; put back by hand."""
    url, settings.COMPLETIONS_URL = settings.COMPLETIONS_URL, "http://127.0.0.1:9/v1/chat/completions"  # type: ignore[attr-defined]

    def over() -> None:
        settings.COMPLETIONS_URL = url  # type: ignore[attr-defined]

    return over


def work(bulk: BulkReplay) -> bool:
    """A turn of the worker."""
    more = bulk_replays.carry_on(bulk.pk)
    for receipt in Receipt.objects.filter(bulk_item__bulk=bulk, status="pending", started_at=None):
        inflight = queued.begin_queued(receipt.pk, receipt.attempt)
        if inflight is not None:
            inflight.wait(30)
    connection.close()
    return more


def test_an_operator_replays_one_receipt(open_page: Opener, outage: object) -> None:
    receipt = fail("TCK-1008", "Call back about the SSO login.")
    outage()  # type: ignore[operator]
    page = open_page("operator", f"{LIST}{receipt.pk}/change/")
    expect(page.get_by_role("button", name="Retry: same receipt, attempt 2")).to_be_visible()
    page.get_by_role("link", name="Replay as a new receipt…").click()
    expect(page.get_by_text("A new run with a new receipt")).to_be_visible()
    page.get_by_label("file_followup@2").check()
    page.get_by_role("button", name="Look at it under this contract").click()
    expect(page.get_by_text("not the contract it was opened with")).to_be_visible()
    page.get_by_label("file_followup@1").check()
    page.get_by_role("button", name="Look at it under this contract").click()
    page.get_by_label("Why").fill(WHY)
    page.get_by_role("button", name="Replay as a new receipt").click()
    expect(page.locator(".messagelist .success")).to_contain_text("was replayed as R-")
    expect(page.locator(".lineage li.here")).to_contain_text(WHY)
    page.locator(".lineage > li > a").first.click()
    expect(page.locator(".replayed")).to_contain_text("applied")
    assert Receipt.objects.filter(replay_of=receipt).count() == 1


def test_an_operator_plans_follows_and_stops_a_bulk_replay(open_page: Opener, outage: object, settings: object) -> None:
    settings.BULK_REPLAY_IN_FLIGHT = 2  # type: ignore[attr-defined]
    for number in range(1001, 1007):
        fail(f"TCK-{number}", "Call back about the SSO login.")
    outage()  # type: ignore[operator]
    page = open_page("operator", f"{LIST}?outcome=retryable", viewport={"width": 1280, "height": 900})
    assert page.locator("#result_list").evaluate("table => table.getBoundingClientRect().right <= innerWidth")
    page.locator("#action-toggle").check()
    page.get_by_label("Action:").select_option(label="Plan a replay of the selected receipts…")
    page.get_by_role("button", name="Go").click()
    left = Receipt.objects.count()
    expect(page.get_by_role("status")).to_contain_text("receipts would be replayed")
    page.get_by_label("Why").fill(WHY)
    page.get_by_role("button", name="Replay ").click()
    expect(page.get_by_role("status")).to_contain_text("Waits for a worker.")
    bulk = BulkReplay.objects.get()
    assert Receipt.objects.count() == left

    assert work(bulk)
    expect(page.get_by_role("status")).to_contain_text("2 replayed: 2 applied.")  # the page follows by itself
    page.get_by_role("button", name="Stop: let nothing more begin").click()
    expect(page.locator(".messagelist .success")).to_contain_text("had not begun and will not")
    work(bulk)
    expect(page.get_by_role("status")).to_contain_text("Ended, stopped by operator")
    assert Receipt.objects.filter(replay_of__isnull=False).count() == 2


def test_an_auditor_sees_it_all_and_has_no_button(open_page: Opener, outage: object) -> None:
    receipt = fail("TCK-1008", "Call back about the SSO login.")
    page = open_page("auditor", f"{LIST}{receipt.pk}/change/")
    expect(page.locator(".lineage li.here")).to_be_visible()
    assert page.get_by_role("link", name="Replay").count() == 0
    page.goto(f"{LIST}{receipt.pk}/replay/")
    expect(page.get_by_role("alert")).to_contain_text("Your role does not include this")
