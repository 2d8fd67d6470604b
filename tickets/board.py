"""What the board shows: tickets, filtered and paged, each with its latest press."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from rest_framework.request import Request

from receipts.errors import InvalidRequest
from receipts.models import Receipt
from receipts.pages import Keyset, read_moment
from tickets.models import TICKET_ID, Ticket

PAGE_SIZE = 25

#: The filter for tickets that nobody has.
NOBODY = "nobody"

_ID = re.compile(TICKET_ID)


def _read_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError(text)
    return text


class TicketPages(Keyset):
    """Most recently touched first."""

    order = ("updated_at", "id")
    readers = (read_moment, _read_id)


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page of a list with the addresses of its neighbours."""

    rows: list[Any]
    newer: str | None
    older: str | None


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a keyset needs of a request: our page size, the reader's place, the address that links start from."""

    query_params: dict[str, str]
    address: str

    def build_absolute_uri(self) -> str:
        return self.address


def page_of(queryset: QuerySet[Any], request: HttpRequest, pages: Keyset, size: int) -> Page:
    """A page by keyset, its place taken from the URL. A garbled place is the first page: old links must not break."""
    address = request.get_full_path()
    here = {name: request.GET[name] for name in ("cursor",) if name in request.GET}
    for place in (here, {}):
        asked = _Asked(query_params={"page_size": str(size), **place}, address=address)
        try:
            rows = pages.paginate_queryset(queryset, cast(Request, asked), None)
        except InvalidRequest:
            continue
        links = pages.links()
        return Page(rows=rows, newer=links["previous"], older=links["next"])
    return Page(rows=[], newer=None, older=None)


def matching(*, q: str, priority: str, assignee: str) -> QuerySet[Ticket]:
    """Tickets by the filters other than status: what the counts count."""
    tickets = Ticket.objects.all()
    for word in q.split():
        tickets = tickets.filter(Q(subject__icontains=word) | Q(id__icontains=word) | Q(requester_name__icontains=word))
    if priority:
        tickets = tickets.filter(priority=priority)
    if assignee == NOBODY:
        tickets = tickets.filter(assignee=None)
    elif assignee:
        tickets = tickets.filter(assignee=assignee)
    return tickets


def counts(tickets: QuerySet[Ticket]) -> dict[str, int]:
    """status → how many, and `all`."""
    by_status = dict(tickets.order_by().values_list("status").annotate(Count("id")))
    return {status: by_status.get(status, 0) for status in Ticket.Status.values} | {"all": sum(by_status.values())}


def with_latest_press(tickets: Iterable[Ticket]) -> list[tuple[Ticket, Receipt | None]]:
    """Each ticket with the receipt of its latest press, whoever pressed. Two queries for a page.

    One index probe a ticket: a ticket with ten thousand receipts costs what one with a single receipt costs.
    """
    tickets = list(tickets)
    latest = Receipt.objects.filter(subject=OuterRef("id")).order_by("-created_at", "-id").values("id")[:1]
    ids = (
        Ticket.objects.filter(id__in=[ticket.id for ticket in tickets])
        .annotate(latest=Subquery(latest))
        .values_list("latest", flat=True)
    )
    receipts = Receipt.objects.filter(id__in=[pk for pk in ids if pk]).select_related("user")
    by_ticket = {receipt.subject: receipt for receipt in receipts}
    return [(ticket, by_ticket.get(ticket.id)) for ticket in tickets]
