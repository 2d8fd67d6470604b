"""“Checklist for the next workflow”: the article's six questions, answered from the outside by the product.

A press goes in over the API; answers come from the API, the console, `manage.py export` and, where somebody only
believes SELECT, from every table.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from knox.models import AuthToken

from receipts.logs import LineFormatter
from receipts_project.accounts.models import User
from receipts_project.accounts.roles import AUDITORS
from tests.factories import person
from tests.flow.conftest import alice, desk, operator, provider
from tests.flow.provider import GOOD, Provider
from tests.flow.stale import drafts_for_any, stale_tickets
from tests.flow.web import ROOT, environ

__all__ = ["alice", "desk", "operator", "provider"]

API = "/api/v1"
PRESS = f"{API}/tickets/TCK-1008/followups"

NOTES = (
    "Call Rita at rita.private@example.com or +49 170 1234567; card 4111 1111 1111 1111, "
    "token sk-live-4f9a8b7c6d5e4f3a2b1c0d."
)
PRIVATE = ("rita.private", "1234567", "4111", "4f9a8b7c6d5e")


#: What the design promises of the JSON of one attempt.
RUN_RECEIPT = {
    *("run_id", "workflow", "workflow_run_id", "receipt_id", "replay_of", "attempt", "tool", "contract"),
    *("contract_sha256", "input_hash", "started_at", "finished_at", "status", "output", "error_code", "error_reason"),
    *("replayable", "actor", "on_behalf_of", "model_decision", "tool_result"),
}


# ── the article's, verbatim ──────────────────────────────────────────────────────────────────────────────────────


# fmt: off
@dataclass
class Receipt:
    run_id: str
    tool: str
    contract: str
    input_hash: str
    status: str
    replayable: bool
    error_code: str | None = None

def make_receipt(run_id, tool, contract, redacted_input, status,
                 replayable, error_code=None):
    digest = hashlib.sha256(
        json.dumps(redacted_input, sort_keys=True).encode()
    ).hexdigest()[:16]
    receipt = Receipt(run_id, tool, contract, digest, status,
                      replayable, error_code)
    return {**asdict(receipt), "finished_at": datetime.now(timezone.utc).isoformat()}  # noqa: UP017
# fmt: on


# ── who asks ─────────────────────────────────────────────────────────────────────────────────────────────────────


def client(user: User) -> Client:
    return Client(headers={"Authorization": f"Token {AuthToken.objects.create(user)[1]}", "host": "localhost"})


@pytest.fixture
def auditor(desk: Provider, settings: Any) -> User:
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    return person("ines", AUDITORS, is_staff=True)


@pytest.fixture
def audit(auditor: User) -> Client:
    return client(auditor)


@pytest.fixture
def console(auditor: User) -> Client:
    browser = Client(headers={"host": "localhost"})
    browser.force_login(auditor, backend="receipts_project.accounts.backends.RoleBackend")
    return browser


Press = Callable[..., dict[str, Any]]


@pytest.fixture
def press(alice: User) -> Press:
    lead = client(alice)

    def send(key: str = "checklist-1", notes: str = NOTES) -> dict[str, Any]:
        answer = lead.post(PRESS, {"notes": notes}, content_type="application/json", headers={"Idempotency-Key": key})
        told: dict[str, Any] = answer.json()
        return told

    return send


def run_receipts(audit: Client, receipt_id: str) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = audit.get(f"{API}/receipts/{receipt_id}/run-receipts").json()["results"]
    return shown


def exported(run_id: str, to: Path) -> dict[str, Any]:
    """File name → its JSON."""
    call_command("export", run_id, "--to", str(to), stdout=io.StringIO())
    return {path.name: json.loads(path.read_bytes()) for path in (to / run_id).rglob("*.json")}


# ── the run receipt ──────────────────────────────────────────────────────────────────────────────────────────────


class TestRunReceipt:
    def test_says_all_that_the_articles_says_with_the_same_digest(
        self, press: Press, audit: Client, desk: Provider
    ) -> None:
        desk.says(GOOD | {"ticket_id": "TCK-EVIL"})
        refused = press(notes="Write to rita@example.com, please.")
        (ours,) = run_receipts(audit, refused["receipt_id"])
        redacted = {"ticket_id": "TCK-1008", "notes": "Write to [e-mail], please."}
        theirs = make_receipt(
            ours["run_id"], "file_followup", "file_followup@1", redacted, "failed", ours["replayable"], "arg_mismatch"
        )
        assert theirs.keys() <= ours.keys()
        assert {name: ours[name] for name in theirs if name != "finished_at"} == {
            name: value for name, value in theirs.items() if name != "finished_at"
        }
        finished = datetime.fromisoformat(ours["finished_at"])
        assert 0 <= (datetime.fromisoformat(theirs["finished_at"]) - finished).total_seconds() < 60

    @pytest.mark.parametrize("draft", [GOOD, GOOD | {"ticket_id": "TCK-EVIL"}, "no JSON at all"])
    def test_has_every_key_of_the_design(self, press: Press, audit: Client, desk: Provider, draft: Any) -> None:
        desk.says(draft)
        (record,) = run_receipts(audit, press()["receipt_id"])
        assert set(record) == RUN_RECEIPT
        decision, result = record["model_decision"], record["tool_result"]
        assert {
            *("proposed", "gate", "model", "provider_host", "finish_reason", "mode"),
            *("prompt_sha256", "wire_schema_sha256", "calls", "usage"),
        } <= set(decision)
        assert set(result) == {"effect", "result_ref", "error"}
        assert len(decision["prompt_sha256"]) == len(decision["wire_schema_sha256"]) == 64
        assert (decision["calls"], decision["mode"], decision["model"]) == (1, "json_schema", "test-model")
        assert decision["usage"]["total_tokens"] == 12


# ── the six questions ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.processes
def test_1_can_i_identify_every_tool_call_belonging_to_one_run(desk: Provider, audit: Client, tmp_path: Path) -> None:
    """A scheduled workflow's run, and all that it opened, by one id: in the list, in the manifest, in a folder."""
    drafts_for_any(desk)
    tickets = stale_tickets(3)
    connection.close()
    command = [sys.executable, "manage.py", "run_workflow", "nightly_stale_tickets"]
    ended = subprocess.run(
        command, cwd=ROOT, env=environ(desk.url), capture_output=True, text=True, timeout=90, check=False
    )
    assert ended.returncode == 0, ended.stderr
    (run,) = audit.get(f"{API}/runs", {"workflow": "nightly_stale_tickets", "trigger": "command"}).json()["results"]
    listed = audit.get(f"{API}/receipts", {"run": run["run_id"]}).json()["results"]
    assert sorted(row["ticket_id"] for row in listed) == tickets
    ids = {row["receipt_id"] for row in listed}
    manifest = audit.get(f"{API}/runs/{run['run_id']}").json()
    assert {row["receipt_id"] for row in manifest["receipts"]} == ids
    files = exported(run["run_id"], tmp_path)
    records = [record for name, record in files.items() if name.startswith("receipt-")]
    assert {record["receipt_id"] for record in records} == ids
    assert {record["workflow_run_id"] for record in records} == {run["run_id"]}


def test_2_can_i_tell_a_model_decision_from_a_tool_result(
    press: Press, audit: Client, console: Client, desk: Provider
) -> None:
    filed = press()
    decision, result = filed["model_decision"], filed["tool_result"]
    assert not decision.keys() & result.keys()
    assert (decision["proposed"], decision["gate"]) == (GOOD, None)
    assert result == {"effect": "write", "result_ref": filed["result_ref"], "error": None}
    desk.says(GOOD | {"ticket_id": "TCK-EVIL"})
    refused = audit.get(f"{API}/receipts/{press('checklist-2')['receipt_id']}").json()
    assert refused["model_decision"]["proposed"]["ticket_id"] == "TCK-EVIL"
    assert refused["tool_result"]["result_ref"] is None
    page = console.get(f"/admin/receipts/receipt/{filed['receipt_id']}/change/").content.decode()
    assert page.index("Model decision: what the model proposed") < page.index("Tool result: what the tool did")


def test_3_are_private_inputs_redacted_before_logging(
    press: Press, audit: Client, console: Client, desk: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nowhere but in the ticket's own tables: no table, answer, page, file or log line, whatever became of it."""
    desk.says(GOOD | {"summary": NOTES})
    filed = press()
    desk.says(GOOD | {"ticket_id": "TCK-EVIL", "summary": NOTES})
    refused = press("checklist-2")
    desk.says(NOTES)
    garbled = press("checklist-3")
    desk.fails(500, {"error": {"message": NOTES}})
    broken = press("checklist-4")
    kept = [
        *every_table(but={"followups", "tickets", "messages", "members"}),
        *(LineFormatter().format(record) for record in caplog.records),
    ]
    for told in (filed, refused, garbled, broken):
        receipt_id = told["receipt_id"]
        run_id = audit.get(f"{API}/receipts/{receipt_id}").json()["run_id"]
        kept += [json.dumps(told), json.dumps(exported(run_id, tmp_path))]
        kept += [
            audit.get(f"{API}/receipts/{receipt_id}/{more}").content.decode() for more in ("events", "run-receipts")
        ]
        kept.append(console.get(f"/admin/receipts/receipt/{receipt_id}/change/").content.decode())
    for form in ("csv", "jsonl"):
        kept.append(b"".join(audit.get(f"{API}/receipts/export", {"format": form}).streaming_content).decode())
    everything = "\n".join(kept)
    assert "[e-mail]" in everything
    assert [private for private in PRIVATE if private in everything] == []


def every_table(*, but: set[str]) -> list[str]:
    """Each row of each table as JSON. Sealed inputs are among them: encrypted."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        tables = {name for (name,) in cursor.fetchall()}
        assert but | {"tool_receipts", "attempts", "audit_events", "runs", "sealed_inputs"} <= tables
        rows: list[str] = []
        for table in sorted(tables - but):
            cursor.execute(f'SELECT to_jsonb(t)::text FROM "{table}" t')
            rows += [row for (row,) in cursor.fetchall()]
        return rows


def test_4_is_the_contract_version_visible(press: Press, audit: Client, console: Client, tmp_path: Path) -> None:
    filed = press()
    contract, sha256 = "file_followup@1", filed["contract_sha256"]
    assert filed["contract"] == contract
    (record,) = run_receipts(audit, filed["receipt_id"])
    assert (record["contract"], record["contract_sha256"]) == (contract, sha256)
    assert audit.get(f"{API}/runs/{filed['run_id']}").json()["manifest"]["contracts"] == {contract: sha256}
    page = console.get(f"/admin/receipts/receipt/{filed['receipt_id']}/change/").content.decode()
    assert contract in page
    assert sha256 in page
    files = exported(filed["run_id"], tmp_path)
    assert files["manifest.json"]["manifest"]["contracts"] == {contract: sha256}
    assert files[f"receipt-{filed['receipt_id']}-attempt-1.json"]["contract"] == contract
    listed = b"".join(audit.get(f"{API}/receipts/export", {"format": "csv"}).streaming_content).decode()
    assert contract in listed


def test_5_are_side_effects_protected_by_idempotency(press: Press, audit: Client, alice: User, desk: Provider) -> None:
    first, second = press(), press()
    assert first["result_ref"] == second["result_ref"]
    assert press(notes="something else")["code"] == "idempotency_key_reused"
    missing = client(alice).post(PRESS, {"notes": NOTES}, content_type="application/json")
    assert (missing.status_code, missing.json()["code"]) == (400, "idempotency_key_required")
    assert len(audit.get(f"{API}/tickets/TCK-1008/followups").json()["results"]) == 1
    assert desk.calls == 1


def test_6_can_an_operator_reproduce_a_failure_without_guessing(
    press: Press, audit: Client, operator: User, desk: Provider
) -> None:
    """From the record to a new run of the same input under the same contract, linked to the one that failed."""
    desk.says(GOOD | {"assignee": "nobody"})
    failure = press()
    operate = client(operator)
    replay = f"{API}/receipts/{failure['receipt_id']}/replay"
    dry = operate.get(replay).json()
    assert (dry["replayable"], dry["contract"], dry["refusal"]) == (True, "file_followup@1", None)
    again = operate.post(replay, {"reason": "reproduce the refusal"}, content_type="application/json")
    assert again.status_code == 201
    new = again.json()
    assert new["replay_of"] == failure["receipt_id"]
    assert new["run_id"] != audit.get(f"{API}/receipts/{failure['receipt_id']}").json()["run_id"]
    before, after = (run_receipts(audit, receipt["receipt_id"])[0] for receipt in (failure, new))
    for name in ("input_hash", "contract", "contract_sha256", "error_code", "error_reason"):
        assert before[name] == after[name]
    assert before["model_decision"]["prompt_sha256"] == after["model_decision"]["prompt_sha256"]
    assert after["replay_of"] == failure["receipt_id"]
