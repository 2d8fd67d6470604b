"""The console's filters: fixed choices, so that no page scans the table to find out what there is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model
from django.db.models import BooleanField, Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils import timezone

from receipts import errors
from receipts.contracts import registry
from receipts.errors import REASONS
from receipts.filters import OUTCOMES, of_contract
from receipts.ids import first_of
from receipts.lifecycle import LIVE, Outcome, Status
from receipts.models import Receipt, Trigger
from receipts.workflows import SCHEDULER

#: For failures whose code says it all.
NO_REASON = "-"
#: The errors that a settled row can hold.
SETTLED = (
    errors.FillFailed,
    errors.FillInvalid,
    errors.ArgMismatch,
    errors.DeadlineExceeded,
    errors.TicketConflict,
    errors.ApplyFailed,
    errors.Abandoned,
    errors.Cancelled,
    errors.PermissionDenied,
    errors.InternalError,
)


class Choice(admin.SimpleListFilter):
    """A filter with fixed choices; any other value sends the reader to an unfiltered page that says so."""

    def choices_of(self) -> Iterable[tuple[str, str]]:
        raise NotImplementedError

    def condition(self, value: str) -> Q:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(self.choices_of())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Raises: IncorrectLookupParameters."""
        value = self.value()
        if value is None:
            return queryset
        if value not in dict(self.lookup_choices):
            raise IncorrectLookupParameters(value)
        return queryset.filter(self.condition(value))


class OutcomeFilter(Choice):
    title, parameter_name = "outcome", "outcome"

    def choices_of(self) -> Iterable[tuple[str, str]]:
        return [(outcome.value, outcome.value) for outcome in Outcome]

    def condition(self, value: str) -> Q:
        return OUTCOMES[Outcome(value)]


class ErrorCodeFilter(Choice):
    title, parameter_name = "error code", "error_code"

    def choices_of(self) -> Iterable[tuple[str, str]]:
        return [(error.code, f"{error.title} ({error.code})") for error in SETTLED]

    def condition(self, value: str) -> Q:
        return Q(status=Status.FAILED, error_code=value)  # the status brings in the partial index


class ErrorReasonFilter(Choice):
    title, parameter_name = "reason", "error_reason"

    def choices_of(self) -> Iterable[tuple[str, str]]:
        return [(name, name) for name in REASONS] + [(NO_REASON, "none finer than the code")]

    def condition(self, value: str) -> Q:
        return Q(status=Status.FAILED, error_reason=None if value == NO_REASON else value)


class ToolFilter(Choice):
    title, parameter_name = "tool", "tool"

    def choices_of(self) -> Iterable[tuple[str, str]]:
        return [(name, name) for name in registry.names()]

    def condition(self, value: str) -> Q:
        return Q(tool_name=value)


class ContractFilter(Choice):
    """The versions that are held here; another one is found by its tool."""

    title, parameter_name = "contract", "contract"

    def choices_of(self) -> Iterable[tuple[str, str]]:
        return [(tool.contract, tool.contract) for tool in registry]

    def condition(self, value: str) -> Q:
        name, _, version = value.partition("@")
        return of_contract(name, int(version))


class AttentionFilter(Choice):
    """What somebody should look at."""

    title, parameter_name = "attention", "attention"

    def choices_of(self) -> Iterable[tuple[str, str]]:
        return [("overdue", "pending, overdue"), ("unresolved", "failed, unresolved")]

    def condition(self, value: str) -> Q:
        """Overdue: the sweep has not come by, or does not run. Unresolved: no replay has applied or is under way."""
        if value == "overdue":
            return Q(status=Status.PENDING, deadline_at__lte=Now())
        live = Receipt.objects.filter(root_id=OuterRef("root_id"), status__in=LIVE)
        return Q(~Exists(live), status=Status.FAILED)


class ReplayFilter(Choice):
    """Asked of the replays, which are few: asked of each original it took 8 s over ten million rows."""

    title, parameter_name = "replay", "replay"

    def choices_of(self) -> Iterable[tuple[str, str]]:
        return [("has", "has a replay"), ("none", "has none"), ("is", "is a replay")]

    def condition(self, value: str) -> Q:
        if value == "is":
            return Q(replay_of__isnull=False)
        if value == "none":
            return ~Q(pk__in=Receipt.objects.filter(replay_of__isnull=False).values("replay_of"))
        # in the order of ids, which is that of time: half of what a join costs
        originals = (
            "tool_receipts.id = ANY (ARRAY(SELECT replay_of FROM tool_receipts WHERE replay_of IS NOT NULL ORDER BY 1))"
        )
        return Q(RawSQL(originals, [], output_field=BooleanField()))  # noqa: S611 - constant text


class TriggerFilter(Choice):
    """What started the run; a replay's receipt says it itself."""

    title, parameter_name = "trigger", "trigger"

    def choices_of(self) -> Iterable[tuple[str, str]]:
        return list(Trigger.choices)

    def condition(self, value: str) -> Q:
        if value == Trigger.REPLAY:
            return Q(replay_of__isnull=False)
        if value == Trigger.PRESS:
            return Q(run__trigger=value)
        # both belong to the service user, whose receipts have their indexes
        keys = get_user_model().objects.filter(username=SCHEDULER).values_list("pk", flat=True)
        return Q(user__in=list(keys), run__trigger=value)


class Recent(Choice):
    """Presets in place of `date_hierarchy`, which groups the whole table by day: 4.6 s over ten million rows."""

    title, parameter_name = "time", "within"
    field: ClassVar[str] = "created_at"
    spans: ClassVar[dict[str, tuple[str, dt.timedelta]]] = {
        "hour": ("last hour", dt.timedelta(hours=1)),
        "day": ("last 24 hours", dt.timedelta(days=1)),
        "week": ("last 7 days", dt.timedelta(days=7)),
        "month": ("last 30 days", dt.timedelta(days=30)),
    }

    def choices_of(self) -> Iterable[tuple[str, str]]:
        return [(name, label) for name, (label, _) in self.spans.items()]

    def condition(self, value: str) -> Q:
        return Q(**{f"{self.field}__gte": timezone.now() - self.spans[value][1]})


class RecentById(Recent):
    """Of rows whose only index over all of them is that of their ids, which begin with their time."""

    def condition(self, value: str) -> Q:
        # an hour for clocks that differ, and for what came between the id and the moment
        since = timezone.now() - self.spans[value][1] - dt.timedelta(hours=1)
        return super().condition(value) & Q(pk__gte=first_of(since))


class RecentlyStarted(RecentById):
    field = "started_at"


class RecentlyFinished(RecentById):
    field = "finished_at"


class RecentlyHappened(Recent):
    field = "at"
