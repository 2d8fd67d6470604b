"""What Django answers itself (no such address, a broken middleware): problems for the API, pages for people."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt

from receipts.errors import InvalidRequest, NotFound, PermissionDenied
from receipts.problems import answer_for, error_for, problem


@csrf_exempt
def no_such_address(_request: HttpRequest) -> HttpResponse:
    """Below /api/: the same 404 as for a thing that is not there."""
    return problem(NotFound())


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return answer_for(request, InvalidRequest(fields={"request": "cannot be read"})) or defaults.bad_request(
        request, exception
    )


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return answer_for(request, PermissionDenied()) or defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return answer_for(request, NotFound()) or defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """A database that is down breaks the session's middleware before any view of ours: that is a 503."""
    broken = sys.exc_info()[1]
    error = error_for(broken) if broken else None
    return (answer_for(request, error) if error else None) or defaults.server_error(request)
