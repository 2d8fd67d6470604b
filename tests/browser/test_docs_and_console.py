"""The API's documentation and the audit console in a real browser, under the strict content security policy."""

from __future__ import annotations

from playwright.sync_api import expect

from receipts.errors import FillFailed, FillInvalid, TicketConflict
from receipts_project.accounts.models import User
from tests import factories
from tests.browser.conftest import Opener


def test_the_docs_page_renders_every_operation_for_anybody(open_page: Opener) -> None:
    page = open_page(None, "/api/v1/docs")
    expect(page.locator(".opblock").first).to_be_visible()
    assert page.locator(".opblock").count() >= 12
    page.locator("#operations-tickets-file_followup .opblock-summary-control").click()
    expect(page.get_by_text("the same on every retry of one press")).to_be_visible()


def test_an_auditor_reads_from_the_list_to_the_manifest(open_page: Opener) -> None:
    lead = User.objects.get(username="lead")
    factories.failed(lead, FillFailed(reason="provider_timeout"))
    receipt = factories.applied(lead)
    page = open_page("auditor", "/admin/receipts/receipt/")
    expect(page.get_by_text("The model provider did not answer in time.")).to_be_visible()
    page.get_by_role("link", name="applied", exact=True).click()
    page.locator("#result_list tbody th a").first.click()
    expect(page.locator(".readonly").get_by_text(f"Filed as {receipt.result_ref}.", exact=True).first).to_be_visible()
    expect(page.get_by_role("heading", name="Model decision")).to_be_visible()
    expect(page.get_by_role("heading", name="Tool result")).to_be_visible()
    assert page.get_by_role("button", name="Save").count() == 0
    page.get_by_role("link", name=str(receipt.run_id)).click()
    expect(page.get_by_text('"app_version": "test"')).to_be_visible()
    page.get_by_role("link", name="the receipts of this run").click()
    expect(page.locator("#result_list tbody tr")).to_have_count(1)


def test_the_list_of_receipts_fits_a_laptop(open_page: Opener) -> None:
    lead = User.objects.get(username="lead")
    factories.applied(lead)
    for error in (FillFailed(reason="provider_timeout"), FillInvalid(reason="policy_assignee"), TicketConflict()):
        factories.failed(lead, error)
    page = open_page("auditor", "/admin/receipts/receipt/", viewport={"width": 1280, "height": 800})
    table = page.locator("#result_list")
    expect(table).to_be_visible()
    assert table.evaluate("table => table.getBoundingClientRect().right <= innerWidth")
    assert table.evaluate("table => table.scrollWidth <= table.closest('.results').clientWidth")


def test_the_console_opens_for_an_administrator(open_page: Opener) -> None:
    factories.applied(User.objects.get(username="lead"))
    page = open_page("admin", "/admin/")
    for address in (
        "/admin/tickets/ticket/",
        "/admin/tickets/ticket/TCK-1008/change/",
        "/admin/tickets/member/",
        "/admin/accounts/user/",
        "/admin/receipts/auditevent/",
        "/admin/receipts/attempt/",
    ):
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 200, address
