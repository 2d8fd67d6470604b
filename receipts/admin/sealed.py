"""Sealed inputs: that they exist and until when; and, for whoever may and says why, one look at one of them."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from receipts.admin import show
from receipts.admin.readonly import ReadOnlyAdmin
from receipts.admin.refusals import refuse
from receipts.disclosure import Disclosed, Found, disclose
from receipts.errors import InvalidRequest
from receipts.models import Receipt, SealedInput
from receipts.permissions import VIEW_SEALED
from receipts.replay import REASON_MAX, read_reason

SENTENCES = {
    Found.GONE: "There is no sealed input any more: the purge deletes it when it expires, or once its change is made.",
    Found.EXPIRED: "The sealed input has expired. It is not shown any more, and the next purge deletes it.",
    Found.UNOPENABLE: "The sealed input cannot be opened: its key is no longer held, or it was changed.",
}


@admin.register(SealedInput)
class SealedInputAdmin(ReadOnlyAdmin):
    list_display = ("receipt_link", "sealed", "expires")
    list_display_links = None
    ordering = ("-receipt_id",)  # a receipt's id begins with its time
    sortable_by = ()
    fieldsets = ((None, {"fields": ("receipt_link", "sealed", "expires")}),)

    @admin.display(description="receipt")
    def receipt_link(self, row: SealedInput) -> SafeString | str:
        return show.link(Receipt, row.receipt_id)

    def sealed(self, row: SealedInput) -> str:
        return show.moment(row.created_at)

    def expires(self, row: SealedInput) -> str:
        return show.moment(row.expires_at)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.open_view)  # nothing on the way keeps the page: never_cache
        return [path("<uuid:receipt_id>/open/", view, name="receipts_sealedinput_open"), *super().get_urls()]

    def open_view(self, request: HttpRequest, receipt_id: UUID) -> HttpResponse:
        """GET asks for the reason and shows nothing. POST records it, then shows the input, once."""
        receipt = Receipt.objects.filter(pk=receipt_id).first()
        if receipt is None:
            raise Http404
        if not request.user.has_perm(VIEW_SEALED):
            back = reverse("admin:receipts_receipt_change", args=[receipt.pk])
            return refuse(request, "view sealed inputs", back=back, receipt=receipt)
        if request.method not in ("GET", "POST"):
            return HttpResponseNotAllowed(["GET", "POST"])
        if request.method == "GET":
            return self._page(request, receipt)
        try:
            reason = read_reason(request.POST.get("reason"))
        except InvalidRequest as error:
            return self._page(request, receipt, problem=error.fields["reason"])
        return self._page(request, receipt, disclosed=disclose(user=request.user, receipt=receipt, reason=reason))

    def _page(
        self, request: HttpRequest, receipt: Receipt, *, disclosed: Disclosed | None = None, problem: str = ""
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"Sealed input of {receipt.number}",
            "media": self.media,
            "receipt": receipt,
            "problem": problem,
            "reason": request.POST.get("reason", ""),
            "reason_max": REASON_MAX,
            "disclosed": disclosed,
            "sentence": SENTENCES.get(disclosed.found) if disclosed else None,
            "parts": _parts(disclosed.plain or {}) if disclosed else [],
        }
        status = 400 if problem else 200
        return TemplateResponse(request, "admin/receipts/sealed_input.html", context, status=status)


def _parts(plain: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, text) of each part; what does not print is shown as an escape."""
    return [
        (name, show.visible(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)))
        for name, value in plain.items()
    ]
