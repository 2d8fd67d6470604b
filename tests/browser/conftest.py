"""Real Chromium before the real flow: Django's live server, the stand-in provider, the demo's desk.

Playwright's fixtures are our own: its plugin keeps an event loop running in the main thread to the end of the session,
and Django refuses to touch the database there. Ours last for this folder only, and so does the permission.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from receipts.standin import StandIn
from receipts_project.accounts.models import User
from tests.browser.chromium import FLAGS, chromium_path
from tests.flow.conftest import end_runner

PASSWORD = "a demo password"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@contextmanager
def closed_afterwards() -> Iterator[None]:
    """Where an event loop runs, Django hands the same thread another connection: it is ours to close."""
    yield
    connection.close()


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser for this folder, with an empty profile."""
    path = chromium_path()
    if path is None:
        pytest.skip("no Chromium is installed here; set CHROMIUM to its path to run the browser tests")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
            with closed_afterwards():
                yield browser
            browser.close()
    finally:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def standin(settings: Any) -> Iterator[StandIn]:
    """The stand-in provider, at a pace that leaves time to look at a draft."""
    provider, ready, loop = StandIn(delay=0.1, pace=40), threading.Event(), asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with provider.listening():
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    settings.COMPLETIONS_URL = provider.url
    yield provider
    loop.call_soon_threadsafe(over.set)
    thread.join(10)


@pytest.fixture
def desk(
    chromium: Browser, transactional_db: None, standin: StandIn, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StandIn]:
    """The demo's tickets and people; afterwards the process's runner ends."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    monkeypatch.setenv("DEMO_PASSWORD", PASSWORD)
    call_command("seed_demo", verbosity=0)
    yield standin
    end_runner()


Opener = Callable[..., Page]


@pytest.fixture
def open_page(chromium: Browser, live_server: Any, desk: StandIn) -> Iterator[Opener]:
    """Opens a page as somebody. At the end: no script broke, and nothing ran into the content security policy."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_as(name: str | None = "lead", address: str = "/", **options: Any) -> Page:
        context = chromium.new_context(
            base_url=live_server.url, locale="en-GB", timezone_id="Europe/Helsinki", **options
        )
        contexts.append(context)
        if name:
            client = Client()
            client.force_login(User.objects.get(username=name))
            session = client.cookies["sessionid"].value
            context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: complaints.append(f"script broke: {error}"))
        page.on(
            "console", lambda said: complaints.append(said.text) if "Content Security Policy" in said.text else None
        )
        page.goto(address)
        return page

    yield open_as
    for context in contexts:
        context.close()
    assert not complaints
