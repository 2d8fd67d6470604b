"""Every refusal and failure on the wire: application/problem+json (RFC 9457), from the one table of errors."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from typing import Any

import psycopg
from django.core import exceptions as django_errors
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from psycopg_pool import PoolTimeout
from rest_framework import exceptions as drf_errors

from receipts import errors
from receipts.errors import ReceiptsError
from receipts.explanations import explain

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
#: Where the documentation of a code lives; `type` is this plus the code.
TYPE_BASE = "/api/v1/problems/"
#: Seconds after which a database that did not answer is worth asking again.
DATABASE_RETRY_AFTER = 1


def describe(error: ReceiptsError) -> dict[str, Any]:
    """The problem as JSON: `type, title, status, detail, code, retryable, owner, next_step`, and where they exist
    `reason` with its sentence, `receipt_id`, `fields`."""
    why = explain(error.code, error.reason)
    body: dict[str, Any] = {
        "type": TYPE_BASE + error.code,
        "title": error.title,
        "status": error.http_status,
        "detail": error.detail,
        "code": error.code,
        "retryable": error.retryable,
        "owner": why.owner,
        "next_step": why.next_step,
    }
    if error.reason:
        body |= {"reason": error.reason, "reason_detail": why.sentence}
    if error.receipt_id:
        body["receipt_id"] = error.receipt_id
    if error.fields:
        body["fields"] = error.fields
    return body


def problem(error: ReceiptsError, headers: dict[str, str] | None = None) -> HttpResponse:
    """The answer that an error owes.

    A plain response and not DRF's: it needs no negotiated renderer, so it also answers what negotiation refused.
    """
    response = HttpResponse(
        json.dumps(describe(error)), content_type=MEDIA_TYPE, status=error.http_status, headers=headers
    )
    response["Cache-Control"] = "no-store"
    # Django would log every 502 as an error; the receipt says it already, and our own faults are logged by `error_for`
    response._has_been_logged = True  # type: ignore[attr-defined]
    if error.retry_after is not None:
        response["Retry-After"] = str(max(1, error.retry_after))
    if error.http_status == 401:
        response["WWW-Authenticate"] = "Token"
    if error.http_status in (400, 409, 422):
        response["Link"] = f'<{TYPE_BASE}{error.code}>; rel="describedby"'
    return response


def exception_handler(exc: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's hook: an exception of a view → its problem.

    DRF's own handler marks every open transaction for rollback; this one never does, because the ledger settles in
    transactions of its own and a refusal must not undo a stamp.
    """
    error = error_for(exc)
    response = problem(error)
    allowed = getattr(context.get("view"), "allowed_methods", ())
    if error.http_status == 405 and allowed:
        response["Allow"] = ", ".join(allowed)
    return response


def error_for(exc: BaseException) -> ReceiptsError:
    """Our name for any exception that reaches the wire. What has none is logged and becomes `server_fault`.

    Not `internal_error`, which claims that nothing was filed: a view may break after commit 2.
    """
    match exc:
        case ReceiptsError():
            return exc
        case drf_errors.ValidationError():
            return errors.InvalidRequest(fields=dict(_named(exc.detail)))
        case drf_errors.ParseError() | drf_errors.UnsupportedMediaType() | drf_errors.Throttled():
            return _refused_request(exc)
        case drf_errors.NotAuthenticated() | drf_errors.AuthenticationFailed():
            return errors.NotAuthenticated()
        case drf_errors.PermissionDenied():
            return errors.PermissionDenied(_csrf_sentence(exc))
        case django_errors.PermissionDenied():
            return errors.PermissionDenied()
        case Http404() | drf_errors.NotFound():
            return errors.NotFound()
        case drf_errors.MethodNotAllowed():
            return errors.MethodNotAllowed()
        case drf_errors.NotAcceptable():
            return errors.NotAcceptable()
        case django_errors.SuspiciousOperation() | UnreadablePostError():
            return errors.InvalidRequest(fields={"request": "cannot be read"})
        case _ if is_database_outage(exc):
            log.warning("the database did not answer: %s", type(exc).__name__)
            return errors.DatabaseUnavailable(retry_after=DATABASE_RETRY_AFTER)
        case _:
            log.error("a view broke", exc_info=exc)
            return errors.ServerFault()


def is_database_outage(exc: BaseException) -> bool:
    """Whether the database could not be asked (down, no free connection, connection lost), as opposed to saying no."""
    if isinstance(exc, OperationalError | InterfaceError | PoolTimeout | psycopg.OperationalError):
        return True
    return isinstance(exc, DatabaseError) and isinstance(exc.__cause__, psycopg.OperationalError)


def _refused_request(exc: drf_errors.APIException) -> ReceiptsError:
    match exc:
        case drf_errors.UnsupportedMediaType():
            return errors.UnsupportedMediaType()
        case drf_errors.Throttled():
            return errors.Throttled(retry_after=math.ceil(getattr(exc, "wait", None) or 1))
        case _:
            return errors.InvalidRequest(fields={"body": "cannot be read"})


def _csrf_sentence(exc: drf_errors.APIException) -> str | None:
    """DRF reports a missing CSRF token as a denied permission; asking for another role would not help."""
    text = str(exc.detail)
    return text if text.startswith("CSRF") else None


def _named(detail: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """DRF's nested error detail as (field, sentence)."""
    if isinstance(detail, dict):
        for key, child in detail.items():
            own = "" if key == "non_field_errors" else str(key)
            yield from _named(child, f"{name}.{own}" if name and own else own or name)
    elif isinstance(detail, list) and any(isinstance(child, dict) for child in detail):
        for position, child in enumerate(detail):
            yield from _named(child, f"{name}.{position}" if name else str(position))
    elif isinstance(detail, list):
        yield name or "body", " ".join(str(child) for child in detail)
    else:
        yield name or "body", str(detail)


def answer_for(request: HttpRequest, error: ReceiptsError) -> HttpResponse | None:
    """The problem for requests of the API that fail outside a DRF view; None for pages, which have their own."""
    return problem(error) if request.path_info.startswith("/api/") else None
