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
from collections.abc import Iterator
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from django.db import connection

from receipts.models import Run, Schedule
from receipts.workflows import Workflow

#: How far clocks are set back at most (Antarctica/Troll: 2 h): so far a wall clock may be ahead of a past instant.
SET_BACK = dt.timedelta(hours=3)
#: A slot that has no run after so long is missing: the tick comes every minute, and a worker may be restarting.
GRACE = dt.timedelta(minutes=5)
#: How many slots `missing` looks back over at most; of a nightly workflow nearly three years.
LOOK_BACK = 1000


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

_OBSERVE = """
INSERT INTO schedules (workflow, cron, zone, since) VALUES (%(workflow)s, %(cron)s, %(zone)s, %(now)s)
ON CONFLICT (workflow) DO UPDATE SET cron = excluded.cron, zone = excluded.zone, since = excluded.since
WHERE (schedules.cron, schedules.zone) <> (excluded.cron, excluded.zone)
"""


def observe(workflow: Workflow, now: dt.datetime) -> dt.datetime:
    """Since when the workflow has been on its present cron line and zone; from now on, where that is news.

    So a first start runs nothing of the past, and neither does a changed schedule.
    """
    known = _since(workflow)
    if known is None:
        with connection.cursor() as cursor:
            cursor.execute(
                _OBSERVE,
                {"workflow": workflow.name, "cron": workflow.cron, "zone": workflow.time_zone, "now": now},
            )
        known = _since(workflow)
    return known or now  # None: another version of the product observes another schedule at the same time


def _since(workflow: Workflow) -> dt.datetime | None:
    rows = Schedule.objects.filter(workflow=workflow.name, cron=workflow.cron, zone=workflow.time_zone)
    return rows.values_list("since", flat=True).first()


def since(workflow: Workflow) -> dt.datetime | None:
    """The same without a trace; None: no tick has seen the workflow on this schedule yet."""
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
