"""What holds for every page: the policy, the banner, the doors, the error pages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.test import Client, override_settings

from receipts_project.accounts.models import User
from tests.web.conftest import press, signed_in, text_of

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


@override_settings(DEBUG=False)
def test_a_ledger_out_of_reach_keeps_the_notes(lead: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    from receipts import flow

    def unreachable(**_: Any) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(flow, "file", unreachable)  # the session's own query must still work
    page = press(lead, "Notes to keep")
    assert page.status_code == 503
    assert "Notes to keep" in text_of(page)
    assert "Not confirmed yet" in text_of(page)
