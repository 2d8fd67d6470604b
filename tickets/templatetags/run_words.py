"""How templates say runs: slots on the wall clock of their zone, and spans of time."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from receipts.models import Trigger
from tickets.run_story import title_of, zone_of

register = template.Library()

register.filter("workflow_title", title_of)
register.filter("zone_of", zone_of)

#: What started a run, where the run itself is the subject of the sentence.
STARTED_BY = {
    Trigger.SCHEDULE: "the schedule",
    Trigger.COMMAND: "a command",
    Trigger.PRESS: "a press",
    Trigger.REPLAY: "a replay",
}


@register.simple_tag
def slot(at: dt.datetime, zone: str, now: dt.datetime) -> SafeString:
    """A slot in a `<time>`, as the cron line means it: `Sun 29 Mar, 04:00 EEST`; with the year where it is another one.

    It has no style, so the script of the page leaves the text and puts the reader's own time into the title.
    """
    try:
        local = at.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError):  # the run was opened on a machine that knew more zones
        local = at.astimezone(dt.UTC)
    year = "" if local.year == now.astimezone(local.tzinfo).year else f" {local.year}"
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), f"{local:%a %-d %b}{year}, {local:%H:%M %Z}")


@register.filter
def started_by(trigger: str) -> str:
    return STARTED_BY.get(Trigger(trigger), trigger)


@register.filter
def span(seconds: float) -> str:
    """`42` → `42 s`, `190` → `3 min 10 s`, `7300` → `2 h 1 min`"""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@register.filter
def roughly(seconds: int) -> str:
    """An estimate, no finer than it can be: `about 40 s`, `about 3 min`, `about 2 h`."""
    if seconds < 55:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    if seconds < 90 * 60:
        return f"about {max(1, round(seconds / 60))} min"
    return f"about {round(seconds / 3600)} h"


@register.simple_tag
def took(started: dt.datetime, finished: dt.datetime) -> str:
    return span((finished - started).total_seconds())
