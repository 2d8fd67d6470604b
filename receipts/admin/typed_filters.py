"""Filters in which something is typed: a person, a ticket, a run, two moments with their zone.

Choices would be thousands. What cannot be meant leads to a list that says so, as with every filter of the console.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model
from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest
from django.utils.dateparse import parse_date, parse_datetime

from receipts.admin import show
from receipts.admin.search import read_uuid


@dataclass(frozen=True, kw_only=True)
class Field:
    """One thing to type."""

    name: str
    label: str
    help: str = ""
    value: str = ""


class Typed(admin.ListFilter):
    """A form of a few fields; what else the address says travels along hidden."""

    template = "admin/receipts/typed_filter.html"
    fields: ClassVar[tuple[Field, ...]] = ()

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        for name in (field.name for field in self.fields):
            given = params.pop(name, None)
            # Django's changelist hands over lists of values, the last of which counts
            text = given[-1] if isinstance(given, list) else given
            if text and str(text).strip():
                self.used_parameters[name] = str(text).strip()

    def expected_parameters(self) -> list[str | None]:
        return [field.name for field in self.fields]

    def has_output(self) -> bool:
        return True

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        """First what is not chosen, as of every filter; then what was typed, in words."""
        own = set(self.expected_parameters())
        yield {
            "selected": not self.used_parameters,
            "display": "All",
            "query_string": changelist.get_query_string(remove=list(own)),
            "fields": [
                Field(name=f.name, label=f.label, help=f.help, value=self.value_of(f.name)) for f in self.fields
            ],
            "others": [
                (name, value)
                for name, values in changelist.filter_params.items()
                if name not in own
                for value in (values if isinstance(values, list) else [values])
            ],
        }
        if self.used_parameters:
            yield {"selected": True, "display": self.words(), "query_string": ""}

    def value_of(self, name: str) -> str:
        return str(self.used_parameters.get(name, ""))

    def words(self) -> str:
        """What was typed, for the plan of a bulk replay and for an export."""
        return show.visible(", ".join(str(value) for value in self.used_parameters.values()))

    def condition(self) -> Q:
        """Only asked where something was typed. Raises: IncorrectLookupParameters."""
        raise NotImplementedError

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Raises: IncorrectLookupParameters."""
        if any("\0" in str(value) for value in self.used_parameters.values()):
            raise IncorrectLookupParameters("NUL")
        return queryset.filter(self.condition()) if self.used_parameters else queryset


class UserFilter(Typed):
    title = "user"
    fields = (Field(name="user", label="Username"),)

    def condition(self) -> Q:
        """A key and not a join: the index by user then serves filter and order. Nobody of that name has no rows."""
        keys = get_user_model().objects.filter(username=self.value_of("user")).values_list("pk", flat=True)
        return Q(user__in=list(keys))


class TicketFilter(Typed):
    title = "ticket"
    fields = (Field(name="ticket", label="Ticket", help="TCK-…"),)

    def condition(self) -> Q:
        return Q(subject=self.value_of("ticket").upper())


class RunFilter(Typed):
    title = "run"
    fields = (Field(name="run", label="Run", help="its id; of a workflow's run all that it opened"),)

    def condition(self) -> Q:
        key = read_uuid(self.value_of("run"))
        if key is None:
            raise IncorrectLookupParameters("run")
        return of_run(key)


def of_run(key: Any) -> Q:
    """An array and not a join: for an old run PostgreSQL would walk back over the index by time from today."""
    held = "tool_receipts.run_id = ANY (ARRAY(SELECT id FROM runs WHERE id = %s OR parent_id = %s))"
    return Q(RawSQL(held, [key, key], output_field=BooleanField()))  # noqa: S611 - constant text


class RangeFilter(Typed):
    """From a moment up to another, which is not in it; by the wall clock of a zone that is named."""

    title = "created between"
    fields = (
        Field(name="from", label="From", help="2026-03-29 or 2026-03-29 14:00"),
        Field(name="until", label="Until, not included"),
        Field(name="zone", label="Time zone"),
    )

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        if set(self.used_parameters) == {"zone"}:  # the form sends it with two empty moments
            self.used_parameters = {}

    def value_of(self, name: str) -> str:
        return super().value_of(name) or (str(settings.TIME_ZONE) if name == "zone" else "")

    def words(self) -> str:
        begin, end = self.between()
        said = [f"from {show.second(begin)} UTC"] if begin else []
        said += [f"until {show.second(end)} UTC"] if end else []
        return f"{' '.join(said) or 'always'} (typed as times of {self.value_of('zone')})"

    def between(self) -> tuple[dt.datetime | None, dt.datetime | None]:
        """Both in UTC. Raises: IncorrectLookupParameters."""
        try:
            zone = zoneinfo.ZoneInfo(self.value_of("zone"))
            begin, end = (_moment(self.value_of(name), zone) for name in ("from", "until"))
        except (ValueError, OverflowError, OSError, zoneinfo.ZoneInfoNotFoundError):
            raise IncorrectLookupParameters("range") from None
        return begin, end

    def condition(self) -> Q:
        begin, end = self.between()
        found = Q(created_at__gte=begin) if begin else Q()
        return found & Q(created_at__lt=end) if end else found


def _moment(text: str, zone: dt.tzinfo) -> dt.datetime | None:
    """Raises: ValueError, OverflowError."""
    if not text:
        return None
    day = parse_date(text) if len(text) == 10 else None
    moment = dt.datetime.combine(day, dt.time()) if day else parse_datetime(text)
    if moment is None:
        raise ValueError(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(dt.UTC)
