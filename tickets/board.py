"""What the board shows: tickets in lanes, filtered and paged, each with its latest press and how that stands."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, cast

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, QueryDict
from rest_framework.request import Request

from receipts.errors import InvalidRequest
from receipts.models import Receipt
from receipts.pages import Keyset, read_moment
from tickets.models import TICKET_ID, Message, Ticket
from tickets.words import Standing, standing

PAGE_SIZE = 25
#: Cards of one lane where three stand side by side: a page of columns is no longer than two of the list.
LANE_SIZE = 15

#: The filter for tickets that nobody has.
NOBODY = "nobody"
#: The filter for tickets whose customer spoke last.
US = "us"

COLUMNS, LIST = "columns", "list"

_ID = re.compile(TICKET_ID)
_CURSOR = re.compile(r"(?<=[?&])cursor=")


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


def page_of(queryset: QuerySet[Any], request: HttpRequest, pages: Keyset, size: int, parameter: str = "cursor") -> Page:
    """A page by keyset, its place taken from the URL. A garbled place is the first page: old links must not break.

    `parameter`: what the place is called in the URL, where one page holds several lists.
    """
    query = request.GET.copy()
    place = query.pop(parameter, [])
    query.pop("cursor", None)
    address = f"{request.path}?{query.urlencode()}"
    here = {"cursor": place[-1]} if place else {}
    for start in (here, {}):
        asked = _Asked(query_params={"page_size": str(size), **start}, address=address)
        try:
            rows = pages.paginate_queryset(queryset, cast(Request, asked), None)
        except InvalidRequest:
            continue
        links = {name: link and _CURSOR.sub(f"{parameter}=", link) for name, link in pages.links().items()}
        return Page(rows=rows, newer=links["previous"], older=links["next"])
    return Page(rows=[], newer=None, older=None)


def matching(*, q: str, priority: str, assignee: str, waiting: str) -> QuerySet[Ticket]:
    """Tickets by the filters other than status: what the counts count.

    The search reads every row and uses no index: of 5,000 tickets that takes less than drawing one card.
    """
    tickets = Ticket.objects.all()
    for word in q.split():
        tickets = tickets.filter(Q(subject__icontains=word) | Q(id__icontains=word) | Q(requester_name__icontains=word))
    if priority:
        tickets = tickets.filter(priority=priority)
    if assignee == NOBODY:
        tickets = tickets.filter(assignee=None)
    elif assignee:
        tickets = tickets.filter(assignee=assignee)
    if waiting == US:
        spoke_last = Message.objects.filter(ticket=OuterRef("id")).order_by("-id").values("author")[:1]
        tickets = tickets.exclude(status=Ticket.Status.CLOSED).alias(spoke_last=Subquery(spoke_last))
        tickets = tickets.filter(spoke_last=Message.Author.REQUESTER)
    return tickets


def counts(tickets: QuerySet[Ticket]) -> dict[str, int]:
    """status → how many, and `all`."""
    by_status = dict(tickets.order_by().values_list("status").annotate(Count("id")))
    return {status: by_status.get(status, 0) for status in Ticket.Status.values} | {"all": sum(by_status.values())}


# ── lanes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Card:
    """One ticket with the receipt of its latest press, whoever pressed."""

    ticket: Ticket
    receipt: Receipt | None
    standing: Standing | None

    @property
    def version(self) -> str:
        """Changes with everything that the card says, except ages."""
        ticket, receipt = self.ticket, self.receipt
        said = [ticket.subject, ticket.priority, ticket.requester_name, ticket.updated_at, ticket.place]
        said += [receipt.pk, receipt.attempt, self.standing] if receipt else []
        return _digest(said)


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A column of the board, or its whole list."""

    name: str
    """A status, or `all`: names the lane in addresses and in the page."""
    title: str
    """Empty where the tabs say it."""
    href: str
    """Its tickets alone, as a list."""
    count: int
    page: Page
    cards: list[Card]


def whole(tickets: QuerySet[Ticket], status: str, count: int, request: HttpRequest, now: dt.datetime) -> list[Lane]:
    """One lane with everything, or with everything of one status."""
    narrowed = tickets.filter(status=status) if status else tickets
    page = page_of(narrowed.select_related("assignee"), request, TicketPages(), PAGE_SIZE)
    cards = cards_of(page.rows, now)
    return [Lane(name=status or "all", title="", href="", count=count, page=page, cards=cards)]


def columns(tickets: QuerySet[Ticket], counted: dict[str, int], request: HttpRequest, now: dt.datetime) -> list[Lane]:
    """A lane for each status, each paged by itself."""
    pages = {
        status: page_of(
            tickets.filter(status=status).select_related("assignee"),
            request,
            TicketPages(),
            LANE_SIZE,
            parameter=f"cursor_{status}",
        )
        for status in Ticket.Status.values
    }
    cards = {card.ticket.pk: card for card in cards_of((row for page in pages.values() for row in page.rows), now)}
    return [
        Lane(
            name=status,
            title=str(label),
            href=f"?{with_parameters(request.GET, status=status)}",
            count=counted[status],
            page=pages[status],
            cards=[cards[row.pk] for row in pages[status].rows],
        )
        for status, label in Ticket.Status.choices
    ]


def with_parameters(query: QueryDict, **changes: str) -> str:
    """The query with these parameters set, or removed where empty; no list keeps its place."""
    changed = query.copy()
    for name in [name for name in changed if name == "cursor" or name.startswith("cursor_")]:
        del changed[name]
    for name, value in changes.items():
        changed.pop(name, None)
        if value:
            changed[name] = value
    return changed.urlencode()


def cards_of(tickets: Iterable[Ticket], now: dt.datetime) -> list[Card]:
    return [
        Card(ticket=ticket, receipt=receipt, standing=standing(receipt, now) if receipt else None)
        for ticket, receipt in with_latest_press(tickets)
    ]


def version_of(lanes: list[Lane], *more: Any) -> str:
    """Changes whenever a page with these lanes has something to say that it did not say before."""
    told = [
        (lane.name, lane.count, lane.page.newer, lane.page.older, [card.version for card in lane.cards])
        for lane in lanes
    ]
    return _digest([told, *more])


def _digest(said: Any) -> str:
    return blake2b(repr(said).encode(), digest_size=9).hexdigest()


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
    receipts = Receipt.objects.filter(id__in=[pk for pk in ids if pk]).select_related("user", "on_behalf_of", "run")
    receipts = receipts.defer("run__manifest", "arguments_json")
    by_ticket = {receipt.subject: receipt for receipt in receipts}
    return [(ticket, by_ticket.get(ticket.id)) for ticket in tickets]
