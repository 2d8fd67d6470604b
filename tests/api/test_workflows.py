"""Workflows and their runs over REST: what is due, what is missing, how far a run is."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from receipts import ledger, runs, schedules
from receipts.errors import FillFailed
from receipts.models import Receipt, Run, Schedule
from receipts_project.accounts.models import User
from tests import factories
from tests.api.conftest import Api
from tests.flow.stale import stale_tickets
from tickets.workflows import NIGHTLY_STALE_TICKETS

WORKFLOWS = "/api/v1/workflows"


@pytest.fixture
def run(auditor: User) -> Run:
    """A run of five tickets, opened: one applied, one failed, three queued."""
    stale_tickets(5)
    run_id = runs.open_now(NIGHTLY_STALE_TICKETS)
    plan = runs.choose(run_id)
    assert plan
    assert runs.open_receipts(plan, plan.items) == []
    runs.end_opening(plan)
    first, second, *_rest = Receipt.objects.order_by("created_at")
    begun = [ledger.begin(receipt, 30) for receipt in (first, second)]
    assert begun[0]
    assert begun[1]
    context = ledger.context(factories.FILE_FOLLOWUP, first.subject)
    assert context
    ledger.apply(
        begun[0],
        factories.FILE_FOLLOWUP,
        factories.ARGUMENTS | {"ticket_id": first.subject},
        context,
        decision=factories.DECISION,
        lock_timeout_ms=2000,
        statement_timeout_ms=5000,
    )
    ledger.settle_failed(begun[1], FillFailed(reason="provider_timeout"), replayable=True)
    return Run.objects.get(pk=run_id)


class TestRun:
    def test_tells_how_far_it_is(self, api: Api, auditor: User, run: Run) -> None:
        progress = api(auditor).get(f"/api/v1/runs/{run.pk}").json()["progress"]
        (failure,) = progress.pop("failures")
        assert progress == {
            "planned": 5,
            "opened": 5,
            "applied": 1,
            "failed": 1,
            "retrying": 0,
            "pending": 3,
            "finished_at": None,
        }
        assert (failure["error_code"], failure["error_reason"]) == ("fill_failed", "provider_timeout")
        assert failure["receipts"] == 1
        assert failure["sentence"].endswith(".")

    def test_lists_the_receipts_that_it_opened(self, api: Api, auditor: User, run: Run) -> None:
        shown = api(auditor).get(f"/api/v1/runs/{run.pk}").json()
        assert [receipt["ticket_id"] for receipt in shown["receipts"]] == [f"TCK-{2001 + n}" for n in range(5)]
        listed = api(auditor).get(shown["links"]["receipts"]).json()["results"]
        assert {receipt["receipt_id"] for receipt in listed} == {r["receipt_id"] for r in shown["receipts"]}

    def test_its_receipts_are_filtered_like_all_others(self, api: Api, auditor: User, run: Run) -> None:
        failed = api(auditor).get("/api/v1/receipts", {"run": str(run.pk), "status": "failed"}).json()["results"]
        assert [receipt["ticket_id"] for receipt in failed] == ["TCK-2002"]

    def test_a_run_receipt_names_the_workflows_run(self, api: Api, auditor: User, run: Run) -> None:
        receipt = Receipt.objects.get(status="applied")
        (only,) = api(auditor).get(f"/api/v1/receipts/{receipt.pk}/run-receipts").json()["results"]
        assert (only["workflow_run_id"], only["actor"]) == (str(run.pk), "scheduler")

    def test_a_press_has_no_progress(self, api: Api, auditor: User, alice: User) -> None:
        receipt = factories.applied(alice)
        assert api(auditor).get(f"/api/v1/runs/{receipt.run_id}").json()["progress"] is None

    def test_a_lead_sees_neither_run_nor_receipts_of_it(self, api: Api, alice: User, run: Run) -> None:
        assert api(alice).get(f"/api/v1/runs/{run.pk}").status_code == 404
        assert api(alice).get("/api/v1/receipts", {"run": str(run.pk)}).json()["results"] == []


class TestWorkflows:
    def find(self, api: Api, user: User) -> dict[str, Any]:
        results = api(user).get(WORKFLOWS).json()["results"]
        found: dict[str, Any] = {row["name"]: row for row in results}
        return found

    def test_before_any_worker_has_seen_them(self, api: Api, auditor: User) -> None:
        found = self.find(api, auditor)
        assert list(found) == ["nightly_stale_tickets", "nightly_contact_review"]
        nightly = found["nightly_stale_tickets"]
        assert (nightly["cron"], nightly["zone"], nightly["tool"]) == ("0 3 * * *", "UTC", "file_followup")
        assert (nightly["since"], nightly["last_run"], nightly["missing"]) == (None, None, [])
        following = dt.datetime.fromisoformat(nightly["next_slot"])
        assert (following.hour, following.minute) == (3, 0)
        assert timezone.now() < following <= timezone.now() + dt.timedelta(days=1)

    def test_shows_the_last_run_and_what_is_missing(self, api: Api, auditor: User, run: Run) -> None:
        since = timezone.now() - dt.timedelta(days=3)
        Schedule.objects.create(workflow=run.workflow, cron="0 3 * * *", zone="UTC", since=since)
        nightly = self.find(api, auditor)["nightly_stale_tickets"]
        assert nightly["last_run"]["run_id"] == str(run.pk)
        assert nightly["last_run"]["progress"]["planned"] == 5
        missing = [dt.datetime.fromisoformat(slot) for slot in nightly["missing"]]
        assert missing == schedules.missing(NIGHTLY_STALE_TICKETS, timezone.now())
        assert 2 <= len(missing) <= 4

    def test_is_for_those_who_see_all_receipts(self, api: Api, alice: User, operator: User) -> None:
        assert api(alice).get(WORKFLOWS).status_code == 403
        assert api(operator).get(WORKFLOWS).status_code == 200
        assert api(None).get(WORKFLOWS).status_code == 401
