"""One run, told from its rows: how far it is, what failed and why, and what it was made of. Reads only."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL

from receipts import circuit, workflows
from receipts.explanations import Explanation, explain
from receipts.lifecycle import Status
from receipts.models import Receipt, Run, Trigger
from receipts.told import holds_others
from tickets.progress import Pace, Progress, pace_of, progress_of
from tickets.story import Wait, wait_for

#: What the list of a run's receipts can be narrowed to: in the URL, and in words.
SHOWN = {"": "All", Status.APPLIED: "Done", Status.FAILED: "Failed", Status.PENDING: "Open"}

#: What a run of one receipt is, by what started it.
SINGLE = {Trigger.PRESS: "A press", Trigger.REPLAY: "A replay"}

#: The form of a code or reason; rows of another version may hold names that this one does not know.
_NAME = re.compile(r"[a-z0-9_]{1,64}")

#: Characters of a contract's sha256 that tell versions apart.
DIGEST_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class RunStory:
    run: Run
    title: str
    about: str
    """What its workflow does, in one sentence; empty where this version does not hold it."""
    zone: str
    """Where the wall clock of its slot hangs."""
    progress: Progress | None
    """None: a run of one receipt."""
    pace: Pace | None
    """Only while it is live."""
    waits_for: Wait | None
    """The model provider, while it does not answer and receipts of the run wait for it."""
    manifest: list[tuple[str, list[str]]]

    @property
    def waiting(self) -> int:
        """Receipts of the plan that nobody has begun, opened or not."""
        if self.progress is None:
            return 0
        return self.progress.pending + self.progress.unopened - (self.pace.under_way if self.pace else 0)


def tell_run(run: Run, now: dt.datetime) -> RunStory:
    """Gather what is known of a run. Needs `run.actor` and `run.parent`."""
    progress = progress_of([run])[run.pk] if holds_others(run) else None
    return RunStory(
        run=run,
        title=title_of(run.workflow) if progress else SINGLE.get(Trigger(run.trigger), "One ticket of a run"),
        about=_about(run.workflow),
        zone=zone_of(run),
        progress=progress,
        pace=pace_of(progress, now) if progress and progress.live else None,
        waits_for=_waits_for(run, now) if progress and progress.live else None,
        manifest=manifest_lines(run.manifest),
    )


def _waits_for(run: Run, now: dt.datetime) -> Wait | None:
    """All receipts of a run call one tool, so one of those that wait speaks for the others."""
    held = Receipt.objects.filter(run__parent=run)
    waiting = held.filter(status=Status.PENDING, started_at=None).order_by().first()
    retrying = waiting or held.filter(status=Status.FAILED, next_attempt_at__isnull=False).order_by().first()
    return wait_for(circuit.waiting(retrying, now), now) if retrying else None


def title_of(workflow: str) -> str:
    """`nightly_stale_tickets` → `Nightly stale tickets`"""
    return workflow.replace("_", " ").capitalize()


def zone_of(run: Run) -> str:
    """The zone of the schedule when the run was opened: the workflow's own may have changed since."""
    return str(run.manifest.get("zone") or "UTC")


def _about(workflow: str) -> str:
    try:
        return workflows.registry.get(workflow).title
    except KeyError:
        return ""


# ── manifest ─────────────────────────────────────────────────────────────────────────────────────────────────────

#: Entries that have a name for people, in the order in which they are shown.
NAMED = {
    "app_version": "Version of the product",
    "contracts": "Contracts, with their sha256",
    "provider_host": "Provider",
    "model": "Model",
    "mode": "Mode",
    "budgets": "Budgets",
    "parameters": "Parameters",
    "cron": "Cron line",
    "zone": "Zone",
}


def manifest_lines(manifest: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """(name, values) of what the manifest holds. A run of another version may hold less."""
    return [(label, _values(name, manifest[name])) for name, label in NAMED.items() if manifest.get(name)]


def _values(name: str, value: Any) -> list[str]:
    if not isinstance(value, dict):
        return [str(value)]
    if name == "contracts":
        return [f"{contract} {str(digest)[:DIGEST_SHOWN]}…" for contract, digest in value.items()]
    return [f"{_words(key)} {_amount(amount)}{_unit(key)}" for key, amount in value.items()]


def _words(key: str) -> str:
    return key.removesuffix("_seconds").removesuffix("_ms").replace("_", " ")


def _amount(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _unit(key: str) -> str:
    return " s" if key.endswith("_seconds") else " ms" if key.endswith("_ms") else ""


# ── its receipts ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Narrowing:
    """Which of the run's receipts are listed. What cannot be meant counts as no narrowing: old links must not break."""

    status: str
    code: str
    reason: str

    @classmethod
    def asked(cls, query: Any) -> Narrowing:
        """From the parameters of an address."""
        status, code, reason = (query.get(name, "") for name in ("status", "code", "reason"))
        return cls(
            status=status if status in SHOWN else "",
            code=code if _NAME.fullmatch(code) else "",
            reason=reason if _NAME.fullmatch(reason) else "",
        )

    @property
    def why(self) -> Explanation | None:
        """The cause that it is narrowed to."""
        return explain(self.code, self.reason or None) if self.code else None

    def of(self, receipts: QuerySet[Receipt]) -> QuerySet[Receipt]:
        if self.code:
            alike = receipts.filter(status=Status.FAILED, error_code=self.code)
            return alike.filter(error_reason=self.reason) if self.reason else alike.filter(error_reason=None)
        return receipts.filter(status=self.status) if self.status else receipts


#: An array and not a join: for a page of an old run PostgreSQL would walk back over the index by time from today.
_HELD = "tool_receipts.run_id = ANY (ARRAY(SELECT id FROM runs WHERE parent_id = %s))"


def receipts_of(run: Run, visible: QuerySet[Receipt]) -> QuerySet[Receipt]:
    """The receipts of a press's run, or of the runs that a workflow's run holds; of those, what the reader may see."""
    if not holds_others(run):
        return visible.filter(run=run)
    return visible.filter(RawSQL(_HELD, [run.pk], output_field=BooleanField()))  # noqa: S611 - constant text
