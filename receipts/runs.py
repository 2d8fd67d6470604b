"""A workflow at work: open its run when a slot has come, choose the subjects, open a receipt for each, see the end.

Every step may be repeated and may die anywhere: a slot has one run, a subject has one key in it, and a minute later the
tick of any worker picks up what was left. An interrupted run is continued until its workflow's next one has begun, or
its jobs have failed for good some times: then it ends as it stands, and its event says so.
"""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings

from receipts import contracts, flow, ledger, schedules, workflows
from receipts.errors import IdempotencyKeyReused, InvalidRequest, NotFound, ReceiptsError
from receipts.jobs import enqueue_run, failures_of_run, is_run_enqueued
from receipts.manifest import manifest
from receipts.models import Receipt, Run, Trigger, Verb
from receipts.permissions import FILE
from receipts.workflows import Item, Workflow

log = logging.getLogger(__name__)

#: Runs of one workflow that may be unfinished at once and are looked after: far more than the rules let happen.
UNFINISHED_MAX = 50
#: Jobs of one run that fail for good, each after its own few tries and a minute after the last, until the run is given
#: up: a workflow that cannot choose tonight is mended by people, and its next slot chooses anew.
FAILED_JOBS_MAX = 5


# ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────────


def tick(now: dt.datetime) -> list[uuid.UUID]:
    """Open the runs that are due, and look after those that are under way. The runs that were opened here.

    One workflow's trouble is logged and keeps no other from its slot.
    """
    opened = []
    for workflow in workflows.registry:
        try:
            run_id = open_due(workflow, now)
            opened += [run_id] if run_id else []
            for run in _unfinished(workflow):
                look_after(run)
        except Exception:
            log.exception("the schedule of %s", workflow.name)
    return opened


def open_due(workflow: Workflow, now: dt.datetime) -> uuid.UUID | None:
    """Open the run of the slot that is due. None: none is, or another scheduler was first."""
    slot = schedules.due_slot(workflow, now)
    return None if slot is None else _open(workflow, Trigger.SCHEDULE, slot)


def open_now(workflow: Workflow) -> uuid.UUID:
    """Open a run outside the schedule, for a command. It takes no slot."""
    run_id = _open(workflow, Trigger.COMMAND, None)
    assert run_id is not None  # noqa: S101 - only a slot can be taken
    return run_id


def _open(workflow: Workflow, trigger: Trigger, slot: dt.datetime | None) -> uuid.UUID | None:
    return ledger.open_run(
        workflow=workflow.name,
        trigger=trigger.value,
        actor_id=workflows.scheduler().pk,
        manifest=_manifest(workflow, slot),
        slot=slot,
        enqueue=lambda run_id: enqueue_run(run_id, workflow.name),
    )


def _manifest(workflow: Workflow, slot: dt.datetime | None) -> dict[str, Any]:
    tool = contracts.registry.current(workflow.tool, settings.CONTRACTS)
    return manifest(tool) | {
        "workflow": workflow.name,
        "tool": workflow.tool,
        "cron": workflow.cron,
        "zone": workflow.time_zone,
        "slot": slot.isoformat() if slot else None,
        "parameters": dict(workflow.parameters()),
    }


# ── carrying out ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run, and the subjects that it has no receipt for yet."""

    run: Run
    workflow: Workflow
    user: Any
    """The service user, with its permissions read."""
    choice: int
    """Which choice of the workflow this is: a later one ends it."""
    items: Sequence[Item]


def choose(run_id: uuid.UUID) -> Plan | None:
    """Choose the subjects of a run, and say how many. None: it has ended, or its workflow is not held here.

    A run that was interrupted chooses again, as of the same moment: what it has opened stays, the rest follows.
    """
    run = Run.objects.filter(pk=run_id, finished_at__isnull=True).first()
    if run is None:
        return None
    try:
        workflow = workflows.registry.get(run.workflow)
    except KeyError:
        log.warning("run %s waits for the workflow %s, which is not held here", run.pk, run.workflow)
        return None
    if _superseded(run):
        ledger.finish_run(run.pk, as_it_stands=True)
        return None
    choice = ledger.choose_anew(run.workflow)
    opened = set(Receipt.objects.filter(run__parent=run).values_list("subject", flat=True))
    items = [item for item in workflow.subjects(run.started_at) if item.subject not in opened]
    if not ledger.plan_run(run.pk, len(opened) + len(items)):
        return None
    user = workflows.scheduler()
    user.has_perm(FILE)  # read once, for all that follow
    return Plan(run=run, workflow=workflow, user=user, choice=choice, items=items)


def open_receipts(plan: Plan, items: Iterable[Item]) -> list[ReceiptsError]:
    """Open a queued receipt with its job for each item, each in its own transaction. What could not be opened, as said.

    A subject that is gone meanwhile is left out. Raises: PermissionDenied, DatabaseUnavailable, and the run waits;
    ledger.Outdated, when a worker that was held up comes back to a choice that was made again since.
    """
    refused: list[ReceiptsError] = []
    for item in items:
        try:
            flow.queue(
                tool=plan.workflow.tool,
                user=plan.user,
                subject=item.subject,
                key=key(plan.run, item.subject),
                body=item.body,
                trigger=Trigger(plan.run.trigger),
                parent_run_id=plan.run.pk,
                beside=partial(ledger.must_be_chosen, plan.run.workflow, plan.choice),
            )
        except NotFound:
            log.warning("run %s: %s is gone", plan.run.pk, item.subject)
        except (
            InvalidRequest,
            IdempotencyKeyReused,
        ) as error:  # the workflow's fault, of this item
            log.error("run %s: %s was refused: %s", plan.run.pk, item.subject, error.detail)
            refused.append(error)
    return refused


def key(run: Run, subject: str) -> str:
    """`nightly_stale_tickets:20260329T010000Z:TCK-1008`; without a slot the run's id stands there."""
    mark = f"{run.slot.astimezone(dt.UTC):%Y%m%dT%H%M%SZ}" if run.slot else str(run.pk)
    return f"{run.workflow}:{mark}:{subject}"


def end_opening(plan: Plan) -> None:
    """All that could be opened is: those that were gone are planned no longer, and an empty run ends here."""
    ledger.plan_run(plan.run.pk, _opened(plan.run))
    ledger.finish_run(plan.run.pk)


# ── looking after ────────────────────────────────────────────────────────────────────────────────────────────────


def look_after(run: Run) -> None:
    """End a run whose receipts are settled for good; have one continued that stopped before all were opened."""
    superseded = _superseded(run)
    if ledger.finish_run(run.pk, as_it_stands=superseded) or superseded:
        return
    if (run.planned is not None and _opened(run) >= run.planned) or is_run_enqueued(run.pk):
        return
    failures = failures_of_run(run.pk)
    if failures >= FAILED_JOBS_MAX:
        _give_up(run, failures)
        return
    log.warning("run %s of %s is continued", run.pk, run.workflow)
    enqueue_run(run.pk, run.workflow)


def _give_up(run: Run, failures: int) -> None:
    """End a run whose opening fails each time, as soon as what it has opened is settled. Meanwhile nothing more is."""
    event = ledger.Event(verb=Verb.GIVE_UP, actor_id=None, detail={"failed_jobs": failures})
    if ledger.finish_run(run.pk, as_it_stands=True, event=event):
        log.error("run %s of %s is given up: its job failed %d times for good", run.pk, run.workflow, failures)


def _unfinished(workflow: Workflow) -> list[Run]:
    rows = Run.objects.filter(workflow=workflow.name, finished_at__isnull=True)
    return list(rows.order_by("-started_at")[:UNFINISHED_MAX])


def _superseded(run: Run) -> bool:
    """Whether its workflow's next slot has begun its own run, which chooses anew."""
    later = Run.objects.filter(workflow=run.workflow, trigger=Trigger.SCHEDULE, started_at__gt=run.started_at)
    return later.exists()


def _opened(run: Run) -> int:
    return Receipt.objects.filter(run__parent=run).count()
