"""Every page and state by the rules of WCAG 2.2 AA that a machine can check: axe-core, light, dark, wide, narrow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from receipts import ledger
from receipts.errors import ArgMismatch, FillFailed
from receipts.models import Receipt
from receipts_project.accounts.models import User
from tests.browser.conftest import Opener
from tests.web.conftest import press, signed_in
from tests.web.test_runs import failed, filed, opened, retrying, workflow_run
from tickets.models import Ticket

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}

SCHEMES = ("light", "dark")
WIDTHS = (1280, 320)

#: Ends what fades from one scheme's colours to the other's, so that none in between is measured.
AT_REST = """() => document.getAnimations().forEach(it => {
  if (it.effect.getComputedTiming().endTime !== Infinity) it.finish();
})"""

Look = Callable[..., None]


@pytest.fixture
def look(open_page: Opener) -> Iterator[Look]:
    """Opens an address as somebody in each scheme and width, does what leads to the state, and asks axe."""
    script, found = Axe().axe_script, list[str]()

    def check(
        address: str, name: str | None = "lead", do: Callable[[Page], None] | None = None, within: str | None = None
    ) -> None:
        # axe measures with inline styles, which our policy would refuse
        page = open_page(name, address, reduced_motion="reduce", bypass_csp=True)
        if do:
            do(page)
        page.evaluate(script)
        for scheme, width in itertools.product(SCHEMES, WIDTHS):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            page.evaluate(AT_REST)
            result = page.evaluate("([within, rules]) => axe.run(within ?? document, rules)", [within, RULES])
            found.extend(f"{address} {scheme} {width} {told(violation)}" for violation in result["violations"])
        page.context.close()

    yield check
    assert not found, "\n".join(found)


def told(violation: dict) -> str:
    nodes = "; ".join(
        f"{node['target']} {node['html'][:160]} {' '.join(it['message'] for it in node['any'] + node['all'])[:200]}"
        for node in violation["nodes"][:4]
    )
    return f"{violation['id']} ({len(violation['nodes'])}): {nodes}"


def pressed(notes: str = "Call them back.", ticket: str = "TCK-1008") -> str:
    """The address of the receipt of a lead's press."""
    return str(press(signed_in(User.objects.get(username="lead")), notes, ticket=ticket)["Location"])


def test_sign_in(look: Look) -> None:
    look("/login", None)
    look("/login", None, do=wrong_password)


def wrong_password(page: Page) -> None:
    page.get_by_label("User name").fill("lead")
    page.get_by_label("Password").fill("not the password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("main")).to_contain_text("do not match")


@pytest.mark.parametrize("address", ["/?view=columns", "/?view=list", "/?q=TCK&priority=high", "/?q=unicorn&view=list"])
def test_board(look: Look, address: str) -> None:
    pressed()
    pressed("It is down. standin: provider_unavailable", "TCK-1012")
    look(address)


def test_board_with_a_menu_open_and_after_a_move(look: Look) -> None:
    look("/", do=lambda page: page.locator("details.place summary").first.click())
    look("/", do=moved)


def moved(page: Page) -> None:
    card = page.locator("[data-cards] > li").first
    card.locator("summary").click()
    card.get_by_label("Assignee").select_option(index=0 if "Nobody" not in card.inner_text() else 1)
    card.get_by_role("button", name="Save").click()
    expect(page.locator(".row-outcome")).to_be_visible()


def test_empty_board(look: Look) -> None:
    Ticket.objects.all().delete()
    look("/?view=columns")


def test_open_ticket(look: Look) -> None:
    look("/tickets/TCK-1008")
    look("/tickets/TCK-1037")


def test_closed_ticket(look: Look) -> None:
    look(f"/tickets/{Ticket.objects.filter(status='closed')[0].pk}")


@pytest.mark.parametrize(
    ("notes", "state"),
    [
        ("Call them back. standin: slow", "drafting"),
        ("Call them back.", "filed"),
        ("standin: provider_unavailable", "not_filed"),
    ],
)
def test_press(look: Look, notes: str, state: str) -> None:
    def do(page: Page) -> None:
        page.get_by_label("Notes for the follow-up").fill(notes)
        page.get_by_role("button", name="Draft follow-up and file it").click()
        expect(page.locator("#panel")).to_have_attribute("data-state", state, timeout=20_000)

    look("/tickets/TCK-1008", do=do)


def test_receipts(look: Look) -> None:
    look("/receipts")
    receipts = [pressed(), pressed("standin: provider_unavailable"), pressed("standin: arg_mismatch", "TCK-1039")]
    look("/receipts")
    for address in receipts:
        look(address)


def test_runs(look: Look) -> None:
    run = workflow_run(slot="2026-06-02 00:00", planned=12)
    filed(run, 2)
    failed(run, FillFailed(reason="provider_timeout"))
    failed(run, ArgMismatch())
    retrying(run, FillFailed(reason="provider_unavailable"), 2)
    opened(run, 2)
    look("/runs", "auditor")
    look(f"/runs/{run.pk}", "auditor")
    ledger.finish_run(run.pk)
    look(f"/runs/{run.pk}", "auditor")


def test_pages_that_are_not_there(look: Look) -> None:
    look("/nowhere")
    look(f"/receipts/{Receipt().pk}")


#: Django's own frame of the console is not ours to mend; what we put into it is.
CONSOLE = "#content"


def test_console(look: Look) -> None:
    receipts = [pressed(), pressed("standin: provider_unavailable")]
    look("/admin/receipts/receipt/", "auditor", within=CONSOLE)
    for address in receipts:
        look(f"/admin/receipts/receipt/{address.rpartition('/')[2]}/change/", "auditor", within=CONSOLE)
