"""Receipts: the list, and the page that says why something happened."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.safestring import SafeString

from receipts import ledger
from receipts.admin import (
    exports,
    last_night,
    lineage,
    overview,
    planning,
    replaying,
    saved_views,
    search,
    show,
    timeline,
)
from receipts.admin.filters import (
    AttentionFilter,
    ContractFilter,
    ErrorCodeFilter,
    ErrorReasonFilter,
    OutcomeFilter,
    Recent,
    ReplayFilter,
    ToolFilter,
    TriggerFilter,
)
from receipts.admin.readonly import ReadOnlyAdmin
from receipts.admin.refusals import refuse
from receipts.admin.typed_filters import RangeFilter, RunFilter, TicketFilter, UserFilter
from receipts.models import Attempt, BulkReplay, BulkReplayItem, Receipt, Run
from receipts.permissions import REPLAY


@admin.register(Receipt)
class ReceiptAdmin(ReadOnlyAdmin):
    list_display = (
        "created_utc",
        "short_id",
        "status_badge",
        "what_happened",
        "subject",
        "who",
        "attempt",
        "result_ref",
    )
    list_display_links = ("created_utc", "short_id")
    sortable_by = ("created_utc",)  # the one order over all rows that an index gives
    list_filter = (
        "status",
        OutcomeFilter,
        AttentionFilter,
        ErrorCodeFilter,
        ErrorReasonFilter,
        Recent,
        RangeFilter,
        UserFilter,
        TicketFilter,
        RunFilter,
        ToolFilter,
        ContractFilter,
        TriggerFilter,
        ReplayFilter,
    )
    list_select_related = ("user",)
    ordering = ("-created_at", "-id")
    search_fields = ("idempotency_key",)
    search_help_text = search.HELP
    actions = ("plan_replay",)
    fieldsets = (
        (
            "What happened",
            {
                "fields": (
                    "status_badge",
                    "what_happened",
                    "what_next",
                    "replayed_as",
                    "error_code",
                    "error_reason",
                    "http_status",
                    "subject",
                    "who",
                    "for_whom",
                    "attempt",
                    "created",
                    "started",
                    "deadline",
                    "settled",
                    "applied",
                )
            },
        ),
        ("Timeline: attempts and events", {"fields": ("timeline",)}),
        (
            "Model decision: what the model proposed, and how it was judged",
            {"fields": ("proposed", "gate", "model", "provider_host", "finish_reason", "usage", "decision_record")},
        ),
        (
            "Tool result: what the tool did",
            {"fields": ("contract_name", "effect", "arguments", "result_ref", "context_moved", "tool_result")},
        ),
        (
            "Run and lineage",
            {"fields": ("run_link", "replay_link", "replay_no", "replay_reason", "bulk_link", "lineage")},
        ),
        ("Identity", {"fields": ("id", "idempotency_key", "input_hash", "contract_sha256")}),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Receipt], search_term: str
    ) -> tuple[QuerySet[Receipt], bool]:
        if not search_term.strip():
            return queryset, False
        return queryset.filter(search.condition(search_term)), False

    # ── the two verbs ────────────────────────────────────────────────────────────────────────────────────────────

    def get_urls(self) -> list[URLPattern]:
        site = self.admin_site
        own = [
            path("overview/", site.admin_view(self.overview_view), name="receipts_receipt_overview"),
            path("last-night/", site.admin_view(self.last_night_view), name="receipts_receipt_last_night"),
            path("views/", site.admin_view(self.save_view), name="receipts_receipt_save_view"),
            path("views/<int:view_id>/remove/", site.admin_view(self.forget_view), name="receipts_receipt_forget_view"),
            path("export/<str:name>/", site.admin_view(exports.export_list(self)), name="receipts_receipt_export"),
            path("<uuid:receipt_id>/replay/", site.admin_view(self.replay_view), name="receipts_receipt_replay"),
            path("<uuid:receipt_id>/retry/", site.admin_view(replaying.retry_view), name="receipts_receipt_retry"),
        ]
        return own + super().get_urls()

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        return overview.view(self, request)

    def last_night_view(self, request: HttpRequest) -> HttpResponse:
        return last_night.view(self, request)

    def save_view(self, request: HttpRequest) -> HttpResponse:
        return saved_views.save(self, request)

    def forget_view(self, request: HttpRequest, view_id: int) -> HttpResponse:
        return saved_views.remove(self, request, view_id)

    def replay_view(self, request: HttpRequest, receipt_id: UUID) -> HttpResponse:
        return replaying.replay_view(request, receipt_id, media=self.media)

    def has_replay_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(REPLAY)

    @admin.action(permissions=["replay"], description="Plan a replay of the selected receipts…")
    def plan_replay(self, request: HttpRequest, queryset: QuerySet[Receipt]) -> HttpResponse | None:
        return planning.plan_selection(self, request, queryset)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Whoever posts here without the permission is told so: Django would show the list as if nothing was asked."""
        if request.method == "POST" and not self.has_replay_permission(request):
            return refuse(request, "replay receipts in bulk", back=request.get_full_path())
        saved = {"saved_views": saved_views.shown_to(request.user)}
        shown: HttpResponse = super().changelist_view(request, saved | (extra_context or {}))
        return shown

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """With what this person may do about it."""
        key = search.read_uuid(object_id)
        receipt = Receipt.objects.filter(pk=key).first() if key else None
        verbs = {
            "may_replay": self.has_replay_permission(request),
            "retries": replaying.next_attempt(request.user, receipt) if receipt else None,
        }
        return super().change_view(request, object_id, form_url, {**verbs, **(extra_context or {})})

    # ── the list ─────────────────────────────────────────────────────────────────────────────────────────────────

    @admin.display(ordering="created_at", description="created (UTC)")
    def created_utc(self, receipt: Receipt) -> str:
        return show.second(receipt.created_at)

    def created(self, receipt: Receipt) -> str:
        return show.moment(receipt.created_at)

    @admin.display(description="receipt")
    def short_id(self, receipt: Receipt) -> str:
        return receipt.number

    @admin.display(description="user")
    def who(self, receipt: Receipt) -> str:
        return receipt.user.username

    @admin.display(description="status")
    def status_badge(self, receipt: Receipt) -> SafeString | str:
        return show.status(receipt)

    def what_happened(self, receipt: Receipt) -> str:
        return show.what_happened(receipt)

    @admin.display(description="contract")
    def contract_name(self, receipt: Receipt) -> str:
        return receipt.contract

    # ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────

    @admin.display(description="on behalf of")
    def for_whom(self, receipt: Receipt) -> str:
        return receipt.on_behalf_of.username if receipt.on_behalf_of else show.EMPTY

    def started(self, receipt: Receipt) -> str:
        return show.moment(receipt.started_at)

    def deadline(self, receipt: Receipt) -> str:
        return show.moment(receipt.deadline_at)

    def settled(self, receipt: Receipt) -> str:
        return show.moment(receipt.settled_at)

    def applied(self, receipt: Receipt) -> str:
        return show.moment(receipt.applied_at)

    @admin.display(description="whose turn")
    def what_next(self, receipt: Receipt) -> str:
        return show.next_step(receipt.error_code, receipt.error_reason)

    @admin.display(description="proposed (redacted)")
    def proposed(self, receipt: Receipt) -> SafeString | str:
        return show.as_json(_decision(receipt).get("proposed"))

    @admin.display(description="stopped at gate")
    def gate(self, receipt: Receipt) -> str:
        return _decision(receipt).get("gate") or show.EMPTY

    @admin.display(description="tokens (prompt + completion), fill and apply time")
    def usage(self, receipt: Receipt) -> str:
        tokens = f"{_number(receipt.prompt_tokens)} + {_number(receipt.completion_tokens)}"
        return f"{tokens} · {_number(receipt.fill_ms)} ms · {_number(receipt.apply_ms)} ms"

    @admin.display(description="the whole record")
    def decision_record(self, receipt: Receipt) -> SafeString | str:
        return show.as_json(_decision(receipt) or None)

    @admin.display(description="arguments (redacted)")
    def arguments(self, receipt: Receipt) -> SafeString | str:
        return show.as_json(receipt.arguments_json or None)

    @admin.display(description="result")
    def tool_result(self, receipt: Receipt) -> SafeString | str:
        attempt = _attempt(receipt)
        return show.as_json(attempt.tool_result if attempt else None)

    @admin.display(description="run")
    def run_link(self, receipt: Receipt) -> SafeString | str:
        return show.link(Run, receipt.run_id, f"{receipt.run} ({receipt.run_id})")

    @admin.display(description="replayed as")
    def replayed_as(self, receipt: Receipt) -> SafeString | str:
        return lineage.replayed_as(receipt)

    @admin.display(description="part of the bulk replay")
    def bulk_link(self, receipt: Receipt) -> SafeString | str:
        item = BulkReplayItem.objects.select_related("bulk").filter(new_receipt=receipt).first()
        return show.link(BulkReplay, item.bulk_id, str(item.bulk)) if item else show.EMPTY

    @admin.display(description="by time")
    def timeline(self, receipt: Receipt) -> SafeString:
        return timeline.of(receipt)

    @admin.display(description="lineage")
    def lineage(self, receipt: Receipt) -> SafeString | str:
        return lineage.tree(receipt)

    @admin.display(description="replay of")
    def replay_link(self, receipt: Receipt) -> SafeString | str:
        return show.link(Receipt, receipt.replay_of_id)


def _attempt(receipt: Receipt) -> Attempt | None:
    """The row of the current attempt; read once for the page."""
    if "current_attempt" not in receipt.__dict__:
        receipt.__dict__["current_attempt"] = ledger.last_attempt(receipt)
    found: Attempt | None = receipt.__dict__["current_attempt"]
    return found


def _decision(receipt: Receipt) -> dict[str, Any]:
    attempt = _attempt(receipt)
    return (attempt.model_decision if attempt else None) or {}


def _number(value: int | None) -> str:
    return show.EMPTY if value is None else f"{value:,}"
