"""Bulk replay in the console: the plan, the page that follows it, the button that stops it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from receipts import bulk_replays
from receipts.admin import bulk_words, planning, show
from receipts.admin.readonly import ReadOnlyAdmin
from receipts.admin.refusals import refuse
from receipts.admin.search import read_uuid
from receipts.answers import see_other
from receipts.bulk_plans import Plan
from receipts.errors import InvalidRequest, ReceiptsError
from receipts.models import BulkReplay, BulkReplayItem, ItemState
from receipts.permissions import REPLAY, SEES_ALL

#: Items on one page of a bulk replay.
PAGE_SIZE = 100
_ACTION = "replay receipts in bulk"


@admin.register(BulkReplay)
class BulkReplayAdmin(ReadOnlyAdmin):
    list_display = ("created", "name", "who", "standing", "why")
    list_display_links = ("created", "name")
    list_select_related = ("actor", "stop_requested_by")
    ordering = ("-id",)
    sortable_by = ()

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whoever sees all receipts."""
        return request.user.has_perm(SEES_ALL)

    def get_urls(self) -> list[URLPattern]:
        guard = self.admin_site.admin_view
        own = [
            path("start/", guard(self.start_view), name="receipts_bulkreplay_start"),
            path("<uuid:bulk_id>/stop/", guard(self.stop_view), name="receipts_bulkreplay_stop"),
            path("<uuid:bulk_id>/progress/", guard(self.progress_view), name="receipts_bulkreplay_progress"),
        ]
        return own + super().get_urls()

    # ── the list ─────────────────────────────────────────────────────────────────────────────────────────────────

    def created(self, bulk: BulkReplay) -> str:
        return show.moment(bulk.created_at)

    @admin.display(description="bulk replay")
    def name(self, bulk: BulkReplay) -> str:
        return str(bulk)

    @admin.display(description="by")
    def who(self, bulk: BulkReplay) -> str:
        return bulk.actor.username

    def standing(self, bulk: BulkReplay) -> str:
        return bulk_words.standing(bulk)

    @admin.display(description="because")
    def why(self, bulk: BulkReplay) -> str:
        return show.visible(bulk.reason)

    # ── one of them ──────────────────────────────────────────────────────────────────────────────────────────────

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """How far it is. Nothing can be changed here, so anything but reading is refused."""
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            return refuse(request, "change a bulk replay", back=reverse("admin:index"))
        key = read_uuid(object_id)
        if key is None:
            raise Http404
        bulk = _find(key)
        context = {
            **self.admin_site.each_context(request),
            **_progress(request, bulk),
            "title": f"Bulk replay {bulk}",
            "media": self.media,
            "may_stop": request.user.has_perm(REPLAY),
        }
        return TemplateResponse(request, "admin/receipts/bulk_replay.html", context)

    def progress_view(self, request: HttpRequest, bulk_id: UUID) -> HttpResponse:
        """The part of the page that moves, for its script."""
        if not self.has_view_permission(request):
            return refuse(request, "see bulk replays", back=reverse("admin:index"))
        return TemplateResponse(request, "admin/receipts/_bulk_progress.html", _progress(request, _find(bulk_id)))

    def start_view(self, request: HttpRequest) -> HttpResponse:
        """POST: freeze the plan that was shown, then follow it. A refusal gives the plan back with the reason."""
        if not request.user.has_perm(REPLAY):
            return refuse(request, _ACTION, back=reverse("admin:index"))
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            plan = Plan.unseal(request.POST.get("plan", ""), request.user)
        except InvalidRequest as error:
            messages.error(request, error.detail)
            return see_other(reverse("admin:receipts_receipt_changelist"))
        try:
            bulk = bulk_replays.start(user=request.user, plan=plan, reason=request.POST.get("reason", ""))
        except ReceiptsError as error:
            return planning.plan_page(request, plan, media=self.media, error=error)
        messages.success(
            request, f"Bulk replay {bulk} is started. Nothing is filed yet: the receipts below say what happens."
        )
        return see_other(_address(bulk))

    def stop_view(self, request: HttpRequest, bulk_id: UUID) -> HttpResponse:
        """POST: nothing more begins."""
        bulk = _find(bulk_id)
        if not request.user.has_perm(REPLAY):
            return refuse(request, "stop a bulk replay", back=_address(bulk))
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        stopped = bulk_replays.stop(user=request.user, bulk=bulk)
        if stopped is None:
            messages.warning(request, f"{bulk} had ended or was stopped before: nothing was changed.")
        else:
            messages.success(
                request, f"Stopped: {bulk_words.many(stopped)} had not begun and will not. What had begun goes on."
            )
        return see_other(_address(bulk))


def _progress(request: HttpRequest, bulk: BulkReplay) -> dict[str, Any]:
    tally = bulk_replays.tally(bulk.pk)
    state = request.GET.get("state", "")
    chosen = state if state in ItemState.values else ""
    page = Paginator(_items(bulk, chosen), PAGE_SIZE).get_page(request.GET.get("p"))
    return {
        "bulk": bulk,
        "tally": tally,
        "standing": bulk_words.standing(bulk),
        "happened": bulk_words.happened(tally),
        "percent": 100 * tally.ended // tally.chosen if tally.chosen else 100,
        "filter": bulk_words.ordered(bulk.filter),
        "created": show.moment(bulk.created_at),
        "started": show.moment(bulk.started_at),
        "finished": show.moment(bulk.finished_at),
        "tabs": bulk_words.tabs(tally, chosen),
        "state": chosen,
        "page": page,
        "rows": [_row(item) for item in page.object_list],
    }


def _items(bulk: BulkReplay, state: str) -> QuerySet[BulkReplayItem]:
    rows = bulk.items.select_related("receipt", "new_receipt", "look_at").order_by("position")
    return rows.filter(state=state) if state else rows


def _row(item: BulkReplayItem) -> dict[str, SafeString | str]:
    return {
        "receipt": show.receipt(item.receipt),
        "subject": item.receipt.subject,
        "planned": bulk_words.verdict(item.verdict),
        "badge": show.badge(item.get_state_display(), str(item.state)),
        "new": show.receipt(item.new_receipt) if item.new_receipt else "",
        "status": show.status(item.new_receipt) if item.new_receipt else "",
        "said": bulk_words.said(item),
        "look_at": show.receipt(item.look_at) if item.look_at else "",
    }


def _find(bulk_id: UUID) -> BulkReplay:
    found = bulk_replays.find(bulk_id)
    if found is None:
        raise Http404
    return found


def _address(bulk: BulkReplay) -> str:
    return reverse("admin:receipts_bulkreplay_change", args=[bulk.pk])
