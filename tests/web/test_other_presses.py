"""The other buttons of the ticket page, as a browser without script meets them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from receipts.errors import DeliveryFailed, OutcomeUnknown
from receipts.models import Receipt
from receipts.queued import begin_queued
from receipts_project.accounts.models import User
from tests.flow.provider import GOOD, Provider
from tests.flow.test_tools import EMAIL, RESOLUTION
from tests.web.conftest import press, press_other, signed_in, text_of
from tickets import words
from tickets.models import OutgoingEmail, Resolution, Ticket


@pytest.fixture(autouse=True)
def _answers(desk: Provider) -> None:
    desk.fills(file_followup_v1=GOOD, close_ticket_v1=RESOLUTION, email_requester_v1=EMAIL)


def delivered() -> Receipt:
    receipt = Receipt.objects.get(tool_name="deliver_email")
    inflight = begin_queued(receipt.pk, 1)
    assert inflight is not None
    connection.close()
    inflight.wait(30)
    return receipt


class TestButtons:
    def test_each_says_what_will_happen_and_who_sees_it(self, lead: Client) -> None:
        page = text_of(lead.get("/tickets/TCK-1008"))
        for text in (
            "Draft a resolution and close",
            "Draft an e-mail to the requester",
            "Goes out to the customer, to rita@example.com.",
            "Check contact address",
        ):
            assert text in page
        assert page.count("button-main") == 1

    def test_forms_have_keys_of_their_own(self, lead: Client) -> None:
        page = text_of(lead.get("/tickets/TCK-1008"))
        keys = [part.split('"')[0] for part in page.split('name="idempotency_key" value="')[1:]]
        assert len(keys) == len(set(keys)) == 7, "four presses, and three forms to write by hand"

    def test_address_of_a_press_leads_back_to_the_ticket(self, lead: Client) -> None:
        assert lead.get("/tickets/TCK-1008/emails")["Location"] == "/tickets/TCK-1008"
        assert lead.get("/tickets/TCK-1008/anything").status_code == 404

    def test_an_auditor_gets_none_of_them(self, auditor: User) -> None:
        client = signed_in(auditor)
        assert "data-what" not in text_of(client.get("/tickets/TCK-1008"))
        assert (
            client.post("/tickets/TCK-1008/resolutions", {"notes": "x", "idempotency_key": "k" * 9}).status_code == 403
        )

    def test_bad_notes_come_back_in_their_own_form(self, lead: Client) -> None:
        answer = press_other(lead, "resolutions", "x" * 8001)
        page = text_of(answer)
        assert answer.status_code == 400
        assert "8,001 characters" in page
        assert '<details class="other-press" open>' in page

    def test_notes_survive_signing_in_to_their_own_form(self, lead: Client, alice: User) -> None:
        lead.logout()
        page = lead.post("/tickets/TCK-1008/emails", {"notes": "Tell Rita all.", "idempotency_key": "k" * 22})
        kept = text_of(page).split('name="kept_notes" value="')[1].split('"')[0]
        lead.force_login(alice)
        lead.post("/login", {"kept_notes": kept})
        shown = text_of(lead.get("/tickets/TCK-1008"))
        assert shown.index("Notes for the e-mail") < shown.index("Tell Rita all.")


class TestClosing:
    def test_closes_and_says_so_everywhere(self, lead: Client) -> None:
        answer = press_other(lead, "resolutions")
        receipt = text_of(lead.get(answer["Location"]))
        resolution = Resolution.objects.get()
        assert "<strong>Closed</strong>" in receipt
        assert f"TCK-1008 was closed with {resolution.pk}" in receipt
        page = text_of(lead.get("/tickets/TCK-1008"))
        assert resolution.text in page
        assert "This ticket is closed already." in page

    def test_failed_one_proves_that_it_did_not(self, lead: Client, desk: Provider) -> None:
        desk.says("no JSON")
        page = text_of(lead.get(press_other(lead, "resolutions")["Location"]))
        assert "<strong>Not closed</strong>" in page
        assert "TCK-1008 was not closed by this" in page
        assert "#press-resolutions" in page


class TestMail:
    def test_is_queued_then_sent(self, lead: Client) -> None:
        page = text_of(lead.get(press_other(lead, "emails")["Location"]))
        assert "<strong>Queued for sending</strong>" in page
        ticket = text_of(lead.get("/tickets/TCK-1008"))
        assert "Waiting to start — not confirmed yet" in ticket
        delivery = delivered()
        ticket = text_of(lead.get("/tickets/TCK-1008"))
        assert "<span>Sent</span>" in ticket
        assert delivery.number in ticket
        told = text_of(lead.get(f"/receipts/{delivery.pk}"))
        assert f"{OutgoingEmail.objects.get().pk} was handed to the mail server" in told
        assert "Handed to" in told

    def test_doubt_is_said_and_not_guessed(self, lead: Client, monkeypatch: Any) -> None:
        press_other(lead, "emails")
        monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", lambda self, mails: 0)
        delivery = delivered()
        page = text_of(lead.get(f"/receipts/{delivery.pk}"))
        assert page.count("Not known whether it was sent") >= 2
        assert "Nothing was sent" not in page
        assert "proves that nothing" not in page
        assert "Press again" not in page
        assert "Not known whether it was sent" in text_of(lead.get("/tickets/TCK-1008"))

    def test_hostile_draft_stays_text(self, lead: Client, desk: Provider) -> None:
        desk.fills(email_requester_v1=EMAIL | {"body": "<script>alert(1)</script> and some more"})
        press_other(lead, "emails")
        assert "<script>alert" not in text_of(lead.get("/tickets/TCK-1008"))


class TestContact:
    def test_decision_and_its_review_date_stand_beside_the_address(self, lead: Client, desk: Provider) -> None:
        answer = press_other(lead, "contact-checks")
        assert "<strong>Checked</strong>" in text_of(lead.get(answer["Location"]))
        page = text_of(lead.get("/tickets/TCK-1008"))
        until = (timezone.now() + dt.timedelta(days=180)).strftime("%-d %b %Y")
        assert "<strong>accepted</strong>: nothing speaks against it" in page
        assert f"look again by {until}" in page
        assert '<dd id="panel-decision" dir="auto">accepted</dd>' in page
        assert desk.calls == 0

    def test_throw_away_address_is_named_as_such(self, lead: Client) -> None:
        Ticket.objects.update(requester_email="rita@mailinator.com")
        press_other(lead, "contact-checks")
        assert "a throw-away mail provider" in text_of(lead.get("/tickets/TCK-1008"))

    def test_is_due_again_when_its_day_has_come(self, lead: Client, monkeypatch: Any) -> None:
        monkeypatch.setattr("tickets.contact.REVIEW_WINDOW_DAYS", dict.fromkeys(("accept", "review", "reject"), -1))
        press_other(lead, "contact-checks")
        assert "to be checked again" in text_of(lead.get("/tickets/TCK-1008"))


def test_follow_up_with_a_day_shows_it(lead: Client, desk: Provider, settings: Any) -> None:
    settings.CONTRACTS = {"file_followup": 2}
    desk.fills(file_followup_v2=GOOD | {"due_on": "2099-03-01"})
    press(lead)
    assert "by 1 Mar 2099" in text_of(lead.get("/tickets/TCK-1008"))


@pytest.mark.parametrize("tool", sorted(words.TOOLS))
def test_every_tool_has_words_for_every_state(tool: str) -> None:
    now = timezone.now()
    rows = {
        "done": Receipt(tool_name=tool, status="applied"),
        "undone": Receipt(tool_name=tool, status="failed", error_code=DeliveryFailed.code),
    }
    for name, row in rows.items():
        assert words.standing(row, now).words == getattr(words.TOOLS[tool], name)
    unknown = Receipt(tool_name=tool, status="failed", error_code=OutcomeUnknown.code)
    assert words.standing(unknown, now).words == "Not known whether it was sent"
