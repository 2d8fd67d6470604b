"""The ticket page, and the press of a browser without script."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from receipts.models import Receipt
from receipts.sealing import sealer
from receipts_project.accounts.models import User
from tests.flow.provider import Provider
from tests.web.conftest import PASSWORD, key_in, press, signed_in, tables_that_hold, text_of
from tickets.models import Followup, Message, Ticket


class TestPage:
    def test_shows_conversation_form_and_audience(self, lead: Client) -> None:
        Message.objects.create(
            ticket_id="TCK-1008", author="requester", author_name="Rita", body="It loops.", created_at=timezone.now()
        )
        page = text_of(lead.get("/tickets/TCK-1008"))
        assert "It loops." in page
        assert "Draft follow-up and file it" in page
        assert "nothing is sent to the customer" in page
        assert "up to 8,000 characters" in page

    def test_every_page_carries_a_key_of_its_own(self, lead: Client) -> None:
        assert key_in(lead.get("/tickets/TCK-1008")) != key_in(lead.get("/tickets/TCK-1008"))

    def test_hostile_text_stays_text(self, lead: Client) -> None:
        hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>"
        Ticket.objects.filter(pk="TCK-1008").update(subject=hostile, requester_name=hostile)
        Message.objects.create(
            ticket_id="TCK-1008", author="requester", author_name=hostile, body=hostile, created_at=timezone.now()
        )
        for address in ("/tickets/TCK-1008", "/"):
            page = text_of(lead.get(address))
            assert "<script>alert" not in page
            assert "<img" not in page
            assert "&lt;script&gt;alert(1)" in page

    def test_folds_all_but_the_latest_turns(self, lead: Client) -> None:
        Message.objects.bulk_create(
            Message(
                ticket_id="TCK-1008", author="requester", author_name="R", body=f"turn {n}", created_at=timezone.now()
            )
            for n in range(40)
        )
        page = text_of(lead.get("/tickets/TCK-1008"))
        assert "Show the 28 earlier messages" in page
        assert page.index("turn 0") < page.index("</details>") < page.index("turn 39")

    def test_an_auditor_reads_but_gets_no_form(self, auditor: User) -> None:
        page = text_of(signed_in(auditor).get("/tickets/TCK-1008"))
        assert "idempotency_key" not in page
        assert "does not file follow-ups" in page

    @pytest.mark.parametrize("ticket", ["TCK-9999", "TCK-%00", "tck-1008", "x"])
    def test_an_unknown_ticket_is_a_404_in_our_words(self, lead: Client, ticket: str) -> None:
        page = lead.get(f"/tickets/{ticket}")
        assert page.status_code == 404
        assert "There is nothing here that you can see." in text_of(page)


class TestPress:
    def test_files_and_lands_on_the_receipt(self, lead: Client) -> None:
        answer = press(lead)
        receipt = Receipt.objects.get()
        assert (answer.status_code, answer["Location"]) == (303, f"/receipts/{receipt.pk}")
        assert receipt.status == "applied"
        page = text_of(lead.get(answer["Location"]))
        assert "<strong>Filed</strong>" in page
        assert receipt.result_ref in page
        assert Followup.objects.get().summary in text_of(lead.get("/tickets/TCK-1008"))

    def test_the_same_form_sent_again_files_nothing_more(self, lead: Client, provider: Provider) -> None:
        key = key_in(lead.get("/tickets/TCK-1008"))
        first = press(lead, idempotency_key=key)
        second = press(lead, idempotency_key=key)
        assert first["Location"] == second["Location"]
        receipt = Receipt.objects.get()
        assert f"Already filed · receipt {receipt.number}" in text_of(lead.get(second["Location"]))
        assert (Followup.objects.count(), provider.calls) == (1, 1)

    def test_the_second_of_two_clicks_leads_to_the_first_ones_row(
        self, lead: Client, alice: User, provider: Provider
    ) -> None:
        key = key_in(lead.get("/tickets/TCK-1008"))
        provider.gate.clear()

        def click() -> Any:
            try:
                return press(signed_in(alice), idempotency_key=key)
            finally:
                connection.close()

        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(click)
            provider.wait_for_calls(1)
            second = press(lead, idempotency_key=key)
            page = text_of(lead.get(second["Location"]))
            provider.gate.set()
            assert first.result(30)["Location"] == second["Location"]
        assert "Drafting — nothing filed yet" in page
        assert '<meta http-equiv="refresh"' in page
        assert Followup.objects.count() == 1

    def test_a_failed_attempt_leads_to_its_receipt_too(self, lead: Client, provider: Provider) -> None:
        provider.says({"ticket_id": "TCK-1009", "summary": "Some other ticket entirely.", "assignee": "ada"})
        answer = press(lead)
        page = text_of(lead.get(answer["Location"]))
        assert "<strong>Not filed</strong>" in page
        assert "Model attempted to retarget ticket." in page
        assert not Followup.objects.exists()


class TestRefusals:
    @pytest.mark.parametrize(
        ("notes", "says"), [("   ", "The notes are blank."), ("x" * 8001, "8,001 characters"), ("a\x00b", "NUL")]
    )
    def test_bad_notes_come_back_with_the_sentence_and_the_same_key(self, lead: Client, notes: str, says: str) -> None:
        key = key_in(lead.get("/tickets/TCK-1008"))
        page = press(lead, notes, idempotency_key=key)
        assert page.status_code == 400
        assert says in text_of(page)
        assert notes.strip()[:50] in text_of(page)
        assert key_in(page) == key
        assert not Receipt.objects.exists()

    @pytest.mark.parametrize(("cap", "status"), [({"MAX_IN_FLIGHT": 0}, 503), ({"THROTTLE_PRESSES": "1/hour"}, 429)])
    def test_too_much_at_once_keeps_notes_and_key(
        self, lead: Client, settings: Any, cap: dict[str, Any], status: int
    ) -> None:
        for name, value in cap.items():
            setattr(settings, name, value)
        if status == 429:
            press(lead)
        key = key_in(lead.get("/tickets/TCK-1008"))
        page = press(lead, "My notes", idempotency_key=key)
        assert page.status_code == status
        assert int(page["Retry-After"]) >= 1
        assert "My notes" in text_of(page)
        assert key_in(page) == key

    def test_a_failed_press_sent_again_is_not_called_filed(self, lead: Client, provider: Provider) -> None:
        provider.says({"ticket_id": "TCK-1009", "summary": "Some other ticket entirely.", "assignee": "ada"})
        key = key_in(lead.get("/tickets/TCK-1008"))
        press(lead, idempotency_key=key)
        page = text_of(lead.get(press(lead, idempotency_key=key)["Location"]))
        assert "Already filed" not in page
        assert f"receipt {Receipt.objects.get().number}" in page

    def test_changed_notes_under_a_used_key_get_a_new_key(self, lead: Client) -> None:
        key = key_in(lead.get("/tickets/TCK-1008"))
        press(lead, "First notes", idempotency_key=key)
        page = press(lead, "Changed notes", idempotency_key=key)
        assert page.status_code == 422
        assert "Changed notes" in text_of(page)
        assert f"/receipts/{Receipt.objects.get().pk}" in text_of(page)
        assert key_in(page) != key
        assert press(lead, "Changed notes", idempotency_key=key_in(page)).status_code == 303

    def test_a_form_without_a_key_gets_one(self, lead: Client) -> None:
        page = lead.post("/tickets/TCK-1008", {"notes": "Notes"})
        assert page.status_code == 400
        assert "Notes" in text_of(page)
        assert len(key_in(page)) >= 16

    def test_who_may_not_file_is_told_so(self, auditor: User) -> None:
        page = signed_in(auditor).post("/tickets/TCK-1008", {"notes": "Notes", "idempotency_key": "k" * 16})
        assert page.status_code == 403
        assert "Your role does not include this." in text_of(page)

    def test_an_unknown_ticket_is_a_404(self, lead: Client) -> None:
        assert lead.post("/tickets/TCK-9999", {"notes": "N", "idempotency_key": "k" * 16}).status_code == 404


def _pressed_signed_out(user: User) -> tuple[Client, dict[str, str]]:
    """A browser on the login page that its press led to, and that page's form as it would be sent."""
    user.set_password(PASSWORD)
    user.save()
    stranger = Client()
    page = stranger.post("/tickets/TCK-1008", {"notes": "Half an hour of <notes>", "idempotency_key": "k" * 16})
    assert page.status_code == 401
    return stranger, {"username": user.username, **_hidden(page)}


def _hidden(page: HttpResponse) -> dict[str, str]:
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text_of(page)))


class TestExpiredSignIn:
    def test_the_notes_travel_through_the_login_page(self, lead: Client, alice: User) -> None:
        stranger, form = _pressed_signed_out(alice)
        answer = stranger.post("/login", form | {"password": PASSWORD})
        assert answer["Location"] == "/tickets/TCK-1008"
        assert "Half an hour of &lt;notes&gt;" in text_of(stranger.get(answer["Location"]))
        assert "Half an hour" not in text_of(stranger.get(answer["Location"])), "handed over once"

    def test_they_arrive_after_a_wrong_password_and_from_another_tabs_sign_in_too(self, alice: User) -> None:
        stranger, form = _pressed_signed_out(alice)
        page = stranger.post("/login", form | {"password": "wrong password"})
        form["kept_notes"] = _hidden(page)["kept_notes"]
        stranger.force_login(alice)
        answer = stranger.post("/login", form | {"password": PASSWORD})
        assert "Half an hour of &lt;notes&gt;" in text_of(stranger.get(answer["Location"]))

    def test_no_table_holds_them_in_the_clear(self, alice: User) -> None:
        stranger, form = _pressed_signed_out(alice)
        stranger.post("/login", form | {"password": "wrong password"})
        assert tables_that_hold("alice") >= {"axes_accessattempt"}
        assert tables_that_hold("Half an hour") == set()
        stranger.post("/login", form | {"password": PASSWORD})
        assert "kept_notes" in stranger.session
        assert "Half an hour" not in str(dict(stranger.session))
        assert tables_that_hold("Half an hour") == set()

    def test_a_sealed_thing_of_another_kind_is_not_opened_here(self, alice: User) -> None:
        client = signed_in(alice)
        kept = sealer().seal({"TCK-1008": "words that wait elsewhere", "notes": "words that wait elsewhere"}).decode()
        client.post("/login", {"kept_notes": kept})
        assert "words that wait elsewhere" not in text_of(client.get("/tickets/TCK-1008"))

    def test_an_old_token_offers_the_same_form_again(self, alice: User) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(alice)
        page = strict.post("/tickets/TCK-1008", {"notes": "Kept", "idempotency_key": "key-of-the-form"})
        assert page.status_code == 403
        assert "Please send it once more" in text_of(page)
        assert "Kept" in text_of(page)
        assert key_in(page) == "key-of-the-form"

    def test_a_strangers_form_is_not_offered_again(self, db: None) -> None:
        page = Client(enforce_csrf_checks=True).post(
            "/tickets/TCK-1008", {"notes": "Kept", "idempotency_key": "k" * 16}
        )
        assert "Kept" in text_of(page)
        assert "idempotency_key" not in text_of(page)
