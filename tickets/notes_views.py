"""Where a form's notes are kept: read and written by the page's script, and by the form itself without script."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied as PageDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from receipts.answers import see_other
from receipts.errors import InvalidRequest, NotAuthenticated, NotFound, PermissionDenied, ReceiptsError
from receipts.permissions import FILE
from receipts.problems import problem
from tickets import notes, views
from tickets.models import Ticket
from tickets.sign_in import sign_in_first


@require_http_methods(["GET", "HEAD", "PUT", "POST"])
@never_cache
def kept_notes(request: HttpRequest, ticket_id: str, what: str) -> HttpResponse:
    """One person's own text; nobody else's can be named here."""
    if request.method == "POST":
        return _save_form(request, ticket_id, what)
    try:
        _check(request, ticket_id)
        if request.method == "PUT":
            return JsonResponse(_save(request, ticket_id, what, *_body(request)).as_json())
    except notes.ChangedElsewhere as other:
        return JsonResponse({"code": "changed_elsewhere", **other.kept.as_json()}, status=409)
    except ReceiptsError as refusal:
        return problem(refusal)
    get_token(request)  # a tab whose token has gone astray reads its notes, and has one again
    return JsonResponse(notes.kept(ticket_id, what, request.user).as_json())


def _save_form(request: HttpRequest, ticket_id: str, what: str) -> HttpResponse:
    try:
        _check(request, ticket_id)
        _save(request, ticket_id, what, request.POST.get("notes", ""), views.seen_version(request))
    except NotAuthenticated:
        return sign_in_first(request, ticket_id, what)
    except NotFound:
        raise Http404 from None
    except PermissionDenied:
        raise PageDenied from None
    except (notes.ChangedElsewhere, ReceiptsError) as refusal:
        return views.notes_back(request, ticket_id, what, refusal)
    messages.info(request, "Your notes are saved. Nothing was filed.")
    return see_other("ticket", ticket_id)


def _check(request: HttpRequest, ticket_id: str) -> None:
    """Raises: NotAuthenticated, PermissionDenied, NotFound."""
    if not request.user.is_authenticated:
        raise NotAuthenticated
    if not request.user.has_perm(FILE):
        raise PermissionDenied
    if not Ticket.objects.filter(pk=ticket_id).exists():
        raise NotFound


def _save(request: HttpRequest, ticket_id: str, what: str, text: str, seen: int) -> notes.Kept:
    return notes.save(ticket_id=ticket_id, what=what, person=request.user, text=text, seen=seen)


def _body(request: HttpRequest) -> tuple[str, int]:
    """Raises: InvalidRequest unless it is `{"text": "…", "version": 0}`."""
    try:
        given: Any = json.loads(request.body)
    except (ValueError, RecursionError):
        given = None
    text, seen = (given.get("text"), given.get("version")) if isinstance(given, dict) else (None, None)
    if not isinstance(text, str) or type(seen) is not int or not 0 <= seen < 2**63:
        raise InvalidRequest("The body must be an object with a text and the version that was seen.")
    return text, seen
