"""The pages of scheduled workflows and their runs. Reads only; queries live in `run_board` and `run_story`."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from receipts.api import RunPages, visible_receipts, visible_runs
from receipts.models import Receipt
from receipts.pages import Keyset
from receipts.permissions import SEES_ALL
from tickets import run_board
from tickets.board import PAGE_SIZE, page_of
from tickets.models import Ticket
from tickets.run_story import SHOWN, Narrowing, receipts_of, tell_run, title_of


@require_safe
@never_cache
@login_required
def runs(request: HttpRequest) -> HttpResponse:
    """Every workflow with what is due and what is missing; below, the runs. For those who see all receipts."""
    if not request.user.has_perm(SEES_ALL):
        raise Http404
    now = timezone.now()
    chosen, known = request.GET.get("workflow", ""), run_board.names()
    matching = run_board.matching(visible_runs(request.user), chosen, known)
    page = page_of(matching, request, RunPages(), PAGE_SIZE)
    context = {
        "section": "runs",
        "cards": run_board.cards(now),
        "page": page,
        "rows": run_board.with_progress(page.rows),
        "tabs": [
            {"label": label, "href": f"?{urlencode({'workflow': name})}" if name else "?", "current": name == chosen}
            for name, label in [("", "All"), *((name, title_of(name)) for name in known)]
        ],
        "chosen": chosen,
        "now": now,
    }
    return render(request, "runs.html", context)


@require_safe
@never_cache
@login_required
def run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """How far a run is, what failed in it, and what it was made of. Its script asks for it again while it is live.

    Raises: Http404 alike for a run that is not there and for one that this person may not see.
    """
    found = get_object_or_404(visible_runs(request.user).select_related("actor", "parent"), pk=run_id)
    now = timezone.now()
    story = tell_run(found, now)
    narrowing = Narrowing.asked(request.GET)
    receipts = narrowing.of(receipts_of(found, visible_receipts(request.user)))
    page = page_of(receipts, request, Keyset(), PAGE_SIZE)
    context = {
        "section": "runs",
        "story": story,
        "narrowing": narrowing,
        "tabs": [
            {"label": label, "href": f"?{urlencode({'status': status})}" if status else "?", "status": status}
            for status, label in SHOWN.items()
        ],
        "page": page,
        "rows": with_titles(page.rows),
        "now": now,
    }
    return render(request, "run.html", context)


def with_titles(receipts: list[Receipt]) -> list[tuple[Receipt, str]]:
    """Each receipt with its ticket's subject; an empty one where the ticket is gone."""
    ids = {receipt.subject for receipt in receipts}
    titles: dict[Any, str] = dict(Ticket.objects.filter(pk__in=ids).values_list("pk", "subject"))
    return [(receipt, titles.get(receipt.subject, "")) for receipt in receipts]
