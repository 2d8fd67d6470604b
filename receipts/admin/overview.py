"""The list in figures: receipts by hour and status, top causes, latencies, the age of what is pending.

Over the rows of the list under the same filter, and over seven days at most: a chart over everything took 5 s on ten
million receipts, one over a week a third of a second.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import connection
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from receipts.admin import show
from receipts.admin.filters import Recent
from receipts.admin.typed_filters import RangeFilter
from receipts.lifecycle import Outcome, Status, outcome
from receipts.models import Receipt

#: What is looked at where the filter names no time, and what is looked at at most.
USUAL, MOST = dt.timedelta(days=1), dt.timedelta(days=7)
HOUR = dt.timedelta(hours=1)
TOP = 10
#: From the ground up.
KINDS = ("applied", "retryable", "failed", "pending")
#: Of the drawing, in its own units: a week's bars fit a laptop's width, a day's are not as broad as they could be.
HEIGHT, WIDTH, BROADEST = 160, 1000, 25

#: Milliseconds: how finely fills are told apart. Sorting each of 200,000 exactly took as long as reading them.
STEP = 50

#: One pass over a week of rows; the causes come from the partial index of failed ones.
_HOURS = f"""
WITH counted AS MATERIALIZED (
  SELECT date_bin('1 hour', created_at, '2000-01-01 00:00Z') AS hour, status, retryable, fill_ms / {STEP} AS step,
    count(*) AS n
  FROM ({{rows}}) listed GROUP BY 1, 2, 3, 4)
SELECT hour, status, retryable, NULL::int, sum(n)::int FROM counted GROUP BY 1, 2, 3
UNION ALL
SELECT NULL, NULL, NULL, step, sum(n)::int FROM counted WHERE step IS NOT NULL GROUP BY step
"""  # noqa: S608 - numbers of ours
_CAUSES = "SELECT error_code, error_reason, count(*) FROM ({rows}) listed GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT %s"

#: By age; a queued receipt's begins with its row.
AGES = (
    ("under half a minute", dt.timedelta(seconds=30)),
    ("under five minutes", dt.timedelta(minutes=5)),
    ("under an hour", dt.timedelta(hours=1)),
    ("an hour and more", None),
)
_AGES = """
WITH waiting AS ({rows})
SELECT width_bucket(extract(epoch FROM %s::timestamptz - created_at), ARRAY[30.0, 300.0, 3600.0]), count(*),
  count(*) FILTER (WHERE started_at IS NULL), count(*) FILTER (WHERE deadline_at <= %s::timestamptz), min(created_at)
FROM waiting GROUP BY 1
"""


@dataclass(kw_only=True)
class Hour:
    """One bar."""

    begin: dt.datetime
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, kw_only=True)
class Window:
    """Half-open, in UTC."""

    begin: dt.datetime
    end: dt.datetime
    cut: bool
    """The filter asked for more."""


def view(model_admin: admin.ModelAdmin[Receipt], request: HttpRequest) -> HttpResponse:
    """Raises: PermissionDenied, BadRequest."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    try:
        listed = model_admin.get_changelist_instance(request)
    except IncorrectLookupParameters:
        raise BadRequest("The list does not know such a filter.") from None
    now = timezone.now()
    window = _window(listed, now)
    within = listed.queryset.filter(created_at__gte=window.begin, created_at__lt=window.end)
    hours, fill = _hours(within, window)
    query = listed.get_query_string()
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Receipts in figures",
        "media": model_admin.media,
        "query": query,
        "filter": _words(listed),
        "begin": show.second(window.begin),
        "end": show.second(window.end),
        "cut": window.cut,
        "spans": [
            (label, listed.get_query_string({"within": name}, remove=["from", "until", "zone"]))
            for name, (label, span) in Recent.spans.items()
            if span <= MOST
        ],
        "chart": _chart(hours),
        "hours": [_hour_row(listed, hour) for hour in reversed(hours) if hour.total],
        "totals": {kind: sum(hour.counts[kind] for hour in hours) for kind in KINDS},
        "causes": [_cause_row(listed, *cause) for cause in _causes(within)],
        "fill": fill,
        "pending": _ages(listed.queryset, now),
    }
    return TemplateResponse(request, "admin/receipts/overview.html", context)


def _window(listed: Any, now: dt.datetime) -> Window:
    """Of the list's filter as much as is looked at: the end of it."""
    begin, end = None, now
    for spec in listed.filter_specs:
        if isinstance(spec, RangeFilter) and spec.used_parameters:
            begin, until = spec.between()
            end = min(until, now) if until else now
        elif isinstance(spec, Recent) and spec.value():
            begin = now - spec.spans[str(spec.value())][1]
    wanted = begin if begin is not None else end - USUAL
    return Window(begin=max(wanted, end - MOST), end=end, cut=wanted < end - MOST)


def _hours(rows: QuerySet[Receipt], window: Window) -> tuple[list[Hour], dict[str, int] | None]:
    """Every hour of the window, and the quantiles of the fill over all of it."""
    hours: dict[dt.datetime, Hour] = {}
    at = window.begin.replace(minute=0, second=0, microsecond=0)
    while at < window.end:
        hours[at] = Hour(begin=at)
        at += HOUR
    fills: Counter[int] = Counter()
    for hour, status, retryable, step, count in _asked(_HOURS, rows, ("created_at", "status", "retryable", "fill_ms")):
        if hour is None:
            fills[step] += count
        else:
            hours[hour].counts[_kind(status, retryable)] += count
    return list(hours.values()), _quantiles(fills)


def _causes(rows: QuerySet[Receipt]) -> list[tuple[str, str | None, int]]:
    found = _asked(_CAUSES, rows.filter(status=Status.FAILED), ("error_code", "error_reason"), TOP)
    return [(code, reason, count) for code, reason, count in found]


def _quantiles(fills: Counter[int]) -> dict[str, int] | None:
    """Milliseconds, rounded up to the step: “half within”."""
    total, seen = fills.total(), 0
    if not total:
        return None
    told = {"count": total}
    wanted = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)]
    for step, count in sorted(fills.items()):
        seen += count
        while wanted and seen >= wanted[0][1] * total:
            told[wanted.pop(0)[0]] = (step + 1) * STEP
    return told


def _kind(status: str, retryable: bool | None) -> str:
    if status == Status.PENDING:
        return "pending"
    return {Outcome.OK: "applied", Outcome.RETRYABLE: "retryable"}.get(outcome(status, retryable), "failed")  # type: ignore[arg-type]


def _ages(rows: QuerySet[Receipt], now: dt.datetime) -> list[dict[str, Any]]:
    """Of everything under the filter that is pending, however old: the partial index of pending rows holds few."""
    pending = rows.filter(status=Status.PENDING)
    found = {row[0]: row[1:] for row in _asked(_AGES, pending, ("created_at", "started_at", "deadline_at"), now, now)}
    return [
        {
            "label": label,
            "count": found[number][0],
            "queued": found[number][1],
            "overdue": found[number][2],
            "oldest": show.second(found[number][3]),
        }
        for number, (label, _age) in enumerate(AGES)
        if number in found
    ]


def _asked(sql: str, rows: QuerySet[Receipt], columns: tuple[str, ...], *more: Any) -> list[tuple[Any, ...]]:
    inner, parameters = rows.order_by().select_related(None).values_list(*columns).query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(sql.replace("{rows}", inner), [*parameters, *more])
        return list(cursor.fetchall())


# ── how it is shown ──────────────────────────────────────────────────────────────────────────────────────────────


def _chart(hours: list[Hour]) -> dict[str, Any]:
    """Bars as rectangles of whole numbers; each says in words what it stands for."""
    tallest = max((hour.total for hour in hours), default=0) or 1
    step = max(3, min(BROADEST, WIDTH // max(1, len(hours))))
    bars = []
    for number, hour in enumerate(hours):
        top = HEIGHT
        for kind in KINDS:
            if not hour.counts[kind]:
                continue
            height = max(1, round(HEIGHT * hour.counts[kind] / tallest))
            top -= height
            bars.append({"x": number * step, "y": max(0, top), "height": height, "kind": kind})
    days = [
        {"x": number * step, "label": f"{hour.begin:%d %b}"}
        for number, hour in enumerate(hours)
        if hour.begin.hour == 0 or not number
    ]
    if len(days) > 1 and days[1]["x"] - days[0]["x"] < 60:  # type: ignore[operator]
        days.pop(0)
    return {
        "width": len(hours) * step,
        "height": HEIGHT,
        "bar": step - 1,
        "tallest": tallest,
        "bars": bars,
        "days": days,
        "kinds": KINDS,
    }


def _hour_row(listed: Any, hour: Hour) -> dict[str, Any]:
    span = {"from": f"{hour.begin:%Y-%m-%d %H:%M}", "until": f"{hour.begin + HOUR:%Y-%m-%d %H:%M}", "zone": "UTC"}
    return {
        "begin": f"{hour.begin:%Y-%m-%d %H:%M}",
        "counts": [hour.counts[kind] for kind in KINDS],
        "total": hour.total,
        "list": _list() + listed.get_query_string(span, remove=["within"]),
    }


def _cause_row(listed: Any, code: str, reason: str | None, count: int) -> dict[str, Any]:
    only = {"error_code": code, "error_reason": reason or "-"}
    return {
        "code": code,
        "reason": reason or "",
        "sentence": show.sentence(code, reason),
        "count": count,
        "list": _list() + listed.get_query_string(only, remove=["status__exact", "outcome"]),
    }


def _words(listed: Any) -> dict[str, str]:
    """The list's filter."""
    words = {
        str(spec.title): str(choice["display"])
        for spec in listed.filter_specs
        for number, choice in enumerate(spec.choices(listed))
        if number and choice["selected"]
    }
    return words | ({"search": show.visible(listed.query)} if listed.query else {})


def _list() -> str:
    return reverse("admin:receipts_receipt_changelist")


def address(**parameters: str) -> str:
    """The list under a filter."""
    return f"{_list()}?{urlencode(parameters)}"
