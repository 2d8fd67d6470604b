"""The documentation behind every problem's `type`: the table of errors as pages and as JSON. Public."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from receipts.errors import BY_CODE, REASONS, NotFound, ReceiptsError
from receipts.problems import TYPE_BASE, problem
from receipts.wire import preferred


def describe_code(error: type[ReceiptsError]) -> dict[str, Any]:
    """One row of the table of codes."""
    return {
        "type": TYPE_BASE + error.code,
        "code": error.code,
        "title": error.title,
        "status": error.http_status,
        "detail": error.default_detail,
        "retryable": error.default_retryable,
        "owner": error.owner,
        "next_step": error.next_step,
    }


def describe_reasons() -> list[dict[str, Any]]:
    """The finer causes; `retryable` null: as the code says."""
    return [
        {
            "reason": name,
            "detail": reason.sentence,
            "retryable": reason.retryable,
            "owner": reason.owner,
            "next_step": reason.next_step,
        }
        for name, reason in REASONS.items()
    ]


@require_safe
def list_problems(request: HttpRequest) -> HttpResponse:
    """All codes and reasons."""
    codes = [describe_code(error) for error in BY_CODE.values()]
    return _page_or_json(request, {"problems": codes, "reasons": describe_reasons()})


@require_safe
def show_problem(request: HttpRequest, code: str) -> HttpResponse:
    """One code."""
    error = BY_CODE.get(code)
    if error is None:
        return problem(NotFound())
    return _page_or_json(request, {"problems": [describe_code(error)], "reasons": []})


def _page_or_json(request: HttpRequest, table: dict[str, Any]) -> HttpResponse:
    if preferred(request, ["application/json", "text/html"]) == "text/html":
        return render(request, "receipts/problems.html", table)
    return JsonResponse(table)
