"""The API's documentation page: Swagger UI from our own static files, without an inline script."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Public, as the schema is. The stock page needs an inline script, which our policy forbids."""
    return render(request, "receipts_project/docs.html")
