"""Filing by hand and cancelling, as a browser without script meets them."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest
from django.test import Client

from receipts import flow
from receipts.models import Receipt
from receipts_project.accounts.models import User
from tests.flow.conftest import Presser, press  # noqa: F401 - a fixture
from tests.flow.provider import Provider
from tests.web.conftest import key_in, signed_in, text_of
from tests.web.conftest import press as press_form
from tests.web.test_receipt import section
from tickets.models import Followup, OutgoingEmail, Resolution, Ticket

SUMMARY = "Check the certificate of the identity provider."
GOOD = {"arg_summary": SUMMARY, "arg_assignee": "ada"}
HAND = "/tickets/TCK-1008/followups/by-hand"


def by_hand(client: Client, what: str = "followups", **fields: str) -> Any:
    """Open the ticket, fill the form for writing by hand in, press."""
    page = text_of(client.get(f"/tickets/TCK-1008?by_hand={what}"))
    form = re.search(rf'<form [^>]*data-by-hand="{what}".*?</form>', page, re.DOTALL)
    assert form
    key = re.search(r'name="idempotency_key" value="([^"]+)"', form[0])
    assert key
    return client.post(f"/tickets/TCK-1008/{what}/by-hand", {"idempotency_key": key[1], **(fields or GOOD)})


def error_of(page: Any, name: str) -> str:
    found = re.search(rf'data-error-of="{name}">(.*?)</p>', text_of(page))
    assert found, f"there is no field {name}"
    return found[1]


class TestForm:
    def test_is_always_there_and_made_of_the_contract(self, lead: Client, settings: Any) -> None:
        page = text_of(lead.get("/tickets/TCK-1008"))
        assert page.count("Write it by hand, without a model") == 3
        assert "12 to 500 characters." in page
        assert '<option value="ada">Ada (ada)</option>' in page
        assert "Charles" not in page, "who is not active cannot be chosen"
        assert "arg_due_on" not in page
        settings.CONTRACTS = {"file_followup": 2}
        assert 'name="arg_due_on" type="date"' in text_of(lead.get("/tickets/TCK-1008"))

    def test_is_offered_after_a_failure_of_the_provider(self, lead: Client, provider: Provider) -> None:
        provider.fails(503)
        receipt = text_of(lead.get(press_form(lead)["Location"]))
        assert "?by_hand=followups#by-hand-followups" in receipt
        ticket = text_of(lead.get("/tickets/TCK-1008"))
        assert "?by_hand=followups#by-hand-followups" in ticket
        assert re.search(r'id="by-hand-followups" open', text_of(lead.get("/tickets/TCK-1008?by_hand=followups")))

    def test_the_button_says_who_will_see_it(self, lead: Client) -> None:
        page = text_of(lead.get("/tickets/TCK-1008"))
        buttons = re.findall(r"<span>([^<]+)</span> <small>([^<]+)</small></button>", page)
        assert dict(buttons) == {
            "Draft follow-up and file it": "Internal: only your team sees it",
            "File it as written": "Internal: only your team sees it",
            "Draft the resolution and close the ticket": "Internal: only your team sees it",
            "Close the ticket with this": "Internal: only your team sees it",
            "Draft the e-mail and send it": "Goes out to the customer",
            "Send it as written": "Goes out to the customer",
        }

    def test_who_may_not_file_gets_none(self, auditor: User) -> None:
        client = signed_in(auditor)
        assert "by hand" not in text_of(client.get("/tickets/TCK-1008"))
        for address in (HAND, f"{HAND}/check"):
            assert client.post(address, GOOD | {"idempotency_key": "k" * 16}).status_code == 403


class TestFiling:
    def test_files_without_a_model_while_the_provider_is_down(self, lead: Client, provider: Provider) -> None:
        provider.fails(503)
        answer = by_hand(lead)
        receipt = Receipt.objects.get()
        assert (answer.status_code, answer["Location"]) == (303, f"/receipts/{receipt.pk}")
        assert (receipt.status, receipt.arguments_json["summary"]) == ("applied", SUMMARY)
        assert Followup.objects.get().assignee == "ada"
        assert provider.calls == 0

    def test_the_receipt_says_that_a_person_wrote_it(self, lead: Client) -> None:
        page = text_of(lead.get(by_hand(lead)["Location"]))
        assert "Written by hand by alice. No model was asked." in section(page, "Who wrote it")
        assert "What the model proposed" not in page
        assert "answer" not in section(page, "Who wrote it")
        fields = section(page, "Each field, and who decided it")
        authors = dict(re.findall(r'data-field="(\w+)">.*?<td>([^<]*)</td></tr>', fields))
        assert authors["ticket_id"] == "the route"
        assert authors["summary"] == authors["assignee"] == "a person, by hand"
        assert "Filed on TCK-1008, written by hand" in text_of(lead.get("/tickets/TCK-1008"))

    def test_the_same_form_twice_files_once(self, lead: Client) -> None:
        fields = GOOD | {"idempotency_key": "the-same-key"}
        first, second = lead.post(HAND, fields), lead.post(HAND, fields)
        assert first["Location"] == second["Location"]
        assert Followup.objects.count() == 1

    def test_closes_and_mails_too(self, lead: Client) -> None:
        body = "The certificate was renewed. Please try again."
        by_hand(lead, "emails", arg_subject="Your login", arg_body=body)
        assert OutgoingEmail.objects.get().body == body
        by_hand(lead, "resolutions", arg_resolution="The certificate was renewed.\r\nAll is well again.")
        assert Resolution.objects.get().text == "The certificate was renewed.\nAll is well again."
        assert Ticket.objects.get(pk="TCK-1008").status == "closed"

    def test_a_day_may_be_given_or_left_out(self, lead: Client, settings: Any) -> None:
        settings.CONTRACTS = {"file_followup": 2}
        by_hand(lead, **GOOD, arg_due_on="2099-03-01")
        by_hand(lead, **GOOD, arg_due_on="")
        assert set(Followup.objects.values_list("due_on", flat=True)) == {dt.date(2099, 3, 1), None}

    def test_a_ticket_closed_meanwhile_is_not_blamed_on_a_draft(self, lead: Client) -> None:
        Ticket.objects.update(status="closed")
        page = text_of(lead.get(by_hand(lead)["Location"]))
        assert "<strong>Not filed</strong>" in page
        assert "while the draft" not in page

    def test_what_the_gates_refuse_is_not_called_the_models(self, lead: Client, press: Presser) -> None:
        """Over the API nothing is looked at before the press."""
        receipt = press.settled(body=lambda: {"arguments": {"summary": "short", "assignee": "ada"}})
        page = text_of(lead.get(f"/receipts/{receipt.pk}"))
        assert "What was written by hand does not fit the contract." in page
        assert "the model" not in section(page, "Who wrote it")
        assert "<dd>you</dd>" in page


class TestErrors:
    @pytest.mark.parametrize(
        ("fields", "name", "says"),
        [
            ({"arg_summary": ""}, "summary", "Is missing."),
            ({"arg_summary": "short"}, "summary", "Has 5 characters; at least 12 are needed."),
            ({"arg_summary": "🙂" * 501}, "summary", "Has 501 characters; at most 500 fit."),
            ({"arg_summary": "Check this\u202ethat and more"}, "summary", "characters that must not be stored"),
            ({"arg_summary": " " * 20}, "summary", "nothing that can be seen"),
            ({"arg_assignee": ""}, "assignee", "Is missing."),
            ({"arg_assignee": "charles"}, "assignee", "not an active member"),
        ],
    )
    def test_stand_beside_their_field_before_any_receipt(
        self, lead: Client, fields: dict[str, str], name: str, says: str
    ) -> None:
        page = by_hand(lead, **GOOD | fields)
        assert page.status_code == 400
        assert says in error_of(page, name)
        assert text_of(page).count('aria-invalid="true"') == 1
        assert not Receipt.objects.exists()

    def test_all_are_told_at_once_and_nothing_typed_is_lost(self, lead: Client) -> None:
        page = by_hand(lead, "emails", arg_subject="Two\tparts", arg_body="<b>short</b>")
        assert "one line" in error_of(page, "subject")
        assert "at least 20" in error_of(page, "body")
        assert "&lt;b&gt;short&lt;/b&gt;</textarea>" in text_of(page)
        assert 'value="Two\tparts"' in text_of(page)

    @pytest.mark.parametrize("day", ["2001-01-01", "2027-02-30"])
    def test_a_day_that_is_over_or_none(self, lead: Client, settings: Any, day: str) -> None:
        settings.CONTRACTS = {"file_followup": 2}
        assert error_of(by_hand(lead, **GOOD, arg_due_on=day), "due_on")

    @pytest.mark.parametrize("cap", [{"MAX_IN_FLIGHT": 0}, {"THROTTLE_PRESSES": "1/hour"}])
    def test_a_refusal_keeps_fields_and_key(self, lead: Client, settings: Any, cap: dict[str, Any]) -> None:
        for name, value in cap.items():
            setattr(settings, name, value)
        lead.post(HAND, GOOD | {"idempotency_key": "the-first-key"})
        page = lead.post(HAND, GOOD | {"idempotency_key": "the-second-key"})
        assert page.status_code in (429, 503)
        assert SUMMARY in text_of(page)
        assert 'value="the-second-key"' in text_of(page)

    def test_signed_out_the_fields_travel_through_the_login_page(self, lead: Client, alice: User) -> None:
        lead.logout()
        page = lead.post(HAND, GOOD | {"idempotency_key": "k" * 16})
        assert page.status_code == 401
        kept = text_of(page).split('name="kept_notes" value="')[1].split('"')[0]
        lead.force_login(alice)
        lead.post("/login", {"kept_notes": kept})
        shown = text_of(lead.get("/tickets/TCK-1008"))
        assert f"\n{SUMMARY}</textarea>" in shown
        assert '<option value="ada" selected>' in shown

    def test_an_old_token_offers_the_fields_again(self, alice: User) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(alice)
        page = strict.post(HAND, GOOD | {"idempotency_key": "key-of-the-form"})
        assert page.status_code == 403
        assert f"\n{SUMMARY}</textarea>" in text_of(page)
        assert key_in(page) == "key-of-the-form"

    def test_the_script_asks_first(self, lead: Client) -> None:
        answer = lead.post(f"{HAND}/check", {"arg_summary": "short", "arg_assignee": "ada"})
        assert answer.json() == {
            "arguments": {"summary": "short", "assignee": "ada"},
            "fields": {"summary": "Has 5 characters; at least 12 are needed."},
        }
        assert lead.post("/tickets/TCK-9999/followups/by-hand/check", GOOD).status_code == 404
        lead.logout()
        assert lead.post(f"{HAND}/check", GOOD).status_code == 401
        assert not Receipt.objects.exists()


class TestCancel:
    def test_settles_it_before_it_is_filed(self, lead: Client, press: Presser) -> None:
        receipt = press(respond_async=True).receipt
        page = text_of(lead.get(f"/receipts/{receipt.pk}"))
        assert f'action="/receipts/{receipt.pk}/cancel"' in page
        assert f'action="/receipts/{receipt.pk}/cancel"' in text_of(lead.get("/tickets/TCK-1008"))
        answer = lead.post(f"/receipts/{receipt.pk}/cancel")
        assert (answer.status_code, answer["Location"]) == (303, f"/receipts/{receipt.pk}")
        page = text_of(lead.get(answer["Location"]))
        assert "<strong>Not filed</strong>" in page
        assert "This was cancelled before it was filed." in page
        assert "Press again, same receipt" in page
        assert not Followup.objects.exists()

    def test_ends_a_draft_under_way(self, lead: Client, press: Presser, desk: Provider) -> None:
        desk.gate.clear()
        filing = press()
        desk.wait_for_calls(1)
        lead.post(f"/receipts/{filing.receipt.pk}/cancel")
        assert flow.wait(filing).error_code == "cancelled"
        desk.gate.set()
        assert not Followup.objects.exists()

    def test_too_late_is_said_and_changes_nothing(self, lead: Client) -> None:
        page = press_form(lead)["Location"]
        answer = lead.post(f"{page}/cancel")
        assert "before it could be cancelled" in text_of(lead.get(answer["Location"]))
        assert Receipt.objects.get().status == "applied"

    def test_only_by_post_and_only_ones_own(self, lead: Client, bob: User, press: Presser) -> None:
        receipt = press(respond_async=True).receipt
        assert lead.get(f"/receipts/{receipt.pk}/cancel").status_code == 405
        assert signed_in(bob).post(f"/receipts/{receipt.pk}/cancel").status_code == 404
        receipt.refresh_from_db()
        assert receipt.status == "pending"

    def test_an_open_press_of_another_tab_is_in_the_panel(self, lead: Client, press: Presser) -> None:
        receipt = press(respond_async=True).receipt
        panel = text_of(lead.get("/tickets/TCK-1008")).split('id="panel"')[1].split(">")[0]
        assert f'data-receipt="{receipt.pk}"' in panel
        assert "data-open" in panel
