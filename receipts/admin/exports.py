"""Downloads of the console: exactly the list that is shown, one run receipt, a run's manifest, a run as files.

Each needs `export_receipt`, each is an audit event, and so is its refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ALL_VAR, ERROR_FLAG, PAGE_VAR, SEARCH_VAR
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from receipts import ledger
from receipts.admin.refusals import refuse
from receipts.downloads import archived, as_download, streamed
from receipts.errors import Overloaded
from receipts.export import FORMATS, ReceiptExport
from receipts.models import Attempt, Receipt, Run, Verb
from receipts.permissions import EXPORT
from receipts.told import run_json, run_receipt

View = Callable[..., HttpResponseBase]


def allowed(view: View) -> View:
    """GET, for those who may export; anybody else is told so, on record."""

    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if not request.user.has_perm(EXPORT):
            return refuse(request, "export", back=reverse("admin:index"))
        return view(request, **kwargs)

    return require_GET(guarded)


def export_list(model_admin: admin.ModelAdmin[Receipt]) -> View:
    """The rows of the changelist under the same address parameters, in its order, all pages of it.

    The changelist itself makes the query, so an export cannot hold more or less than the list.
    """

    @allowed
    def view(request: HttpRequest, name: str) -> HttpResponseBase:
        form = FORMATS.get(name)
        if form is None:
            raise Http404
        if not model_admin.has_view_permission(request):
            raise PermissionDenied
        asked = request.GET.copy()
        for page in (PAGE_VAR, ALL_VAR, ERROR_FLAG):
            asked.pop(page, None)
        request.GET = QueryDict(asked.urlencode())
        try:
            listed = model_admin.get_changelist_instance(request)
        except IncorrectLookupParameters:
            raise BadRequest("The list does not know such a filter.") from None
        chosen = {key: ", ".join(values) for key, values in asked.lists() if key != SEARCH_VAR}
        if listed.query:
            chosen["search"] = listed.query
        try:
            export = ReceiptExport(listed.queryset, form, user=request.user, chosen=chosen)
        except Overloaded as error:
            return HttpResponse(error.detail, status=503, content_type="text/plain", headers={"Retry-After": "5"})
        return streamed(export, form)

    return view


@allowed
def run_receipt_file(request: HttpRequest, attempt_id: UUID) -> HttpResponseBase:
    """One attempt as JSON, as the API and a run's folder have it."""
    rows = Attempt.objects.select_related("actor", "receipt__run", "receipt__on_behalf_of")
    with transaction.atomic(durable=True):
        attempt = get_object_or_404(rows, pk=attempt_id)
        _record(request, receipt=attempt.receipt)
    return as_download(run_receipt(attempt), f"receipt-{attempt.receipt_id}-attempt-{attempt.attempt}.json")


@allowed
def manifest_file(request: HttpRequest, run_id: UUID) -> HttpResponseBase:
    """A run's manifest as JSON, with all of its receipts."""
    with transaction.atomic(durable=True):
        run = get_object_or_404(Run.objects.select_related("actor"), pk=run_id)
        receipts = Receipt.objects.filter(Q(run=run) | Q(run__parent=run)).order_by("created_at", "pk")
        shown = run_json(run, receipts.iterator())
        _record(request, run_id=run.pk)
    return as_download(shown, f"manifest-{run.pk}.json")


@allowed
def run_archive(request: HttpRequest, run_id: UUID) -> HttpResponseBase:
    """A run and the runs that it opened, as `manage.py export` writes them, packed."""
    return archived(get_object_or_404(Run, pk=run_id), request.user)


def link(name: str, key: Any, text: str) -> SafeString:
    """To one of the downloads above."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{name}", args=[key]), text)


def _record(request: HttpRequest, **about: Any) -> None:
    detail = {"format": "json", "stage": "complete", "rows": 1}
    user: Any = request.user
    ledger.record(ledger.Event(verb=Verb.EXPORT, actor_id=user.pk, detail=detail), **about)
