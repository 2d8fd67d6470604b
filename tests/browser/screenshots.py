"""Write docs/screenshots/*.png from a running instance: `make run`, then

    DEMO_PASSWORD=… .venv/bin/python -m tests.browser.screenshots http://localhost:8000

It presses for real, so the instance's ledger grows by a few receipts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chromium import FLAGS, chromium_path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screenshots"
WIDE, NARROW = {"width": 1280, "height": 960}, {"width": 360, "height": 740}

NOTES = (
    "Henrik needs two things by Thursday: a fix for the cookie loop on the shared terminals, and a written "
    "explanation for his auditors why both certificates were accepted. Ada knows the case."
)


class Camera:
    """Takes pictures of one instance, signed in as whoever is asked for."""

    def __init__(self, browser: Browser, address: str, password: str) -> None:
        self.browser, self.address, self.password = browser, address, password

    @contextmanager
    def page(self, name: str, viewport: dict[str, int] = WIDE, scheme: str = "light") -> Iterator[Page]:
        context = self.browser.new_context(
            base_url=self.address, viewport=viewport, color_scheme=scheme, locale="en-GB", device_scale_factor=1
        )
        page = context.new_page()
        page.goto("/login")
        page.get_by_label("User name").fill(name)
        page.get_by_label("Password").fill(self.password)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Board", exact=True)).to_be_visible(timeout=30_000)
        yield page
        context.close()


def shoot(page: Page, name: str) -> None:
    page.screenshot(path=FOLDER / f"{name}.png")


def press(page: Page, notes: str, state: str, *, ticket: str = "TCK-1008") -> None:
    page.goto(f"/tickets/{ticket}")
    page.get_by_label("Notes for the follow-up").fill(notes)
    page.get_by_role("button", name="Draft follow-up and file it").click()
    expect(page.locator("#panel")).to_have_attribute("data-state", state, timeout=30_000)


def failed(camera: Camera) -> None:
    with camera.page("lead") as page:
        press(
            page, "Tell Naomi before we charge her card. standin: provider_unavailable", "not_filed", ticket="TCK-1012"
        )
        shoot(page, "failed")
        press(page, "Dana passed on a text that gives orders. standin: arg_mismatch", "not_filed", ticket="TCK-1039")
        page.locator("#panel-receipt a").click()
        shoot(page, "receipt-failed")


def filed(camera: Camera) -> None:
    with camera.page("lead") as page:
        press(page, NOTES, "drafting")
        page.wait_for_timeout(4500)
        shoot(page, "drafting")
        expect(page.locator("#panel")).to_have_attribute("data-state", "filed", timeout=30_000)
        shoot(page, "filed")
        page.locator("#panel-receipt a").click()
        page.set_viewport_size({"width": 1280, "height": 1180})
        shoot(page, "receipt")


def lists(camera: Camera) -> None:
    for scheme in ("light", "dark"):
        with camera.page("lead", scheme=scheme) as page:
            suffix = "" if scheme == "light" else "-dark"
            shoot(page, f"board{suffix}")
            page.goto("/tickets/TCK-1008")
            shoot(page, f"ticket{suffix}")
            page.goto("/receipts")
            shoot(page, f"my-receipts{suffix}")
    with camera.page("lead", viewport=NARROW) as page:
        shoot(page, "board-narrow")


def console(camera: Camera) -> None:
    with camera.page("auditor") as page:
        page.goto("/admin/receipts/receipt/")
        shoot(page, "console")


STEPS: tuple[Callable[[Camera], None], ...] = (failed, filed, lists, console)


def main(address: str, password: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        camera = Camera(browser, address, password)
        for step in STEPS:
            step(camera)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8000", os.environ["DEMO_PASSWORD"])
