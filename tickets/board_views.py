"""The board, and moving a ticket on it. Queries live in `board`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from receipts.errors import NotFound
from tickets import actions
from tickets import board as boards
from tickets.board import COLUMNS, LIST, Lane, with_parameters
from tickets.forms import BoardFilter, PlaceForm
from tickets.models import Member, Ticket

#: The cookie that remembers how somebody likes the board. No secret, and worth keeping for a year.
LAYOUT, YEAR = "board_view", 365 * 86_400

#: Ages on cards go on by themselves, so a page that nothing happened on is drawn anew after so many seconds.
AGES_EVERY = 120

#: What came of a move, from the press to the next look at the board: a key of the session.
OUTCOME = "board_outcome"


@require_safe
@never_cache
@login_required
def board(request: HttpRequest) -> HttpResponse:
    """Tickets in columns or as a list. Its script asks for it again, and gets 304 while there is nothing new."""
    now = timezone.now()
    form = BoardFilter(request.GET)
    chosen = form.chosen()
    status = chosen.pop("status")
    layout = _layout(request, status)
    tickets = boards.matching(**chosen)
    counts = boards.counts(tickets)
    lanes = (
        boards.columns(tickets, counts, request, now)
        if layout == COLUMNS
        else boards.whole(tickets, status, counts[status or "all"], request, now)
    )
    outcome = request.session.pop(OUTCOME, None)
    version = boards.version_of(lanes, counts, request.user.pk, int(now.timestamp()) // AGES_EVERY)
    if outcome is None and request.headers.get("If-None-Match") == f'"{version}"':
        return HttpResponseNotModified()
    context = {
        "section": "board",
        "form": form,
        "chips": _chips(request, form, chosen),
        "tabs": _tabs(request, status, counts),
        "layout": layout,
        "layouts": _layouts(request, layout),
        "status": status,
        "lanes": lanes,
        "found": sum(lane.count for lane in lanes),
        "shown": {card.ticket.pk for lane in lanes for card in lane.cards},
        "options": _options(lanes) if request.user.has_perm("receipts.file_followup") else None,
        "outcome": outcome,
        "query": request.GET.urlencode(),
        "version": version,
        "now": now,
    }
    response = render(request, "board.html", context)
    response["ETag"] = f'"{version}"'
    if request.GET.get("view") in (COLUMNS, LIST):
        response.set_cookie(
            LAYOUT, request.GET["view"], max_age=YEAR, httponly=True, samesite="Lax", secure=request.is_secure()
        )
    return response


def _layout(request: HttpRequest, status: str) -> str:
    """As asked for, else as last time. The tickets of one status are a list."""
    asked = request.GET.get("view")
    wanted = asked if asked in (COLUMNS, LIST) else request.COOKIES.get(LAYOUT)
    return LIST if status or wanted == LIST else COLUMNS


def _layouts(request: HttpRequest, layout: str) -> list[dict[str, Any]]:
    columns = with_parameters(request.GET, view=COLUMNS, status="")
    whole = with_parameters(request.GET, view=LIST)
    return [
        {"label": "Columns", "href": f"?{columns}", "current": layout == COLUMNS},
        {"label": "List", "href": f"?{whole}", "current": layout == LIST},
    ]


def _tabs(request: HttpRequest, status: str, counts: dict[str, int]) -> list[dict[str, Any]]:
    """The status filter as links that keep the other filters."""
    return [
        {
            "label": label,
            "href": f"?{with_parameters(request.GET, status=value)}",
            "count": counts[value or "all"],
            "current": value == status,
        }
        for value, label in [("", "All"), *Ticket.Status.choices]
    ]


def _chips(request: HttpRequest, form: BoardFilter, chosen: dict[str, str]) -> list[dict[str, str]]:
    """Each filter that is on, with the address of the board without it."""
    return [
        {"words": form.in_words(name, value), "href": f"?{with_parameters(request.GET, **{name: ''})}"}
        for name, value in chosen.items()
        if value
    ]


# ── moving ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of the cards' menus, written once a choice and not once a card: hundreds of cards share a few."""

    statuses: dict[str, SafeString]
    assignees: dict[str | None, SafeString]


def _options(lanes: list[Lane]) -> Options:
    members = list(Member.objects.order_by("name"))
    active = [(member.pk, member.name) for member in members if member.active]
    names = {member.pk: member.name for member in members}

    def assignees(current: str | None) -> SafeString:
        gone = [(current, names[current])] if current and (current, names[current]) not in active else []
        return _written([("", "Nobody yet"), *active, *gone], current or "")

    have = {card.ticket.assignee_id for lane in lanes for card in lane.cards}
    return Options(
        statuses={value: _written(Ticket.Status.choices, value) for value in Ticket.Status.values},
        assignees={current: assignees(current) for current in have},
    )


def _written(choices: Any, current: str) -> SafeString:
    return format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        ((value, SafeString(" selected") if value == current else "", label) for value, label in choices),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def place(request: HttpRequest, ticket_id: str) -> HttpResponse:
    """Move and assign; then back to where the card was pressed, with a word on the card about what came of it.

    A GET is what a sign-in in between leads to: the ticket itself.
    """
    if request.method != "POST":
        return redirect("ticket", ticket_id)
    if not request.user.has_perm("receipts.file_followup"):
        raise PermissionDenied
    form = PlaceForm(request.POST)
    if not form.is_valid():
        raise BadRequest("; ".join(form.errors))
    request.session[OUTCOME] = {"ticket": ticket_id, **_placed(ticket_id, form.cleaned_data)}
    # only a query comes from the form, so that it leads nowhere but to the board
    query = QueryDict(request.POST.get("query", "")[:2000]).urlencode()
    response = redirect(f"{reverse('board')}?{query}#{ticket_id}")
    response.status_code = 303
    return response


def _placed(ticket_id: str, wanted: dict[str, str]) -> dict[str, str]:
    """What came of it, for people."""
    try:
        ticket = actions.place_ticket(ticket_id=ticket_id, **wanted)
    except NotFound:
        raise Http404 from None
    except actions.MovedMeanwhile as refusal:
        now = _whereabouts(refusal.ticket)
        return {"tone": "warning", "words": f"Nothing was changed: somebody else was quicker. Now it is {now}."}
    return {"tone": "info", "words": f"Now it is {_whereabouts(ticket)}."}


def _whereabouts(ticket: Ticket) -> str:
    """`waiting, with Grace Lindqvist`"""
    holder = Member.objects.filter(pk=ticket.assignee_id).first()
    return f"{ticket.get_status_display().lower()}, with {holder.name if holder else 'nobody yet'}"
