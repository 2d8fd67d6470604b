"""Receipts, run receipts and runs as JSON: plain dicts. No REST framework here, since the flow names what it leaves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.db.models.functions import Now

from receipts import ledger, schedules
from receipts.contracts import Effect, ReplayRule, registry
from receipts.explanations import explain
from receipts.lifecycle import LIVE, Status, outcome
from receipts.models import Attempt, Receipt, Run, SealedInput, Trigger
from receipts.workflows import Workflow

API = "/api/v1"

#: Where `attach_decisions` leaves a receipt's model decision, and the flow when it has just settled it.
DECISION = "model_decision"
#: Where `representable` leaves the status of another live receipt of the lineage.
LINEAGE = "lineage_live"
#: Where `attach_decisions` leaves whether the sealed input can still be opened; what was settled just now has its own.
INPUT_KEPT = "input_kept"


def instant(moment: dt.datetime | None) -> str | None:
    """ISO 8601 in UTC with microseconds and `Z`: sorts as text, and can be sent back to the filters unchanged."""
    if moment is None:
        return None
    return moment.astimezone(dt.UTC).isoformat(timespec="microseconds")[:-6] + "Z"


# ── receipts ─────────────────────────────────────────────────────────────────────────────────────────────────────


def represent(receipt: Receipt, attempt: Attempt | None = None) -> dict[str, Any]:
    """The Receipt JSON.

    Runs on every press, so no query and no field machinery: `receipt.user` has to be loaded, and the model decision
    comes from `attempt` or from what `attach_decisions` left on the row.
    """
    refusal = replay_refusal(receipt)
    came_to = outcome(receipt.status, receipt.retryable)
    return {
        "receipt_id": str(receipt.id),
        "run_id": str(receipt.run_id),
        "replay_of": str(receipt.replay_of_id) if receipt.replay_of_id else None,
        "tool": receipt.tool_name,
        "contract": receipt.contract,
        "contract_sha256": receipt.contract_sha256,
        "ticket_id": receipt.subject,
        "status": str(receipt.status),
        "outcome": came_to.value if came_to else None,
        "http_status": receipt.http_status,
        "error_code": receipt.error_code,
        "error_reason": receipt.error_reason,
        "arguments": receipt.arguments_json,
        "result_ref": receipt.result_ref,
        "input_hash": receipt.input_hash,
        "attempt": receipt.attempt,
        "context_moved": receipt.context_moved,
        "replayable": refusal is None,
        "replay_refusal": refusal,
        "user": receipt.user.username,
        "on_behalf_of": receipt.on_behalf_of.username if receipt.on_behalf_of else None,
        "created_at": instant(receipt.created_at),
        "deadline_at": instant(receipt.deadline_at),
        "settled_at": instant(receipt.settled_at),
        "applied_at": instant(receipt.applied_at),
        "overdue": receipt.overdue,
        "model_decision": attempt.model_decision if attempt else receipt.__dict__.get(DECISION),
        "tool_result": _tool_result(receipt, attempt),
        "links": links(receipt),
    }


def _tool_result(receipt: Receipt, attempt: Attempt | None) -> dict[str, Any] | None:
    """What the attempt's row holds, from the receipt where nobody has read the attempt; None while pending."""
    if attempt is not None:
        kept: dict[str, Any] = attempt.tool_result
        return kept
    if receipt.status == Status.PENDING:
        return None
    error = {"code": receipt.error_code, "reason": receipt.error_reason} if receipt.error_code else None
    output = {} if receipt.output is None else {"output": receipt.output}
    return {"effect": str(receipt.effect), "result_ref": receipt.result_ref, "error": error, **output}


def links(receipt: Receipt) -> dict[str, str]:
    """Where to go from here, as paths of this host."""
    own = f"{API}/receipts/{receipt.id}"
    return {
        "self": own,
        "events": f"{own}/events",
        "run_receipts": f"{own}/run-receipts",
        "retry": f"{own}/retry",
        "cancel": f"{own}/cancel",
        "replay": f"{own}/replay",
        "run": f"{API}/runs/{receipt.run_id}",
        "ticket": f"{API}/tickets/{receipt.subject}",
        "page": f"/receipts/{receipt.id}",
    }


def replay_refusal(receipt: Receipt) -> str | None:
    """Why a replay of this receipt would be refused, by the facts on the row; None: nothing here speaks against it.

    The replay itself asks again under lock; this is what lists and pages say. Reads are exempt from the rule of one
    live receipt a lineage.
    """
    write = receipt.effect != Effect.READ
    if receipt.status == Status.PENDING:
        return "in_flight"
    if write and receipt.status == Status.APPLIED:
        return "applied_in_lineage"
    try:
        tool = registry.get(receipt.tool_name, receipt.contract_version)
    except KeyError:
        return "contract_gone"
    if tool.schema_sha256 != receipt.contract_sha256:
        return "contract_gone"
    if tool.replay_rule == ReplayRule.NEVER or receipt.error_code == "outcome_unknown":
        return "not_replayable"
    if write and (live := receipt.__dict__.get(LINEAGE)):
        return "applied_in_lineage" if live == Status.APPLIED else "in_flight"
    if not receipt.__dict__.get(INPUT_KEPT, True):
        return "input_expired"
    return None


def representable(rows: QuerySet[Receipt]) -> QuerySet[Receipt]:
    """The same receipts with all that `represent` needs: people, and another live receipt of the lineage."""
    live = Receipt.objects.filter(root_id=OuterRef("root_id"), status__in=LIVE).exclude(pk=OuterRef("pk"))
    return rows.select_related("user", "on_behalf_of").annotate(**{LINEAGE: Subquery(live.values("status")[:1])})


def attach_decisions(receipts: Sequence[Receipt]) -> None:
    """Leave each receipt's model decision on it, its tool's output, and whether its input is kept: one query a page.

    Only of the current attempt: while attempt 2 runs, attempt 1's decision belongs to its run receipt.
    """
    missing = {r.id: r for r in receipts if DECISION not in r.__dict__}
    for receipt in missing.values():
        receipt.__dict__[DECISION] = None
    settled = [r.id for r in missing.values() if r.status != Status.PENDING]
    if not settled:
        return
    sealed = SealedInput.objects.filter(receipt_id=OuterRef("receipt_id"), expires_at__gt=Now())
    rows = Attempt.objects.filter(receipt_id__in=settled).annotate(kept=Exists(sealed))
    for receipt_id, number, decision, result, kept in rows.values_list(
        "receipt_id", "attempt", "model_decision", "tool_result", "kept"
    ):
        receipt = missing[receipt_id]
        receipt.__dict__[INPUT_KEPT] = kept
        if receipt.attempt == number:
            receipt.__dict__[DECISION] = decision
            receipt.output = result.get("output")


# ── run receipts and runs ────────────────────────────────────────────────────────────────────────────────────────


def run_receipt(attempt: Attempt) -> dict[str, Any]:
    """The run receipt of one attempt. Needs `attempt.receipt` with `run`, `user`, `on_behalf_of`, and `actor`."""
    receipt, run = attempt.receipt, attempt.receipt.run
    return {
        "run_id": str(receipt.run_id),
        "workflow": run.workflow,
        "workflow_run_id": str(run.parent_id) if run.parent_id else None,
        "receipt_id": str(receipt.id),
        "replay_of": str(receipt.replay_of_id) if receipt.replay_of_id else None,
        "attempt": attempt.attempt,
        "tool": receipt.tool_name,
        "contract": receipt.contract,
        "contract_sha256": receipt.contract_sha256,
        "input_hash": receipt.input_hash,
        "started_at": instant(attempt.started_at),
        "finished_at": instant(attempt.finished_at),
        "status": str(attempt.status),
        "output": attempt.tool_result.get("result_ref"),
        "error_code": attempt.error_code,
        "error_reason": attempt.error_reason,
        "replayable": attempt.replayable,
        "actor": attempt.actor.username,
        "on_behalf_of": receipt.on_behalf_of.username if receipt.on_behalf_of else None,
        "model_decision": attempt.model_decision,
        "tool_result": attempt.tool_result,
    }


def run_summary(run: Run) -> dict[str, Any]:
    """A run without its receipts. Needs `run.actor`."""
    return {
        "run_id": str(run.id),
        "workflow": run.workflow,
        "trigger": str(run.trigger),
        "parent_run_id": str(run.parent_id) if run.parent_id else None,
        "actor": run.actor.username,
        "slot": instant(run.slot),
        "started_at": instant(run.started_at),
        "finished_at": instant(run.finished_at),
        "manifest": run.manifest,
        "links": {"self": f"{API}/runs/{run.id}", "receipts": f"{API}/receipts?run={run.id}"},
    }


def run_json(run: Run, receipts: Iterable[Receipt]) -> dict[str, Any]:
    """The manifest of a run: the context that travels with it, how far it is, and what the reader may see of it."""
    progress = run_progress(run) if holds_others(run) else None
    return run_summary(run) | {"progress": progress, "receipts": [_listed(receipt) for receipt in receipts]}


def holds_others(run: Run) -> bool:
    """Whether the run is one that opens receipts in runs of their own: a workflow's, not a press's."""
    by_workflow = run.parent_id is None and run.trigger in (Trigger.SCHEDULE, Trigger.COMMAND)
    return by_workflow or run.planned is not None


def run_progress(run: Run) -> dict[str, Any]:
    """How far a workflow's run is, now: one query. `run` as it was read; its receipts are counted anew.

    `planned` is empty until it has chosen. `pending` wait or are being drafted, `retrying` failed and are continued by
    the system, `failed` need somebody; what they failed with is in `failures`, the most frequent first.
    """
    counts = ledger.counts_of(run.pk)
    tally = dict.fromkeys(("applied", "failed", "retrying", "pending"), 0)
    failures = []
    for count in counts:
        tally["retrying" if count.retrying else str(count.status)] += count.receipts
        if count.error_code:
            failures.append(
                {
                    "error_code": count.error_code,
                    "error_reason": count.error_reason,
                    "sentence": explain(count.error_code, count.error_reason).sentence,
                    "retrying": count.retrying,
                    "receipts": count.receipts,
                }
            )
    return {
        "planned": run.planned,
        "opened": sum(tally.values()),
        **tally,
        "finished_at": instant(run.finished_at),
        "failures": failures,
    }


def workflow_json(workflow: Workflow, now: dt.datetime) -> dict[str, Any]:
    """A workflow with its next slot, its last run and the slots that are owed and have no run."""
    cron, zone = workflow.cron, workflow.time_zone
    last = Run.objects.select_related("actor").filter(workflow=workflow.name).order_by("-started_at").first()
    return {
        "name": workflow.name,
        "title": workflow.title,
        "tool": workflow.tool,
        "cron": cron,
        "zone": zone,
        "since": instant(schedules.since(workflow)),
        "next_slot": instant(schedules.next_slot(cron, zone, now)),
        "last_run": run_summary(last) | {"progress": run_progress(last)} if last else None,
        "missing": [instant(slot) for slot in schedules.missing(workflow, now)],
        "links": {"runs": f"{API}/runs?workflow={workflow.name}"},
    }


def _listed(receipt: Receipt) -> dict[str, Any]:
    came_to = outcome(receipt.status, receipt.retryable)
    return {
        "receipt_id": str(receipt.id),
        "ticket_id": receipt.subject,
        "contract": receipt.contract,
        "status": str(receipt.status),
        "outcome": came_to.value if came_to else None,
        "error_code": receipt.error_code,
        "error_reason": receipt.error_reason,
        "result_ref": receipt.result_ref,
        "attempt": receipt.attempt,
    }
