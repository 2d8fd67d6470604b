"""Filters of the lists. A value that cannot be meant is refused by name, never ignored."""

from __future__ import annotations

import datetime as dt
from typing import Any
from uuid import UUID

import django_filters
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db.models import Q, QuerySet, Subquery
from django.db.models.functions import Now
from django.utils.dateparse import parse_datetime

from receipts.contracts import registry
from receipts.errors import BY_CODE, REASONS
from receipts.lifecycle import Outcome, Status
from receipts.models import Receipt, Run, Trigger

_CONTRACT = RegexValidator(r"^[a-z0-9_]{1,64}@[0-9]{1,6}\Z", "is not a contract like name@1")
_INPUT_HASH = RegexValidator(r"^[0-9a-f]{16}\Z", "is not 16 hexadecimal digits")
_KEY = RegexValidator(r"^[A-Za-z0-9._:~-]{1,255}\Z", "is not an idempotency key")

#: outcome → rows. Written so that the partial index of failed rows serves both halves.
OUTCOMES = {
    Outcome.OK: Q(status=Status.APPLIED),
    Outcome.RETRYABLE: Q(status=Status.FAILED, retryable=True),
    Outcome.FAILED: Q(status=Status.FAILED, retryable=False),
}


def of_contract(name: str, version: int) -> Q:
    """The receipts of one version of a tool.

    Versions follow each other, so those of an old one all lie far back, and PostgreSQL, which takes them for spread
    evenly, would walk there from today (3 s over ten million rows). The bound is the newest of them; asked in ranges
    and not by equality, because only the index by contract has that order.
    """
    same = Receipt.objects.filter(
        tool_name__gte=name, tool_name__lte=name, contract_version__gte=version, contract_version__lte=version
    )
    newest = same.order_by("tool_name", "contract_version", "-created_at", "-id").values("created_at")[:1]
    return Q(tool_name=name, contract_version=version, created_at__lte=Subquery(newest))


class InstantField(django_filters.fields.IsoDateTimeField):  # type: ignore[misc]
    """ISO 8601; without an offset it is UTC, as every time that the API gives."""

    def to_python(self, value: Any) -> dt.datetime | None:
        """Raises: ValidationError, also for an offset that leads out of the years 1-9999."""
        if value in self.empty_values:
            return None
        try:
            moment = parse_datetime(str(value).strip())
            if moment is not None:
                return moment.replace(tzinfo=moment.tzinfo or dt.UTC).astimezone(dt.UTC)
        except (ValueError, OverflowError):
            pass
        raise ValidationError(self.error_messages["invalid"], code="invalid")


class InstantFilter(django_filters.IsoDateTimeFilter):  # type: ignore[misc]
    field_class = InstantField


def named(choices: Any) -> list[tuple[str, str]]:
    return [(str(choice), str(choice)) for choice in choices]


def tool_choices() -> list[tuple[str, str]]:
    return named(registry.names())


class ReceiptFilter(django_filters.FilterSet):  # type: ignore[misc]
    """Query parameters of `/receipts`.

    Times are ISO 8601, UTC where they name no offset; `created_after` includes its instant, `created_before` does not.
    """

    status = django_filters.ChoiceFilter(choices=named(Status))
    outcome = django_filters.ChoiceFilter(choices=named(Outcome), method="by_outcome")
    error_code = django_filters.ChoiceFilter(choices=named(sorted(BY_CODE)), method="by_error_code")
    error_reason = django_filters.ChoiceFilter(choices=named(sorted(REASONS)), method="by_error_reason")
    tool = django_filters.ChoiceFilter(choices=tool_choices, field_name="tool_name")
    contract = django_filters.CharFilter(method="by_contract", validators=[_CONTRACT])
    ticket_id = django_filters.CharFilter(field_name="subject", max_length=64)
    user = django_filters.CharFilter(method="by_user", max_length=150)
    created_after = InstantFilter(
        field_name="created_at", lookup_expr="gte", help_text="ISO 8601; UTC where it names no offset"
    )
    created_before = InstantFilter(
        field_name="created_at", lookup_expr="lt", help_text="ISO 8601; UTC where it names no offset"
    )
    overdue = django_filters.ChoiceFilter(choices=named(("true", "false")), method="by_overdue")
    input_hash = django_filters.CharFilter(validators=[_INPUT_HASH])
    run = django_filters.UUIDFilter(
        method="by_run", help_text="a run's receipts; of a workflow's run all that it opened"
    )
    idempotency_key = django_filters.CharFilter(validators=[_KEY])

    class Meta:
        model = Receipt
        fields: list[str] = []

    def by_outcome(self, rows: QuerySet[Receipt], _name: str, value: str) -> QuerySet[Receipt]:
        return rows.filter(OUTCOMES[Outcome(value)])

    def by_error_code(self, rows: QuerySet[Receipt], _name: str, value: str) -> QuerySet[Receipt]:
        # the status is implied; saying it lets the partial index of failed rows answer
        return rows.filter(status=Status.FAILED, error_code=value)

    def by_error_reason(self, rows: QuerySet[Receipt], _name: str, value: str) -> QuerySet[Receipt]:
        return rows.filter(status=Status.FAILED, error_reason=value)

    def by_contract(self, rows: QuerySet[Receipt], _name: str, value: str) -> QuerySet[Receipt]:
        name, version = value.split("@")
        return rows.filter(of_contract(name, int(version)))

    def by_user(self, rows: QuerySet[Receipt], _name: str, value: str) -> QuerySet[Receipt]:
        # a scalar subquery, looked up once: the index by user then serves filter and order
        return rows.filter(user=get_user_model().objects.filter(username=value).values("pk")[:1])

    def by_run(self, rows: QuerySet[Receipt], _name: str, value: UUID) -> QuerySet[Receipt]:
        return rows.filter(run__in=Run.objects.filter(Q(pk=value) | Q(parent=value)))

    def by_overdue(self, rows: QuerySet[Receipt], _name: str, value: str) -> QuerySet[Receipt]:
        past = Q(status=Status.PENDING, deadline_at__lte=Now())
        return rows.filter(past if value == "true" else ~past)


class RunFilter(django_filters.FilterSet):  # type: ignore[misc]
    """Query parameters of `/runs`."""

    workflow = django_filters.CharFilter(max_length=64)
    trigger = django_filters.ChoiceFilter(choices=Trigger.choices)
    parent = django_filters.UUIDFilter(field_name="parent_id")

    class Meta:
        model = Run
        fields: list[str] = []
