"""Notes that save themselves: per person, ticket and form; no tab overwrites what it has not seen."""

from __future__ import annotations

import datetime as dt
import io
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from receipts.models import Receipt
from receipts_project.accounts.models import User
from tests.flow.provider import Provider
from tests.web.conftest import key_in, press, press_other, signed_in, tables_that_hold, text_of
from tickets import notes
from tickets.models import NotesDraft

NOTES = "/tickets/TCK-1008/followups/notes"


def save(client: Client, text: Any, version: Any = 0, address: str = NOTES) -> Any:
    return client.put(address, json.dumps({"text": text, "version": version}), "application/json")


def kept(client: Client, address: str = NOTES) -> dict[str, Any]:
    answer: dict[str, Any] = client.get(address).json()
    return answer


class TestSaving:
    def test_are_there_on_the_next_look_from_any_browser(self, lead: Client, alice: User) -> None:
        answer = save(lead, "Half an hour of notes")
        assert answer.status_code == 200
        assert answer["Cache-Control"].startswith("max-age=0")
        assert answer.json()["version"] > 0
        page = text_of(signed_in(alice).get("/tickets/TCK-1008"))
        assert ">\nHalf an hour of notes</textarea>" in page
        assert "Saved <time" in page

    def test_belong_to_one_person_ticket_and_form(self, lead: Client, bob: User) -> None:
        save(lead, "Alice's")
        save(lead, "For the e-mail", address="/tickets/TCK-1008/emails/notes")
        save(signed_in(bob), "Bob's")
        assert kept(lead)["text"] == "Alice's"
        assert kept(signed_in(bob))["text"] == "Bob's"
        assert kept(lead, "/tickets/TCK-1009/followups/notes")["text"] == ""
        assert kept(lead, "/tickets/TCK-1008/emails/notes")["text"] == "For the e-mail"
        assert "Bob's" not in text_of(lead.get("/tickets/TCK-1008"))

    @pytest.mark.parametrize("text", ["🙂" * 8000, "é\u0301 👩‍👩‍👧 \u202e &lt;b&gt; <script>", "two\nlines"])
    def test_come_back_exactly(self, lead: Client, text: str) -> None:
        assert save(lead, text).status_code == 200
        assert kept(lead)["text"] == text

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("x" * 8001, "8,001 characters"),
            ("a\x00b", "NUL"),
            ("a\ud800", "surrogate"),
            (7, "a text"),
            (None, "a text"),
        ],
    )
    def test_what_no_press_could_send_is_not_kept(self, lead: Client, text: Any, says: str) -> None:
        save(lead, "Good ones")
        answer = save(lead, text, kept(lead)["version"])
        assert answer.status_code == 400
        assert says in answer.json()["detail"]
        assert kept(lead)["text"] == "Good ones"

    @pytest.mark.parametrize("body", ["", "[]", "{", '{"text": "x"}', '{"text": "x", "version": true}', "[" * 9999])
    def test_a_body_that_is_none_is_refused(self, lead: Client, body: str) -> None:
        assert lead.put(NOTES, body, "application/json").status_code == 400

    def test_a_hundred_thousand_characters_change_nothing(self, lead: Client) -> None:
        assert save(lead, "x" * 100_000).status_code == 400
        assert (
            lead.put(NOTES, json.dumps({"text": "x" * 2_000_000, "version": 0}), "application/json").status_code == 400
        )
        assert not NotesDraft.objects.exists()

    def test_emptied_ones_are_gone(self, lead: Client) -> None:
        version = save(lead, "Some").json()["version"]
        assert save(lead, "", version).json()["version"] == 0
        assert not NotesDraft.objects.exists()

    def test_no_row_holds_more_than_fits(self, lead: Client, alice: User) -> None:
        with pytest.raises(IntegrityError, match="notes_draft_fits"), transaction.atomic():
            NotesDraft.objects.create(
                person=alice, ticket_id="TCK-1008", what="followups", text="x" * 8001, version=1,
                saved_at=timezone.now(),
            )  # fmt: skip


class TestTwoTabs:
    def test_the_later_one_is_told_and_nothing_is_overwritten(self, lead: Client) -> None:
        save(lead, "From the first tab")
        late = save(lead, "From the second tab")
        assert late.status_code == 409
        assert late.json()["text"] == "From the first tab"
        assert kept(lead)["text"] == "From the first tab"
        knowingly = save(lead, "From the second tab", late.json()["version"])
        assert knowingly.status_code == 200
        assert kept(lead)["text"] == "From the second tab"

    def test_the_same_text_is_no_conflict(self, lead: Client) -> None:
        first, second = save(lead, "Same").json(), save(lead, "Same").json()
        assert first["version"] == second["version"]

    def test_a_version_does_not_come_twice(self, lead: Client) -> None:
        """A tab that slept through filing and new notes must not pass for one that has seen them."""
        old = save(lead, "First life").json()["version"]
        save(lead, "", old)
        save(lead, "Second life")
        assert save(lead, "Typed long ago", old).status_code == 409

    def test_emptying_what_was_not_seen_is_refused(self, lead: Client) -> None:
        save(lead, "Some")
        assert save(lead, "", 0).status_code == 409

    def test_at_once_exactly_one_wins(self, alice: User) -> None:
        def one(text: str) -> int:
            try:
                return int(save(signed_in(alice), text).status_code)
            finally:
                connection.close()

        with ThreadPoolExecutor(4) as pool:
            answers = sorted(pool.map(one, ["a", "b", "c", "d"]))
        assert answers == [200, 409, 409, 409]


class TestWithoutScript:
    def test_the_form_saves_and_files_nothing(self, lead: Client) -> None:
        answer = lead.post(NOTES, {"notes": "Kept\r\nfor later", "notes_version": "0"})
        assert (answer.status_code, answer["Location"]) == (303, "/tickets/TCK-1008")
        page = text_of(lead.get(answer["Location"]))
        assert "Your notes are saved. Nothing was filed." in page
        assert kept(lead)["text"] == "Kept\nfor later"
        assert not Receipt.objects.exists()

    def test_the_later_tab_gets_both_and_may_then_replace(self, lead: Client) -> None:
        save(lead, "The saved ones")
        page = lead.post(NOTES, {"notes": "The late ones", "notes_version": "0"})
        assert page.status_code == 409
        assert "The late ones" in text_of(page)
        assert "The saved ones" in text_of(page)
        version = text_of(page).split('name="notes_version" value="')[1].split('"')[0]
        assert lead.post(NOTES, {"notes": "The late ones", "notes_version": version}).status_code == 303
        assert kept(lead)["text"] == "The late ones"

    def test_too_long_ones_come_back(self, lead: Client) -> None:
        page = lead.post(NOTES, {"notes": "x" * 8001, "notes_version": "0"})
        assert page.status_code == 400
        assert "x" * 8001 in text_of(page)

    def test_signed_out_they_travel_through_the_login_page(self, lead: Client) -> None:
        lead.logout()
        page = lead.post(NOTES, {"notes": "Kept", "notes_version": "0"})
        assert page.status_code == 401
        assert "kept_notes" in text_of(page)


class TestWho:
    def test_signed_out_is_a_401_and_no_login_page(self, lead: Client) -> None:
        lead.logout()
        for answer in (save(lead, "x"), lead.get(NOTES)):
            assert answer.status_code == 401
            assert answer["Content-Type"] == "application/problem+json"

    def test_who_may_not_file_keeps_no_notes(self, auditor: User) -> None:
        assert save(signed_in(auditor), "x").status_code == 403

    def test_unknown_ticket_is_a_404(self, lead: Client) -> None:
        assert save(lead, "x", address="/tickets/TCK-9999/followups/notes").status_code == 404
        assert save(lead, "x", address="/tickets/TCK-1008/contact-checks/notes").status_code == 404

    def test_need_the_token_and_bring_a_new_one(self, alice: User) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(alice)
        assert save(strict, "x").status_code == 403
        strict.get(NOTES)
        token = strict.cookies["csrftoken"].value
        body = json.dumps({"text": "x", "version": 0})
        assert strict.put(NOTES, body, "application/json", HTTP_X_CSRFTOKEN=token).status_code == 200

    def test_nobody_else_is_shown_them(self, lead: Client, operator: User) -> None:
        save(lead, "Between Alice and her keyboard")
        client = signed_in(operator)
        for address in ("/tickets/TCK-1008", "/", "/receipts", "/api/v1/tickets/TCK-1008", NOTES):
            assert "her keyboard" not in text_of(client.get(address))
        assert tables_that_hold("her keyboard") == {"notes_drafts"}


class TestForgetting:
    def test_filed_ones_are_gone_whoever_watched(self, lead: Client) -> None:
        save(lead, "Customer still blocked.")
        press(lead, "Customer still blocked.")
        assert kept(lead)["text"] == ""
        assert not NotesDraft.objects.exists()

    def test_what_was_typed_after_the_press_stays(self, lead: Client) -> None:
        save(lead, "Customer still blocked.")
        press(lead, "Customer still blocked.")
        save(lead, "The next thing.")
        assert kept(lead)["text"] == "The next thing."

    def test_the_same_words_typed_again_later_stay(self, lead: Client) -> None:
        press(lead, "Customer still blocked.")
        save(lead, "Customer still blocked.")
        assert kept(lead)["text"] == "Customer still blocked."

    def test_a_failed_press_keeps_them(self, lead: Client, provider: Provider) -> None:
        provider.fails(503)
        save(lead, "Customer still blocked.")
        press(lead, "Customer still blocked.")
        assert kept(lead)["text"] == "Customer still blocked."

    def test_another_press_with_the_same_words_does_not_take_them(self, lead: Client) -> None:
        save(lead, "It is solved.", address="/tickets/TCK-1008/emails/notes")
        press_other(lead, "followups", "It is solved.")
        press(lead, "It is solved.")
        assert kept(lead, "/tickets/TCK-1008/emails/notes")["text"] == "It is solved."

    def test_purge_deletes_old_and_filed_ones(self, lead: Client, bob: User) -> None:
        save(lead, "Filed ones")
        press(lead, "Filed ones")
        save(signed_in(bob), "Old ones")
        days = dt.timedelta(days=notes.KEPT_DAYS, minutes=1)
        NotesDraft.objects.filter(person=bob).update(saved_at=timezone.now() - days)
        save(lead, "New ones", address="/tickets/TCK-1009/followups/notes")
        out = io.StringIO()
        call_command("purge", stdout=out)
        assert "2 notes drafts deleted" in out.getvalue()
        assert [draft.text for draft in NotesDraft.objects.all()] == ["New ones"]


class TestBesideOthers:
    def test_a_receipts_notes_do_not_replace_them(self, lead: Client, provider: Provider) -> None:
        provider.fails(503)
        press(lead, "Notes of the receipt")
        save(lead, "Newer notes")
        page = text_of(lead.get(f"/tickets/TCK-1008?notes_of={Receipt.objects.get().pk}"))
        assert ">\nNotes of the receipt</textarea>" in page
        assert "Other notes of yours are saved" in page
        assert "Newer notes" in page
        assert kept(lead)["text"] == "Newer notes"

    def test_a_refused_press_that_grew_from_them_is_not_other(self, lead: Client) -> None:
        version = save(lead, "Some").json()["version"]
        page = text_of(press(lead, "Some more\x00", notes_version=str(version)))
        assert 'class="notes-others flash flash-warning" hidden' in page

    def test_one_form_has_one_key_and_its_own_notes(self, lead: Client) -> None:
        save(lead, "<b>Resolution</b>", address="/tickets/TCK-1008/resolutions/notes")
        page = lead.get("/tickets/TCK-1008")
        assert "&lt;b&gt;Resolution" in text_of(page)
        assert key_in(page, "resolutions") != key_in(page)
