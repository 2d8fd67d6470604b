"""What holds for every page: the policy, the banner, the doors, the error pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client

from receipts_project.accounts.models import User
from tests.web.conftest import key_in, press, signed_in, text_of

ADDRESSES = ["/", "/tickets/TCK-1008", "/receipts", "/receipts/nothing", "/login"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_inline_script_handler_or_style(lead: Client, address: str) -> None:
    page = lead.get(address, follow=True)
    html = text_of(page)
    assert not re.search(r"\son[a-z]+\s*=|\sstyle\s*=|<style|javascript:", html, re.IGNORECASE)
    for tag in re.findall(r"<script[^>]*>", html):
        assert "src=" in tag or 'type="application/json"' in tag
    policy = page["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_pages_of_people_are_not_kept_by_browsers(lead: Client) -> None:
    for address in ("/", "/tickets/TCK-1008", "/receipts"):
        assert "no-store" in lead.get(address)["Cache-Control"]


def test_the_stand_in_is_named_on_every_page(lead: Client, settings: Any) -> None:
    settings.STANDIN_PROVIDER = True
    for address in ADDRESSES:
        assert "built-in stand-in, not a real model" in text_of(lead.get(address, follow=True))
    settings.STANDIN_PROVIDER = False
    assert "stand-in" not in text_of(lead.get("/"))


def test_only_staff_see_the_door_to_the_console(lead: Client, auditor: User) -> None:
    assert "Audit console" not in text_of(lead.get("/"))
    auditor.is_staff = True
    auditor.save()
    assert "Audit console" in text_of(signed_in(auditor).get("/"))


def test_success_is_said_of_applied_rows_alone(lead: Client) -> None:
    """No page of a desk without receipts says that something was filed."""
    for address in ("/", "/tickets/TCK-1008", "/receipts"):
        assert "<strong>Filed" not in text_of(lead.get(address))
        assert "<span>Filed" not in text_of(lead.get(address))
    press(lead)
    assert '<strong id="panel-words">Filed' in text_of(lead.get("/tickets/TCK-1008"))


def test_the_page_for_faults_leans_on_nothing() -> None:
    html = render_to_string("500.html")
    assert "pressing the same form again files nothing twice" in html


class TestLedgerOutOfReach:
    @pytest.fixture
    def staff(self, auditor: User) -> Client:
        auditor.is_staff = True
        auditor.save()
        return signed_in(auditor)

    @pytest.mark.parametrize("address", ["/", "/receipts", "/tickets/TCK-1008", "/admin/", "/admin/receipts/receipt/"])
    def test_a_page_says_so_and_when_to_ask_again(self, staff: Client, address: str) -> None:
        with ledger_out_of_reach():
            page = unbroken(staff).get(address)
        assert (page.status_code, page["Retry-After"]) == (503, "1")
        assert "Ledger unreachable" in text_of(page)
        assert staff.get(address).status_code == 200

    def test_the_press_gives_notes_and_key_back(self, lead: Client) -> None:
        key = key_in(lead.get("/tickets/TCK-1008"))
        with ledger_out_of_reach():
            page = press(unbroken(lead), "Notes <to> keep", idempotency_key=key)
        assert (page.status_code, page["Retry-After"]) == (503, "1")
        assert "Not confirmed yet" in text_of(page)
        assert "Notes &lt;to&gt; keep" in text_of(page)
        assert key_in(page) == key
        assert press(lead, "Notes <to> keep", idempotency_key=key).status_code == 303

    def test_signing_in_and_pressing_again_say_so_too(self, lead: Client) -> None:
        receipt = press(lead)["Location"]
        with ledger_out_of_reach():
            for client, address in ((Client(), "/login"), (lead, f"{receipt}/retry")):
                page = unbroken(client).post(address, {"username": "alice", "password": "wrong password"})
                assert (page.status_code, page["Retry-After"]) == (503, "1"), address


@pytest.mark.parametrize("address", ["/login", "/admin/login/"])
@pytest.mark.parametrize("username", ["u" * 5000, "u" * 256, "a\0b"])
def test_a_name_that_nobody_can_have_is_refused_as_any_other(db: None, address: str, username: str) -> None:
    assert Client().post(address, {"username": username, "password": "wrong password"}).status_code == 200


@pytest.mark.parametrize("address", ["receipts/receipt/?status=%00", "tickets/ticket/?status__exact=%00"])
def test_what_no_column_can_hold_is_not_understood(db: None, address: str) -> None:
    root = User.objects.create_superuser("root", password=None)
    page = unbroken(signed_in(root)).get(f"/admin/{address}")
    assert page.status_code == 400
    assert "Not understood" in text_of(page)


@pytest.mark.parametrize("rest", ["1/1/", "1/x%00/", ""])
def test_the_consoles_view_on_site_is_no_address(db: None, rest: str) -> None:
    root = User.objects.create_superuser("root", password=None)
    assert unbroken(signed_in(root)).get(f"/admin/r/{rest}").status_code == 404


def unbroken(client: Client) -> Client:
    """Answers as a server does, where the test client would raise what a view raised."""
    client.raise_request_exception = False
    return client


@contextmanager
def ledger_out_of_reach() -> Iterator[None]:
    """Nobody listens on the port where the database is said to be."""
    port = connection.settings_dict["PORT"]
    connection.close()
    connection.close_pool()
    connection.settings_dict["PORT"] = "1"
    connection.settings_dict["OPTIONS"]["pool"] |= {"timeout": 0.2}
    try:
        yield
    finally:
        connection.close()
        connection.close_pool()
        connection.settings_dict["PORT"] = port
        connection.settings_dict["OPTIONS"]["pool"] |= {"timeout": 2.0}
