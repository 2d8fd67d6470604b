"""Audit events: who did what, when and why."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString

from receipts.admin import show
from receipts.admin.filters import RecentlyHappened
from receipts.admin.readonly import ReadOnlyAdmin
from receipts.models import AuditEvent, Receipt, Run


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("when", "who", "verb", "receipt_link", "why")
    list_filter = ("verb", RecentlyHappened)
    list_select_related = ("actor",)
    ordering = ("-id",)
    sortable_by = ()
    fieldsets = ((None, {"fields": ("when", "who", "verb", "receipt_link", "run_link", "details")}),)

    def when(self, event: AuditEvent) -> str:
        return show.moment(event.at)

    def who(self, event: AuditEvent) -> str:
        return event.actor.username if event.actor else "the system"

    @admin.display(description="receipt")
    def receipt_link(self, event: AuditEvent) -> SafeString | str:
        return show.link(Receipt, event.receipt_id)

    @admin.display(description="run")
    def run_link(self, event: AuditEvent) -> SafeString | str:
        return show.link(Run, event.run_id)

    def why(self, event: AuditEvent) -> str:
        return show.visible(str(event.detail.get("reason") or show.EMPTY))

    def details(self, event: AuditEvent) -> SafeString | str:
        return show.as_json(event.detail)
