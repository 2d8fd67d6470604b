"""Runs: one execution of a workflow, with the context that travelled with it."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from receipts.admin import exports, show
from receipts.admin.filters import RecentlyStarted
from receipts.admin.readonly import ReadOnlyAdmin
from receipts.admin.search import read_uuid
from receipts.models import Run


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ("started", "workflow", "trigger", "who", "finished", "id")
    list_filter = ("trigger", RecentlyStarted)
    list_select_related = ("actor",)
    ordering = ("-id",)  # its id begins with its time; the index by start is per workflow
    sortable_by = ()
    search_fields = ("id",)
    search_help_text = "A run's id."
    fieldsets = (
        (None, {"fields": ("id", "workflow", "trigger", "who", "parent_link", "scheduled", "started", "finished")}),
        ("Receipts", {"fields": ("page_link", "receipts_link")}),
        ("Manifest: the context that travelled with it", {"fields": ("manifest_json", "downloads")}),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Run], search_term: str
    ) -> tuple[QuerySet[Run], bool]:
        if not search_term.strip():
            return queryset, False
        return queryset.filter(pk=key) if (key := read_uuid(search_term.strip())) else queryset.none(), False

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("<uuid:run_id>/manifest.json", view(exports.manifest_file), name="receipts_run_manifest"),
            path("<uuid:run_id>/export.zip", view(exports.run_archive), name="receipts_run_archive"),
            *super().get_urls(),
        ]

    def downloads(self, run: Run) -> SafeString:
        return format_html(
            "{} · {}",
            exports.link("receipts_run_manifest", run.pk, "the manifest (JSON)"),
            exports.link("receipts_run_archive", run.pk, "the manifest and every run receipt (ZIP)"),
        )

    def who(self, run: Run) -> str:
        return run.actor.username

    def scheduled(self, run: Run) -> str:
        return show.moment(run.slot)

    def started(self, run: Run) -> str:
        return show.moment(run.started_at)

    def finished(self, run: Run) -> str:
        return show.moment(run.finished_at)

    @admin.display(description="parent run")
    def parent_link(self, run: Run) -> SafeString | str:
        return show.link(Run, run.parent_id)

    @admin.display(description="progress")
    def page_link(self, run: Run) -> SafeString:
        return format_html('<a href="/runs/{}">how far it is, and what failed</a>', run.pk)

    @admin.display(description="receipts")
    def receipts_link(self, run: Run) -> SafeString:
        """A link and not rows: a scheduled run may hold thousands."""
        address = reverse("admin:receipts_receipt_changelist")
        return format_html('<a href="{}?q={}">the receipts of this run</a>', address, run.pk)

    @admin.display(description="manifest")
    def manifest_json(self, run: Run) -> SafeString | str:
        return show.as_json(run.manifest)
