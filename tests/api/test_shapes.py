"""The JSON that goes out: its keys, what is derived, what a page of it costs."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from receipts.errors import ArgMismatch, FillFailed
from receipts.models import Attempt, Receipt, Run, SealedInput
from receipts.serializers import (
    ListedReceiptSerializer,
    ReceiptSerializer,
    RunReceiptSerializer,
    RunSerializer,
)
from receipts.told import attach_decisions, instant, represent, run_json, run_receipt
from receipts_project.accounts.models import User
from tests import factories
from tickets.models import Followup, Message, Ticket
from tickets.serializers import (
    FollowupSerializer,
    MessageSerializer,
    TicketSerializer,
    conversation_json,
    followup_json,
    ticket_json,
)

RECEIPT_KEYS = [
    "receipt_id",
    "run_id",
    "replay_of",
    "tool",
    "contract",
    "contract_sha256",
    "ticket_id",
    "status",
    "outcome",
    "http_status",
    "error_code",
    "error_reason",
    "arguments",
    "result_ref",
    "input_hash",
    "attempt",
    "context_moved",
    "replayable",
    "replay_refusal",
    "user",
    "on_behalf_of",
    "created_at",
    "deadline_at",
    "settled_at",
    "applied_at",
    "overdue",
    "model_decision",
    "tool_result",
    "links",
]
RUN_RECEIPT_KEYS = [
    "run_id",
    "workflow",
    "workflow_run_id",
    "receipt_id",
    "replay_of",
    "attempt",
    "tool",
    "contract",
    "contract_sha256",
    "input_hash",
    "started_at",
    "finished_at",
    "status",
    "output",
    "error_code",
    "error_reason",
    "replayable",
    "actor",
    "on_behalf_of",
    "model_decision",
    "tool_result",
]


def keys(serializer: type[Any]) -> list[str]:
    return list(serializer().fields)


class TestReceipt:
    def test_has_exactly_the_contract_keys_and_openapi_declares_them(self, alice: User) -> None:
        shown = represent(factories.applied(alice))
        assert list(shown) == RECEIPT_KEYS == keys(ReceiptSerializer)
        assert list(shown["links"]) == list(ReceiptSerializer().fields["links"].fields)

    def test_says_applied(self, alice: User) -> None:
        shown = represent(factories.applied(alice))
        assert (shown["status"], shown["outcome"], shown["http_status"]) == ("applied", "ok", 201)
        assert shown["result_ref"].startswith("FUP-")
        assert (shown["replayable"], shown["replay_refusal"]) == (False, "applied_in_lineage")
        assert (shown["user"], shown["on_behalf_of"]) == ("alice", None)
        assert shown["error_code"] is None

    def test_says_pending_and_overdue(self, alice: User) -> None:
        running, late = represent(factories.pending(alice)), represent(factories.pending(alice, seconds=-1))
        assert (running["outcome"], running["overdue"], running["replay_refusal"]) == (None, False, "in_flight")
        assert late["overdue"] is True

    def test_says_failed_with_code_and_reason_of_the_row(self, alice: User) -> None:
        shown = represent(factories.failed(alice, FillFailed(reason="provider_auth")))
        assert (shown["error_code"], shown["error_reason"]) == ("fill_failed", "provider_auth")
        assert (shown["outcome"], shown["http_status"]) == ("failed", 502)
        assert (shown["replayable"], shown["replay_refusal"]) == (True, None)
        assert represent(factories.failed(alice, FillFailed()))["outcome"] == "retryable"

    def test_times_are_utc_with_z(self, alice: User) -> None:
        shown = represent(factories.applied(alice))
        for name in ("created_at", "deadline_at", "settled_at", "applied_at"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", shown[name])
        paris = dt.timezone(dt.timedelta(hours=2))
        assert instant(dt.datetime(2026, 7, 1, 1, 30, tzinfo=paris)) == "2026-06-30T23:30:00.000000Z"

    def test_is_no_replay_candidate_once_the_sealed_input_is_gone(self, alice: User, settings: Any) -> None:
        settings.SEALED_INPUT_DAYS = 1  # of today; what counts is the day that the input was sealed with
        purged, expired = (factories.failed(alice, ArgMismatch(), sealed_days=days) for days in (30, 0))
        kept = factories.failed(alice, ArgMismatch())
        SealedInput.objects.filter(receipt=purged).delete()
        attach_decisions([purged, expired, kept])
        refusals = [represent(receipt)["replay_refusal"] for receipt in (purged, expired, kept)]
        assert refusals == ["input_expired", "input_expired", None]

    def test_says_whether_the_conversation_moved(self, alice: User) -> None:
        receipt = factories.applied(alice)
        receipt.context_moved = True
        assert represent(receipt)["context_moved"] is True

    def test_says_when_this_version_does_not_hold_the_contract(self, alice: User) -> None:
        receipt = factories.failed(alice, ArgMismatch())
        receipt.contract_version = 99
        assert represent(receipt)["replay_refusal"] == "contract_gone"

    def test_costs_no_query(self, alice: User) -> None:
        receipt = factories.applied(alice)
        receipt.user = alice
        with CaptureQueriesContext(connection) as queries:
            represent(receipt)
        assert len(queries) == 0


def test_run_receipt_has_exactly_the_contract_keys(alice: User) -> None:
    receipt = factories.applied(alice)
    shown = run_receipt(Attempt.objects.get(receipt=receipt))
    assert list(shown) == RUN_RECEIPT_KEYS == keys(RunReceiptSerializer)
    assert (shown["status"], shown["output"], shown["actor"]) == ("ok", receipt.result_ref, "alice")
    assert shown["tool_result"] == {"effect": "write", "result_ref": receipt.result_ref, "error": None}
    assert shown["model_decision"]["proposed"] == factories.ARGUMENTS


def test_manifest_agrees_with_its_declaration(alice: User) -> None:
    receipt = factories.applied(alice)
    shown = run_json(Run.objects.get(pk=receipt.run_id), Receipt.objects.filter(run=receipt.run_id))
    assert list(shown) == keys(RunSerializer)
    assert list(shown["receipts"][0]) == keys(ListedReceiptSerializer)
    assert shown["manifest"] == {"app_version": "test"}


def test_tickets_agree_with_their_declarations(alice: User) -> None:
    ticket = Ticket.objects.get(pk="TCK-1008")
    now = ticket.created_at
    turn = Message.objects.create(ticket=ticket, author="requester", author_name="Rita", body="Help", created_at=now)
    followup = Followup.objects.get(receipt=factories.applied(alice))
    assert list(ticket_json(ticket)) == keys(TicketSerializer)
    assert list(conversation_json([turn])[0]) == keys(MessageSerializer)
    assert list(followup_json(followup)) == keys(FollowupSerializer)
