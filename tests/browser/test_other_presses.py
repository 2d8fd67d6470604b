"""The other buttons of the ticket page in a real browser: the panel follows them as it follows the first."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Opener
from tests.browser.test_press import panel, rows


def test_closes_with_a_resolution_and_the_page_says_so(open_page: Opener) -> None:
    page = open_page("lead", "/tickets/TCK-1008")
    page.get_by_text("Draft a resolution and close", exact=True).click()
    page.get_by_label("Notes for the resolution").fill("The certificate was renewed; the login works again.")
    page.get_by_role("button", name="Draft the resolution and close the ticket").click()
    panel(page, "filed")
    expect(page.locator("#panel-words")).to_have_text("Closed")
    expect(page.locator("#panel-draft-label")).to_have_text("Resolution of TCK-1008")
    ((text,),) = rows("SELECT text FROM resolutions")
    expect(page.locator("#panel-resolution")).to_have_text(str(text))
    expect(page.locator("#ticket-head .pill")).to_have_text("Closed")
    expect(page.locator("#followups")).to_contain_text(str(text))
    expect(page.get_by_label("Notes for the resolution")).to_have_value("")


def test_drafts_an_e_mail_and_queues_it(open_page: Opener) -> None:
    page = open_page("lead", "/tickets/TCK-1008")
    page.get_by_text("Draft an e-mail to the requester", exact=True).click()
    page.get_by_label("Notes for the e-mail").fill("The certificate was renewed. Ask whether the login works again.")
    page.get_by_role("button", name="Draft the e-mail and send it").click()
    panel(page, "filed")
    expect(page.locator("#panel-words")).to_have_text("Queued for sending")
    ((subject, body),) = rows("SELECT subject, body FROM outbox")
    expect(page.locator("#panel-subject")).to_have_text(str(subject))
    expect(page.locator("#panel-body")).to_contain_text(str(body)[:20])
    expect(page.locator("#followups")).to_contain_text("Waiting to start")


def test_checks_the_address_twice_from_one_page(open_page: Opener) -> None:
    page = open_page("lead", "/tickets/TCK-1008")
    for count in (1, 2):
        page.get_by_role("button", name="Check contact address").click()
        panel(page, "filed")
        expect(page.locator("#panel-words")).to_have_text("Checked")
        expect(page.locator("#panel-decision")).to_have_text("accepted")
        expect(page.locator("#ticket-head")).to_contain_text("look again by")
        expect(page.locator("#presses li")).to_have_count(count)


def test_one_panel_follows_one_press_after_another(open_page: Opener) -> None:
    page = open_page("lead", "/tickets/TCK-1008")
    page.get_by_role("button", name="Check contact address").click()
    panel(page, "filed")
    page.get_by_label("Notes for the follow-up").fill("Customer still blocked on SSO. Ada should look into it.")
    page.get_by_role("button", name="Draft follow-up and file it").click()
    expect(page.locator("#panel-words")).to_have_text("Filed")
    expect(page.locator("#panel-decision")).to_have_count(0)
    expect(page.locator("#panel-assignee")).to_have_text("ada")
