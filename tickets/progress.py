"""How far a workflow's run is, for people: counts, what they amount to, and how long it may still take.

The counts come from the rows alone: "filed" is said of `applied` receipts, "not filed" of failed ones that the system
does not continue by itself.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Count, Max, Min, Q

from receipts.explanations import Explanation, explain
from receipts.ledger.runs import Count as Alike
from receipts.ledger.runs import counts_of_each
from receipts.lifecycle import Status
from receipts.models import Receipt, Run
from tickets.words import Standing, of_tool

#: The stretch whose pace the estimate assumes to go on.
PACE_WINDOW = dt.timedelta(minutes=1)
#: A run that has work and in which nothing has moved for so long may have no worker: an attempt ends within 30 s.
STALLED_AFTER = dt.timedelta(minutes=2)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Receipts that failed alike."""

    code: str
    reason: str | None
    why: Explanation
    receipts: int
    retrying: int
    """How many of them the system continues by itself."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The counts of one run as they stood when they were read."""

    run: Run
    did: str
    """`filed`, `checked`: the word for what its tool does, and for that it did not."""
    did_not: str
    applied: int
    failed: int
    retrying: int
    pending: int
    causes: Sequence[Cause]

    @property
    def planned(self) -> int:
        """What the run set out to open; before it has chosen, what there is."""
        return self.opened if self.run.planned is None else self.run.planned

    @property
    def opened(self) -> int:
        return self.applied + self.failed + self.retrying + self.pending

    @property
    def settled(self) -> int:
        return self.applied + self.failed

    @property
    def unopened(self) -> int:
        return max(0, self.planned - self.opened)

    @property
    def live(self) -> bool:
        """Whether its numbers may still change by themselves."""
        return self.run.finished_at is None or bool(self.pending or self.retrying)

    @property
    def standing(self) -> Standing:
        """Where the run stands, with the icon of the press that stands alike."""
        if self.run.finished_at is None:
            return self._under_way
        if self.run.planned is None:
            return Standing(name="not_filed", words="Ended before it had chosen")
        if self.live:
            return Standing(name="drafting", words="Finished, but some are being tried again")
        if self.unopened:
            return Standing(name="not_filed", words="Ended before all were begun")
        if not self.planned:
            return Standing(name="complete", words="Finished, nothing to do")
        if self.failed:
            return Standing(name="not_filed", words=f"Finished, some {self.did_not}")
        return Standing(name="filed", words=f"Finished, all {self.did}")

    @property
    def _under_way(self) -> Standing:
        if self.run.planned is None:
            return Standing(name="checking", words="Choosing tickets")
        if self.retrying and not self.pending and not self.unopened:
            return Standing(name="queued", words="Waiting to try again")
        return Standing(name="drafting", words="Under way")

    @property
    def summary(self) -> str:
        """`38 of 40 filed · 2 not filed`"""
        if not self.planned:
            return "Nothing chosen yet" if self.run.planned is None else "No ticket needed it"
        parts = [f"{self.applied:,} of {self.planned:,} {self.did}"]
        parts += [f"{self.failed:,} {self.did_not}"] if self.failed else []
        parts += [f"{self.retrying:,} to be tried again"] if self.retrying else []
        waiting = self.pending + self.unopened
        if waiting:
            parts.append(f"{waiting:,} {'never begun' if self.unopened and not self.live else 'waiting'}")
        return " · ".join(parts)


def progress_of(runs: Iterable[Run]) -> dict[uuid.UUID, Progress]:
    """How far each run is, in one query whatever they hold."""
    by_id = {run.pk: run for run in runs}
    if not by_id:
        return {}
    return {run_id: _progress(by_id[run_id], counts) for run_id, counts in counts_of_each(by_id).items()}


def _progress(run: Run, counts: list[Alike]) -> Progress:
    tally = dict.fromkeys(("applied", "failed", "retrying", "pending"), 0)
    for count in counts:
        tally["retrying" if count.retrying else count.status] += count.receipts
    said = of_tool(tool_of(run))
    return Progress(run=run, did=said.done.lower(), did_not=said.undone.lower(), causes=_causes(counts), **tally)


def tool_of(run: Run) -> str:
    """The tool that a run calls: a workflow's manifest names it, a press's run is called like its tool."""
    return str(run.manifest.get("tool", run.workflow))


def _causes(counts: list[Alike]) -> list[Cause]:
    """The most frequent first. What is retried and what is not have one cause, and are told together."""
    alike: dict[tuple[str, str | None], list[Alike]] = {}
    for count in counts:
        if count.error_code:
            alike.setdefault((count.error_code, count.error_reason), []).append(count)
    causes = [
        Cause(
            code=code,
            reason=reason,
            why=explain(code, reason),
            receipts=sum(count.receipts for count in found),
            retrying=sum(count.receipts for count in found if count.retrying),
        )
        for (code, reason), found in alike.items()
    ]
    return sorted(causes, key=lambda cause: -cause.receipts)


# ── how fast ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How a run has moved lately."""

    under_way: int
    """Pending receipts that a worker has begun."""
    next_try: dt.datetime | None
    """When the system continues the first of those that failed; None: none, or it is due."""
    seconds_left: int | None
    """None: nothing to go by."""
    still_since: dt.datetime | None
    """Since when nothing has moved, where that is suspicious."""


def pace_of(progress: Progress, now: dt.datetime) -> Pace:
    """Read from the run's receipts in one query."""
    run = progress.run
    begun = max(run.started_at, now - PACE_WINDOW)
    awaited = Q(status=Status.FAILED, next_attempt_at__gt=now)
    moved = Receipt.objects.filter(run__parent=run).aggregate(
        under_way=Count("pk", filter=Q(status=Status.PENDING, started_at__isnull=False)),
        settled=Count("pk", filter=Q(settled_at__gt=begun) & ~awaited),
        next_try=Min("next_attempt_at", filter=awaited),
        last_try=Max("next_attempt_at", filter=awaited),
        last_settled=Max("settled_at"),
        last_begun=Max("started_at"),
    )
    waits = [(moved["last_try"] - now).total_seconds()] if moved["last_try"] else []
    left = progress.planned - progress.settled
    if moved["settled"] and left:
        waits.append(left * (now - begun).total_seconds() / moved["settled"])
    last = max(filter(None, (run.started_at, moved["last_settled"], moved["last_begun"])))
    still = progress.live and not moved["next_try"] and now - last > STALLED_AFTER
    return Pace(
        under_way=moved["under_way"],
        next_try=moved["next_try"],
        seconds_left=math.ceil(max(waits)) if waits and moved["settled"] else None,
        still_since=last if still else None,
    )
