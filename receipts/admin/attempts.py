"""Attempts: one immutable row for each execution of a receipt."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from receipts.admin import show
from receipts.admin.filters import RecentlyFinished
from receipts.admin.readonly import ReadOnlyAdmin
from receipts.models import Attempt, Receipt


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = ("finished", "receipt_link", "attempt", "came_to", "what_happened", "who")
    list_filter = ("status", RecentlyFinished)
    list_select_related = ("actor",)
    ordering = ("-id",)  # its id begins with its time, and the primary key is its only index over all rows
    sortable_by = ()
    fieldsets = (
        ("What happened", {"fields": ("receipt_link", "attempt", "came_to", "what_happened", "what_next")}),
        ("When and who", {"fields": ("who", "started", "finished", "http_status", "replayable")}),
        ("Model decision: what the model proposed, and how it was judged", {"fields": ("decision",)}),
        ("Tool result: what the tool did", {"fields": ("result",)}),
    )

    def who(self, attempt: Attempt) -> str:
        return attempt.actor.username

    def started(self, attempt: Attempt) -> str:
        return show.moment(attempt.started_at)

    def finished(self, attempt: Attempt) -> str:
        return show.moment(attempt.finished_at)

    @admin.display(description="receipt")
    def receipt_link(self, attempt: Attempt) -> SafeString | str:
        return show.link(Receipt, attempt.receipt_id)

    @admin.display(description="outcome")
    def came_to(self, attempt: Attempt) -> SafeString | str:
        return show.badge(attempt.status)

    def what_happened(self, attempt: Attempt) -> str:
        return show.sentence(attempt.error_code, attempt.error_reason)

    @admin.display(description="whose turn")
    def what_next(self, attempt: Attempt) -> str:
        return show.next_step(attempt.error_code, attempt.error_reason)

    def decision(self, attempt: Attempt) -> SafeString | str:
        return show.as_json(attempt.model_decision)

    def result(self, attempt: Attempt) -> SafeString | str:
        return show.as_json(attempt.tool_result)
