"""Filters of the ticket list."""

from __future__ import annotations

import django_filters
from django.core.validators import RegexValidator
from django.db.models import Q, QuerySet

from tickets.models import Ticket

_HANDLE = RegexValidator(r"^[^\s\0]{1,64}\Z", "is not a member's handle")


class TicketFilter(django_filters.FilterSet):  # type: ignore[misc]
    """Query parameters of `/tickets`."""

    status = django_filters.ChoiceFilter(choices=Ticket.Status.choices)
    priority = django_filters.ChoiceFilter(choices=Ticket.Priority.choices)
    assignee = django_filters.CharFilter(field_name="assignee_id", validators=[_HANDLE])
    q = django_filters.CharFilter(method="search", max_length=200, label="in subject, id or requester's name")

    class Meta:
        model = Ticket
        fields: list[str] = []

    def search(self, rows: QuerySet[Ticket], _name: str, words: str) -> QuerySet[Ticket]:
        """Every word has to occur somewhere."""
        for word in words.split():
            rows = rows.filter(Q(subject__icontains=word) | Q(id__iexact=word) | Q(requester_name__icontains=word))
        return rows
