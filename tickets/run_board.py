"""What the page of runs shows: each workflow with what is due and what is missing, and the runs, filtered and paged."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from receipts import schedules, workflows
from receipts.models import Receipt, Run, Schedule
from receipts.told import holds_others
from receipts.workflows import Workflow
from tickets.cadence import cadence
from tickets.progress import Progress, progress_of

#: Missing slots that a card names; the others it counts.
MISSING_SHOWN = 3

_NAME = re.compile(r"[a-z0-9_]{1,64}")


@dataclass(frozen=True, kw_only=True)
class Card:
    """One workflow and its schedule."""

    workflow: Workflow
    cadence: str | None
    """The cron line in words; None where it has to speak for itself."""
    watched: bool
    """Whether a worker has ever looked at this schedule: before that, nothing is owed."""
    next_slot: dt.datetime
    missing: list[dt.datetime]
    """The newest slots that are owed and have no run, newest first."""
    missing_more: int
    last: Progress | None


def cards(now: dt.datetime) -> list[Card]:
    """Every workflow, in the order of their declaration."""
    last_runs = {workflow.name: _last_run(workflow) for workflow in workflows.registry}
    told = progress_of(run for run in last_runs.values() if run)
    return [
        _card(workflow, now, last=told[run.pk] if (run := last_runs[workflow.name]) else None)
        for workflow in workflows.registry
    ]


def _card(workflow: Workflow, now: dt.datetime, *, last: Progress | None) -> Card:
    missing = schedules.missing(workflow, now, limit=schedules.LOOK_BACK)
    return Card(
        workflow=workflow,
        cadence=cadence(workflow.cron),
        watched=schedules.since(workflow) is not None,
        next_slot=schedules.next_slot(workflow.cron, workflow.time_zone, now),
        missing=missing[:MISSING_SHOWN],
        missing_more=len(missing[MISSING_SHOWN:]),
        last=last,
    )


def _last_run(workflow: Workflow) -> Run | None:
    return Run.objects.filter(workflow=workflow.name).order_by("-started_at").first()


def names() -> list[str]:
    """The workflows that have run or will: those of this version, and those that were once on a schedule."""
    known = [workflow.name for workflow in workflows.registry]
    return known + sorted(set(Schedule.objects.values_list("workflow", flat=True)) - set(known))


def matching(runs: QuerySet[Run], name: str, known: list[str]) -> QuerySet[Run]:
    """The runs of one workflow; without a name those of all `known` ones, which leaves single presses out."""
    return runs.filter(workflow=name) if _NAME.fullmatch(name) else runs.filter(workflow__in=known)


def with_progress(runs: Iterable[Run]) -> list[tuple[Run, Progress | None, Receipt | None]]:
    """Each run with how far it is; a press's run with its receipt instead. Two queries for a page."""
    runs = list(runs)
    told = progress_of(run for run in runs if holds_others(run))
    single = [run.pk for run in runs if run.pk not in told]
    found: Any = Receipt.objects.filter(run__in=single) if single else []
    receipts = {receipt.run_id: receipt for receipt in found}
    return [(run, told.get(run.pk), receipts.get(run.pk)) for run in runs]
