"""Who may not do something in the console is told so on a page, and it is on record."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from receipts import ledger
from receipts.models import Receipt
from receipts.permissions import refused


def refuse(request: HttpRequest, action: str, *, back: str, receipt: Receipt | None = None) -> HttpResponse:
    """403, with the audit event of it. `action` in words, like “replay receipts”."""
    record(request, action, receipt)
    context = {**admin.site.each_context(request), "title": "Not allowed", "action": action, "back": back}
    return TemplateResponse(request, "admin/receipts/refused.html", context, status=403)


def record(request: HttpRequest, action: str, receipt: Receipt | None = None) -> None:
    """That somebody who is signed in was refused."""
    ledger.record(refused(_key(request), action), receipt=receipt)


def _key(request: HttpRequest) -> Any:
    return request.user.pk
