"""When a workflow's slots are. A slot is an instant in UTC; the cron line names it on the wall clock of a zone.

The rule, where the wall clock jumps:
- a time that the clock skips is a slot at the first instant after the gap;
- a time that the clock shows twice is a slot the first time only;
- two cron times that fall on one instant are one slot.
After downtime only the newest slot is made up for; the ones before it stay visible as missing.

Cron lines are read by cronsim, on naive wall-clock times. Its own treatment of zones is Debian's, which repeats
`0 */3 * * *` but not `0 0,3,6 * * *` where a clock is set back; here both follow the one rule.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from receipts.models import Run, Schedule
from receipts.statements import fetch_row
from receipts.workflows import Workflow

log = logging.getLogger(__name__)

#: How far clocks are set back at most (Antarctica/Troll: 2 h): so far a wall clock may be ahead of a past instant.
SET_BACK = dt.timedelta(hours=3)
#: A slot that has no run after so long is missing: the tick comes every minute, and a worker may be restarting.
GRACE = dt.timedelta(minutes=5)
#: How many slots `missing` looks back over at most; of a nightly workflow nearly three years.
LOOK_BACK = 1000
#: How much later a workflow must have been looked at on another schedule for this one to have been out of use.
AWAY = dt.timedelta(hours=1)


# ── slots ────────────────────────────────────────────────────────────────────────────────────────────────────────


def problem(cron: str, zone: str) -> str | None:
    """What is wrong with a cron line and its zone, as a sentence; None: nothing."""
    if len(cron.split()) != 5:
        return f"The cron line “{cron}” must have five fields: minute, hour, day of month, month, day of week."
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"“{zone}” is no time zone of this machine."
    try:
        next(CronSim(cron, dt.datetime(2026, 1, 1)))  # noqa: DTZ001 - a wall clock
    except CronSimError as error:
        return f"The cron line “{cron}” cannot be read: {error}."
    except StopIteration:
        return f"The cron line “{cron}” never comes true."
    return None


def next_slot(cron: str, zone: str, moment: dt.datetime) -> dt.datetime:
    """The first slot after an instant, in UTC."""
    place = ZoneInfo(zone)
    wall = moment.astimezone(place).replace(tzinfo=None) - SET_BACK
    return next(slot for slot in (_instant(time, place) for time in CronSim(cron, wall)) if slot > moment)


def slots_back(cron: str, zone: str, moment: dt.datetime) -> Iterator[dt.datetime]:
    """The slots up to and including an instant, newest first, each once, in UTC. Ends after 50 empty years."""
    place = ZoneInfo(zone)
    wall = moment.astimezone(place).replace(tzinfo=None) + SET_BACK
    told: dt.datetime | None = None
    for time in CronSim(cron, wall, reverse=True):
        slot = _instant(time, place)
        if slot <= moment and slot != told:
            yield slot
            told = slot


def _instant(wall: dt.datetime, zone: ZoneInfo) -> dt.datetime:
    """The instant of a wall-clock time by the rule above. Order is kept: a later time is never an earlier instant."""
    while True:
        instant = wall.replace(tzinfo=zone, fold=0).astimezone(dt.UTC)
        if instant.astimezone(zone).replace(tzinfo=None) == wall:
            return instant
        wall += dt.timedelta(minutes=1)  # in a gap; gaps begin and end on whole minutes


# ── what is owed ─────────────────────────────────────────────────────────────────────────────────────────────────

# Another schedule was in use so long after this one that this one was not: workers take turns at the minute's tick, so
# while two versions run, each looks every few minutes. Compares what is stored, never the moment of asking.
_OUT_OF_USE = """EXISTS (
  SELECT FROM schedules other WHERE other.workflow = known.workflow AND other.id <> known.id
    AND other.seen_at > known.seen_at + make_interval(secs => %(away)s::float8))"""

_OBSERVE = f"""
INSERT INTO schedules AS known (workflow, cron, zone, since, seen_at)
VALUES (%(workflow)s, %(cron)s, %(zone)s, %(now)s::timestamptz, %(now)s::timestamptz)
ON CONFLICT (workflow, cron, zone) DO UPDATE
SET since = CASE WHEN {_OUT_OF_USE} THEN excluded.since ELSE known.since END,
    seen_at = greatest(known.seen_at, excluded.seen_at)
RETURNING since
"""  # noqa: S608

_SINCE = f"""
SELECT since FROM schedules known
WHERE workflow = %(workflow)s AND cron = %(cron)s AND zone = %(zone)s AND NOT {_OUT_OF_USE}
"""  # noqa: S608


def observe(workflow: Workflow, now: dt.datetime) -> dt.datetime:
    """Since when the workflow has been on its cron line and zone; from now on, where that is news.

    So a first start runs nothing of the past, and neither does a changed schedule. A schedule is a workflow with a cron
    line and a zone, and each has a row of its own: where two versions of the product tick side by side, or two values
    of SCHEDULE_TIME_ZONE, each gets its slots, and neither sets the other back.

    A schedule that comes back starts anew only if the workflow was on another one meanwhile: a worker looked at that
    one AWAY or more after anybody had last looked at this one. Without that nobody was there at all, or it was gone for
    minutes: then its slots are owed as after any downtime.
    """
    about = _about(workflow)
    if _since(workflow) is None:
        others = Schedule.objects.filter(workflow=workflow.name).exclude(cron=workflow.cron, zone=workflow.time_zone)
        before = others.order_by("-seen_at").first()
        if before is not None:
            log.warning(
                "%s is on `%s` in %s from now on; a worker was on `%s` in %s at %s",
                *(workflow.name, workflow.cron, workflow.time_zone),
                *(before.cron, before.zone, before.seen_at.isoformat(timespec="seconds")),
            )
    row = fetch_row(_OBSERVE, about | {"now": now})
    assert row is not None  # noqa: S101 - inserted or updated
    since: dt.datetime = row[0]
    return since


def _since(workflow: Workflow) -> dt.datetime | None:
    row = fetch_row(_SINCE, _about(workflow))
    return None if row is None else row[0]


def _about(workflow: Workflow) -> dict[str, Any]:
    return {
        "workflow": workflow.name,
        "cron": workflow.cron,
        "zone": workflow.time_zone,
        "away": AWAY.total_seconds(),
    }


def since(workflow: Workflow) -> dt.datetime | None:
    """The same without a trace; None: no tick has seen the workflow on this schedule, or not since it is on another."""
    return _since(workflow)


def due_slot(workflow: Workflow, now: dt.datetime) -> dt.datetime | None:
    """The newest slot that has come since the workflow is on its schedule, unless it has its run."""
    begun = observe(workflow, now)
    slot = next(slots_back(workflow.cron, workflow.time_zone, now), None)
    if slot is None or slot <= begun or Run.objects.filter(workflow=workflow.name, slot=slot).exists():
        return None
    return slot


def missing(workflow: Workflow, now: dt.datetime, limit: int = 10) -> list[dt.datetime]:
    """The newest slots, newest first, that are owed and have no run after the grace: downtime, and what it skipped."""
    begun = _since(workflow)
    if begun is None:
        return []
    slots: list[dt.datetime] = []
    for slot in islice(slots_back(workflow.cron, workflow.time_zone, now - GRACE), LOOK_BACK):
        if slot <= begun:
            break
        slots.append(slot)
    if not slots:
        return []
    runs = Run.objects.filter(workflow=workflow.name, slot__gte=slots[-1], slot__lte=slots[0])
    have = set(runs.values_list("slot", flat=True))
    return [slot for slot in slots if slot not in have][:limit]
