"""Attempts: one immutable row for each execution of a receipt."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, path
from django.utils.safestring import SafeString

from receipts.admin import exports, show
from receipts.admin.attempt_columns import AttemptColumns
from receipts.admin.filters import RecentlyFinished
from receipts.admin.readonly import ReadOnlyAdmin
from receipts.models import Attempt, Receipt


@admin.register(Attempt)
class AttemptAdmin(AttemptColumns, ReadOnlyAdmin):
    list_display = ("finished", "receipt_link", "attempt", "came_to", "what_happened", "who")
    list_filter = ("status", RecentlyFinished)
    list_select_related = ("actor",)
    ordering = ("-id",)  # its id begins with its time, and the primary key is its only index over all rows
    sortable_by = ()
    fieldsets = (
        ("What happened", {"fields": ("receipt_link", "attempt", "came_to", "what_happened", "what_next", "download")}),
        ("When and who", {"fields": ("who", "started", "finished", "http_status", "replayable")}),
        ("Model decision: what the model proposed, and how it was judged", {"fields": ("decision",)}),
        ("Tool result: what the tool did", {"fields": ("result",)}),
    )

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(exports.run_receipt_file)
        return [path("<uuid:attempt_id>/run-receipt.json", view, name="receipts_run_receipt"), *super().get_urls()]

    @admin.display(description="run receipt")
    def download(self, attempt: Attempt) -> SafeString:
        return exports.link("receipts_run_receipt", attempt.pk, "the whole record (JSON)")

    @admin.display(description="receipt")
    def receipt_link(self, attempt: Attempt) -> SafeString | str:
        return show.link(Receipt, attempt.receipt_id)

    @admin.display(description="whose turn")
    def what_next(self, attempt: Attempt) -> str:
        return show.next_step(attempt.error_code, attempt.error_reason)

    def decision(self, attempt: Attempt) -> SafeString | str:
        return show.as_json(attempt.model_decision)

    def result(self, attempt: Attempt) -> SafeString | str:
        return show.as_json(attempt.tool_result)
