"""What Django answers itself (no such address, a broken middleware): problems for the API, pages for people.

A ledger that is out of reach can show itself in any query of any page, the look at who is asking included. So no view
catches it: it ends here, and the page that says so asks the database for nothing.
"""

from __future__ import annotations

import sys

from django.contrib.auth.models import AnonymousUser
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt

from receipts.errors import DatabaseUnavailable, InvalidRequest, NotFound, PermissionDenied, ReceiptsError
from receipts.problems import DATABASE_RETRY_AFTER, answer_for, error_for, problem


@csrf_exempt
def no_such_address(_request: HttpRequest) -> HttpResponse:
    """Below /api/: the same 404 as for a thing that is not there."""
    return problem(NotFound())


def no_such_page(_request: HttpRequest, _rest: str) -> HttpResponse:
    """For addresses that a library brings along and we have no use for."""
    raise Http404


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    answer = answer_for(request, InvalidRequest(fields={"request": "cannot be read"}))
    return answer or render(request, "400.html", status=400)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return answer_for(request, PermissionDenied()) or defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return answer_for(request, NotFound()) or defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """A database that is down is a 503; a value that no column can hold (NUL, a mile of text) came with the request."""
    broken = sys.exc_info()[1]
    if isinstance(broken, DataError) and not answer_for(request, InvalidRequest()):
        return _quiet(bad_request(request, broken))
    error = error_for(broken) if broken else None
    if error and (answer := answer_for(request, error)):
        return answer
    if isinstance(error, DatabaseUnavailable):
        return unreachable(request, error)
    return defaults.server_error(request)


def unreachable(request: HttpRequest, error: ReceiptsError) -> HttpResponseBase:
    """Answer 503. What somebody had pressed comes back as a form with its notes and its key."""
    request.user = AnonymousUser()  # nobody is looked up
    where = request.resolver_match
    typed = where is not None and where.url_name in ("ticket", "press", "by-hand", "notes")
    pressed = request.method == "POST" and typed
    context = {
        "error": error,
        "ticket_id": where.kwargs["ticket_id"] if where and pressed else "",
        "what": where.kwargs.get("what", "") if where else "",
        "notes": request.POST.get("notes", "") if pressed else "",
        "key": request.POST.get("idempotency_key", "") if pressed else "",
        "version": request.POST.get("notes_version", "") if pressed else "",
    }
    response = render(request, "unreachable.html", context, status=error.http_status)
    response["Retry-After"] = str(error.retry_after or DATABASE_RETRY_AFTER)
    response["Cache-Control"] = "no-store"
    return _quiet(response)


def _quiet(response: HttpResponseBase) -> HttpResponseBase:
    """Django would log it as an error of ours, with a traceback."""
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response
