"""Receipts, run receipts and runs as JSON: plain dicts on the way out, DRF serializers to declare them for OpenAPI."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from receipts.contracts import Effect, ReplayRule, registry
from receipts.errors import BY_CODE, REASONS
from receipts.lifecycle import Outcome, Status, outcome
from receipts.models import Attempt, Receipt, Run, Trigger

API = "/api/v1"

#: Where `attach_decisions` leaves a receipt's model decision, and the flow when it has just settled it.
DECISION = "model_decision"
#: Where a list's query leaves the status of another live receipt of the lineage (see `receipts.api`).
LINEAGE = "lineage_live"


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
    now = timezone.now()
    refusal = replay_refusal(receipt, now)
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
        "replayable": refusal is None,
        "replay_refusal": refusal,
        "user": receipt.user.username,
        "on_behalf_of": receipt.on_behalf_of.username if receipt.on_behalf_of else None,
        "created_at": instant(receipt.created_at),
        "deadline_at": instant(receipt.deadline_at),
        "settled_at": instant(receipt.settled_at),
        "applied_at": instant(receipt.applied_at),
        "overdue": receipt.is_overdue(now),
        "model_decision": attempt.model_decision if attempt else receipt.__dict__.get(DECISION),
        "links": links(receipt),
    }


def links(receipt: Receipt) -> dict[str, str]:
    """Where to go from here, as paths of this host."""
    own = f"{API}/receipts/{receipt.id}"
    return {
        "self": own,
        "events": f"{own}/events",
        "run_receipts": f"{own}/run-receipts",
        "retry": f"{own}/retry",
        "run": f"{API}/runs/{receipt.run_id}",
        "ticket": f"{API}/tickets/{receipt.subject}",
        "page": f"/receipts/{receipt.id}",
    }


def replay_refusal(receipt: Receipt, now: dt.datetime) -> str | None:
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
    if tool.replay_rule == ReplayRule.NEVER or receipt.error_code == "outcome_unknown":
        return "not_replayable"
    if write and (live := receipt.__dict__.get(LINEAGE)):
        return "applied_in_lineage" if live == Status.APPLIED else "in_flight"
    if now - receipt.created_at > dt.timedelta(days=settings.SEALED_INPUT_DAYS):
        return "input_expired"
    return None


def attach_decisions(receipts: Sequence[Receipt]) -> None:
    """Leave each receipt's model decision on it: one query for a whole page.

    Only of the current attempt: while attempt 2 runs, attempt 1's decision belongs to its run receipt.
    """
    missing = {r.id: r for r in receipts if DECISION not in r.__dict__}
    for receipt in missing.values():
        receipt.__dict__[DECISION] = None
    settled = [r.id for r in missing.values() if r.status != Status.PENDING]
    if not settled:
        return
    rows = Attempt.objects.filter(receipt_id__in=settled).values_list("receipt_id", "attempt", "model_decision")
    for receipt_id, number, decision in rows:
        if missing[receipt_id].attempt == number:
            missing[receipt_id].__dict__[DECISION] = decision


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
    """The manifest of a run: the context that travels with it, and its receipts that the reader may see."""
    return run_summary(run) | {"receipts": [_listed(receipt) for receipt in receipts]}


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


# ── the same shapes, declared ────────────────────────────────────────────────────────────────────────────────────
# Only for the OpenAPI schema; a test holds their keys to those of the functions above.

STATUSES = [(s.value, s.value) for s in Status]
OUTCOMES = [(o.value, o.value) for o in Outcome]
JSON_OBJECT = {"type": "object", "additionalProperties": {}}


@extend_schema_field(JSON_OBJECT)
class ObjectField(serializers.JSONField):
    """Some JSON object."""


class LinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()
    events = serializers.CharField()
    run_receipts = serializers.CharField()
    retry = serializers.CharField(help_text="POST")
    run = serializers.CharField()
    ticket = serializers.CharField()
    page = serializers.CharField()


class ReceiptSerializer(serializers.Serializer[Any]):
    """The durable row of one tool call."""

    receipt_id = serializers.UUIDField()
    run_id = serializers.UUIDField()
    replay_of = serializers.UUIDField(allow_null=True)
    tool = serializers.CharField()
    contract = serializers.CharField(help_text="`name@version`")
    contract_sha256 = serializers.CharField()
    ticket_id = serializers.CharField()
    status = serializers.ChoiceField(choices=STATUSES)
    outcome = serializers.ChoiceField(choices=OUTCOMES, allow_null=True, help_text="null while pending")
    http_status = serializers.IntegerField(allow_null=True)
    error_code = serializers.CharField(allow_null=True)
    error_reason = serializers.CharField(allow_null=True)
    arguments = ObjectField(help_text="validated and redacted; empty until then")
    result_ref = serializers.CharField(allow_null=True, help_text="`FUP-…`")
    input_hash = serializers.CharField()
    attempt = serializers.IntegerField()
    replayable = serializers.BooleanField()
    replay_refusal = serializers.CharField(allow_null=True)
    user = serializers.CharField()
    on_behalf_of = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    deadline_at = serializers.DateTimeField()
    settled_at = serializers.DateTimeField(allow_null=True)
    applied_at = serializers.DateTimeField(allow_null=True)
    overdue = serializers.BooleanField()
    model_decision = ObjectField(allow_null=True, help_text="what the model proposed and how it was judged")
    links = LinksSerializer()


class RunReceiptSerializer(serializers.Serializer[Any]):
    """One attempt, as it is exported."""

    run_id = serializers.UUIDField()
    workflow = serializers.CharField()
    workflow_run_id = serializers.UUIDField(allow_null=True)
    receipt_id = serializers.UUIDField()
    replay_of = serializers.UUIDField(allow_null=True)
    attempt = serializers.IntegerField()
    tool = serializers.CharField()
    contract = serializers.CharField()
    contract_sha256 = serializers.CharField()
    input_hash = serializers.CharField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField()
    status = serializers.ChoiceField(choices=OUTCOMES)
    output = serializers.CharField(allow_null=True)
    error_code = serializers.CharField(allow_null=True)
    error_reason = serializers.CharField(allow_null=True)
    replayable = serializers.BooleanField()
    actor = serializers.CharField()
    on_behalf_of = serializers.CharField(allow_null=True)
    model_decision = ObjectField(allow_null=True)
    tool_result = ObjectField()


class RunReceiptListSerializer(serializers.Serializer[Any]):
    """All attempts of a receipt, oldest first; never more than one page."""

    results = RunReceiptSerializer(many=True)
    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)


class RunLinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()
    receipts = serializers.CharField()


class RunSummarySerializer(serializers.Serializer[Any]):
    """One execution of a workflow."""

    run_id = serializers.UUIDField()
    workflow = serializers.CharField()
    trigger = serializers.ChoiceField(choices=Trigger.choices)
    parent_run_id = serializers.UUIDField(allow_null=True)
    actor = serializers.CharField()
    slot = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    manifest = ObjectField()
    links = RunLinksSerializer()


class ListedReceiptSerializer(serializers.Serializer[Any]):
    """A receipt as its run's manifest lists it."""

    receipt_id = serializers.UUIDField()
    ticket_id = serializers.CharField()
    contract = serializers.CharField()
    status = serializers.ChoiceField(choices=STATUSES)
    outcome = serializers.ChoiceField(choices=OUTCOMES, allow_null=True)
    error_code = serializers.CharField(allow_null=True)
    error_reason = serializers.CharField(allow_null=True)
    result_ref = serializers.CharField(allow_null=True)
    attempt = serializers.IntegerField()


class RunSerializer(RunSummarySerializer):
    """A run with its receipts: the manifest."""

    receipts = ListedReceiptSerializer(many=True)


class EventSerializer(serializers.Serializer[Any]):
    """One narration event."""

    event = serializers.CharField()
    data = ObjectField()  # type: ignore[assignment]  # the wire's name


class ProblemSerializer(serializers.Serializer[Any]):
    """A refusal or failure, RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.ChoiceField(choices=sorted(BY_CODE))
    retryable = serializers.BooleanField()
    owner = serializers.CharField()
    next_step = serializers.CharField()
    reason = serializers.ChoiceField(choices=sorted(REASONS), required=False)
    reason_detail = serializers.CharField(required=False)
    receipt_id = serializers.UUIDField(required=False)
    fields = serializers.DictField(child=serializers.CharField(), required=False)  # type: ignore[assignment]
