"""Every tool beside the first, end to end over the API: what it changes, what it refuses, what its receipt says."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from knox.models import AuthToken

from receipts.models import Attempt, Receipt
from receipts_project.accounts.models import User
from tests.flow.provider import GOOD, Provider
from tickets.models import Followup, Message, OutgoingEmail, Resolution, Ticket

RESOLUTION = {"ticket_id": "TCK-1008", "resolution": "The certificate had lapsed; it was renewed and the login works."}
EMAIL = {
    "ticket_id": "TCK-1008",
    "subject": "Your login works again",
    "body": "Hello Rita,\n\nthe certificate was renewed. Please try again.",
}


class Desk:
    """A lead at the API."""

    def __init__(self, user: User) -> None:
        token = AuthToken.objects.create(user)[1]
        self.client = Client(headers={"host": "localhost", "authorization": f"Token {token}"})

    def press(self, what: str, body: Any = None, *, ticket: str = "TCK-1008", key: str | None = None) -> Any:
        return self.client.post(
            f"/api/v1/tickets/{ticket}/{what}",
            {"notes": "It is solved."} if body is None else body,
            content_type="application/json",
            headers={"idempotency-key": key or f"key-{uuid.uuid4()}"},
        )

    def get(self, path: str) -> Any:
        return self.client.get(f"/api/v1/{path}").json()


@pytest.fixture
def at(alice: User, desk: Provider) -> Desk:
    desk.fills(file_followup_v1=GOOD, close_ticket_v1=RESOLUTION, email_requester_v1=EMAIL)
    return Desk(alice)


class TestCheckContactEmail:
    def test_decides_without_a_model_and_changes_nothing(self, at: Desk, desk: Provider) -> None:
        answer = at.press("contact-checks", {})

        assert answer.status_code == 200
        told = answer.json()
        assert (told["tool"], told["result_ref"], told["model_decision"]) == ("check_contact_email", "accept", None)
        output = told["tool_result"]["output"]
        assert (output["decision"], output["reason"]) == ("accept", "plain")
        assert output["list_version"].startswith("disposable-email-domains")
        stands = dt.datetime.fromisoformat(output["review_until"]) - timezone.now()
        assert dt.timedelta(days=179) < stands < dt.timedelta(days=180)
        assert desk.calls == 0

    def test_address_is_nowhere_in_the_ledger_in_clear(self, at: Desk) -> None:
        told = at.press("contact-checks", {}).json()

        attempt = Attempt.objects.get()
        kept = f"{told} {Receipt.objects.values()} {attempt.tool_result} {attempt.model_decision}"
        assert "rita@" not in kept
        assert "@" not in told["arguments"]["email"]

    def test_says_throw_away_and_until_when(self, at: Desk) -> None:
        Ticket.objects.update(requester_email="rita@sub.mailinator.com")

        output = at.press("contact-checks", {}).json()["tool_result"]["output"]

        assert (output["decision"], output["reason"]) == ("reject", "disposable_domain")

    def test_may_be_run_again_and_replayed_freely(self, at: Desk) -> None:
        first, second = (at.press("contact-checks", {}).json() for _ in range(2))

        assert first["receipt_id"] != second["receipt_id"]
        assert first["replayable"] is True
        listed = at.get("tickets/TCK-1008/contact-checks")["results"]
        assert [row["receipt_id"] for row in listed] == [second["receipt_id"], first["receipt_id"]]

    def test_takes_nothing_from_the_one_who_presses(self, at: Desk) -> None:
        answer = at.press("contact-checks", {"arguments": {"email": "bob@example.com"}})

        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")

    def test_closed_ticket_is_checked_as_well(self, at: Desk) -> None:
        assert at.press("contact-checks", {}, ticket="TCK-1010").status_code == 200


class TestCloseTicket:
    def test_writes_the_resolution_down_and_closes(self, at: Desk, alice: User) -> None:
        before = Ticket.objects.get(pk="TCK-1008").updated_at
        told = at.press("resolutions").json()

        resolution = Resolution.objects.get()
        assert told["result_ref"] == resolution.pk
        assert resolution.pk.startswith("RES-")
        assert (resolution.text, resolution.created_by) == (RESOLUTION["resolution"], alice)
        assert str(resolution.receipt_id) == told["receipt_id"]
        ticket = Ticket.objects.get(pk="TCK-1008")
        assert ticket.status == "closed"
        assert ticket.updated_at > before
        (listed,) = at.get("tickets/TCK-1008/resolutions")["results"]
        assert (listed["resolution_id"], listed["text"]) == (resolution.pk, resolution.text)

    def test_closed_ticket_refuses_and_nothing_is_written(self, at: Desk, desk: Provider) -> None:
        desk.fills(close_ticket_v1=RESOLUTION | {"ticket_id": "TCK-1010"})

        answer = at.press("resolutions", ticket="TCK-1010")

        assert answer.status_code == 409
        assert (answer.json()["code"], answer.json()["reason"]) == ("ticket_conflict", "ticket_closed")
        assert not Resolution.objects.exists()

    def test_same_key_is_answered_once_closed(self, at: Desk) -> None:
        first = at.press("resolutions", key="close-it-once")
        again = at.press("resolutions", key="close-it-once")

        assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
        assert again.json()["result_ref"] == first.json()["result_ref"]

    def test_key_of_another_tool_is_another_request(self, at: Desk) -> None:
        at.press("followups", key="one-key-for-two")

        assert at.press("resolutions", key="one-key-for-two").json()["code"] == "idempotency_key_reused"

    def test_is_filed_by_hand_without_a_model(self, at: Desk, desk: Provider) -> None:
        told = at.press("resolutions", {"arguments": {"resolution": RESOLUTION["resolution"]}}).json()

        assert (told["status"], desk.calls) == ("applied", 0)

    def test_says_that_the_conversation_moved(self, at: Desk, desk: Provider) -> None:
        fine = desk.answer

        def answer(request: dict[str, Any]) -> tuple[int, Any]:
            Message.objects.create(
                ticket_id="TCK-1008", author="requester", author_name="Rita", body="Wait", created_at=timezone.now()
            )
            return fine(request)

        desk.answer = answer
        assert at.press("resolutions").json()["context_moved"] is True

    def test_rolls_back_whole_when_its_resolution_cannot_be_written(self, at: Desk, monkeypatch: Any) -> None:
        """The receipt says failed, and the ticket is as open as before."""
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE resolutions ADD CONSTRAINT no CHECK (false)")
        try:
            assert at.press("resolutions").json()["code"] == "apply_failed"
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE resolutions DROP CONSTRAINT no")
        assert Ticket.objects.get(pk="TCK-1008").status == "open"


class TestEmailRequester:
    @pytest.mark.parametrize("subject", ["=?utf-8?q?Hello=0D=0ABcc:_evil@x.org?=", "About =?UTF-8?B?SGVsbG8=?= you"])
    def test_subject_that_mail_programs_would_show_as_another_is_refused(
        self, at: Desk, desk: Provider, subject: str
    ) -> None:
        desk.fills(email_requester_v1=EMAIL | {"subject": subject})

        refused = at.press("emails").json()

        assert (refused["code"], refused["reason"]) == ("fill_invalid", "policy_subject")
        assert not OutgoingEmail.objects.exists()

    def test_long_message_of_escapes_fits(self, at: Desk, desk: Provider) -> None:
        """As a server writes it that escapes what is not ASCII."""
        desk.fills(email_requester_v1=EMAIL | {"body": "ü" * 4000})

        assert at.press("emails").json()["status"] == "applied"

    def test_queues_the_message_with_its_delivery_in_one_commit(self, at: Desk, alice: User) -> None:
        told = at.press("emails").json()

        message = OutgoingEmail.objects.get()
        assert told["result_ref"] == message.pk
        assert (message.to_address, message.subject, message.body) == (
            "rita@example.com",
            EMAIL["subject"],
            EMAIL["body"],
        )
        delivery = Receipt.objects.get(tool_name="deliver_email")
        assert delivery.idempotency_key == f"outbox:{message.pk}"
        assert (delivery.status, delivery.user, delivery.root_id) == ("pending", alice, delivery.pk)
        assert delivery.run.parent_id == Receipt.objects.get(tool_name="email_requester").run_id
        (listed,) = at.get("tickets/TCK-1008/emails")["results"]
        assert listed["delivery"] == {
            "receipt_id": str(delivery.pk),
            "status": "pending",
            "outcome": None,
            "error_code": None,
            "error_reason": None,
            "settled_at": None,
        }

    def test_is_never_replayable(self, at: Desk, desk: Provider) -> None:
        assert at.press("emails").json()["replayable"] is False
        desk.says("not JSON")
        failed = Receipt.objects.get(pk=at.press("emails").json()["receipt_id"])
        assert at.get(f"receipts/{failed.pk}")["replay_refusal"] == "not_replayable"

    @pytest.mark.parametrize("address", ["rita@mailinator.com", "nobody", "rita@example.com\nBcc: bob@example.com"])
    def test_address_that_may_not_be_mailed_refuses(self, at: Desk, address: str) -> None:
        Ticket.objects.update(requester_email=address)

        refused = at.press("emails").json()

        assert (refused["code"], refused["reason"]) == ("ticket_conflict", "contact_rejected")
        assert not OutgoingEmail.objects.exists()
        assert not Receipt.objects.filter(tool_name="deliver_email").exists()

    @pytest.mark.parametrize("name", ["to", "to_address", "recipient", "bcc"])
    def test_model_cannot_choose_the_recipient(self, at: Desk, desk: Provider, name: str) -> None:
        desk.fills(email_requester_v1=EMAIL | {name: "eve@example.com"})

        assert at.press("emails").json()["reason"] == "model_output_invalid"

    @pytest.mark.parametrize(
        "subject", ["Hello\nBcc: eve@example.com", "Hello there\r", "Hello\u2028there", "Hello\x85you"]
    )
    def test_subject_is_one_line(self, at: Desk, desk: Provider, subject: str) -> None:
        desk.fills(email_requester_v1=EMAIL | {"subject": subject})

        assert at.press("emails").json()["code"] == "fill_invalid"
        assert not OutgoingEmail.objects.exists()

    def test_closed_ticket_may_still_be_mailed(self, at: Desk, desk: Provider) -> None:
        desk.fills(email_requester_v1=EMAIL | {"ticket_id": "TCK-1010"})

        assert at.press("emails", ticket="TCK-1010").json()["status"] == "applied"

    def test_words_to_the_requester_are_kept_redacted_in_the_ledger(self, at: Desk, desk: Provider) -> None:
        desk.fills(email_requester_v1=EMAIL | {"body": "Write to ada@example.com or call +49 30 901820."})

        told = at.press("emails").json()

        assert "ada@" not in str(told["arguments"])
        assert "ada@example.com" in OutgoingEmail.objects.get().body

    def test_clients_cannot_take_the_key_of_a_delivery(self, at: Desk) -> None:
        assert at.press("emails", key="outbox:MSG-1001").json()["code"] == "idempotency_key_invalid"

    def test_there_is_no_route_to_a_delivery(self, at: Desk) -> None:
        assert at.press("deliveries", {}).status_code == 404


class TestVersions:
    """Version 2 of `file_followup` beside version 1."""

    TOMORROW = (dt.date.today() + dt.timedelta(days=1)).isoformat()  # noqa: DTZ011

    @pytest.fixture
    def moved(self, settings: Any) -> None:
        settings.CONTRACTS = {"file_followup": 2}

    def test_new_presses_open_version_1_until_told_otherwise(self, at: Desk) -> None:
        assert at.press("followups").json()["contract"] == "file_followup@1"

    def test_version_2_keeps_the_day(self, at: Desk, desk: Provider, moved: None) -> None:
        desk.fills(file_followup_v2=GOOD | {"due_on": self.TOMORROW})

        told = at.press("followups").json()

        assert (told["contract"], told["arguments"]["due_on"]) == ("file_followup@2", self.TOMORROW)
        assert Followup.objects.get().due_on.isoformat() == self.TOMORROW
        assert at.get("tickets/TCK-1008/followups")["results"][0]["due_on"] == self.TOMORROW

    def test_no_day_is_said_as_null(self, at: Desk, desk: Provider, moved: None) -> None:
        desk.fills(file_followup_v2=GOOD | {"due_on": None})

        assert at.press("followups").json()["status"] == "applied"
        assert Followup.objects.get().due_on is None

    @pytest.mark.parametrize("day", ["2020-01-01", "2031-02-30", "2031-02-29"])
    def test_day_that_is_over_or_none_is_against_the_policy(
        self, at: Desk, desk: Provider, moved: None, day: str
    ) -> None:
        desk.fills(file_followup_v2=GOOD | {"due_on": day})

        refused = at.press("followups").json()

        assert (refused["code"], refused["retryable"]) == ("fill_invalid", False)
        assert refused["reason"] in ("policy_due_on", "model_output_invalid")
        assert not Followup.objects.exists()

    @pytest.mark.parametrize("day", ["tomorrow", "2031-1-1", "2031-01-01T00:00", "", 20310101])
    def test_anything_but_a_day_does_not_fit_the_schema(self, at: Desk, desk: Provider, moved: None, day: Any) -> None:
        desk.fills(file_followup_v2=GOOD | {"due_on": day})

        assert at.press("followups").json()["reason"] == "model_output_invalid"

    def test_wire_schema_asks_for_a_day_or_null(self, at: Desk, desk: Provider, moved: None) -> None:
        desk.fills(file_followup_v2=GOOD | {"due_on": None})
        at.press("followups")

        schema = desk.requests[-1]["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["due_on"]["type"] == ["string", "null"]
        assert "due_on" in schema["required"]

    def test_retry_keeps_its_pinned_version(self, at: Desk, desk: Provider, settings: Any) -> None:
        desk.fails(500)
        failed = at.press("followups", key="pinned-version").json()
        settings.CONTRACTS = {"file_followup": 2}
        desk.fills(file_followup_v1=GOOD)  # asked for version 2 it would break

        told = at.press("followups", key="pinned-version").json()

        assert (told["receipt_id"], told["contract"], told["attempt"]) == (failed["receipt_id"], "file_followup@1", 2)
        assert told["status"] == "applied"


def test_ledger_of_every_tool_verifies(at: Desk) -> None:
    at.press("followups")
    at.press("contact-checks", {})
    at.press("emails")
    at.press("resolutions")

    call_command("verify_ledger", verbosity=0)


def test_wrong_ticket_is_not_found_whatever_is_pressed(at: Desk) -> None:
    for what in ("followups", "resolutions", "emails"):
        assert at.press(what, ticket="TCK-9999").status_code == 404
    assert at.press("contact-checks", {}, ticket="TCK-9999").status_code == 404
