"""The plan of a bulk replay: a dry run over what was selected, in the console's words. Opening it writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from receipts.admin import bulk_words, show, verdicts
from receipts.admin.filters import Recent
from receipts.bulk_plans import Plan, Planned, plan
from receipts.errors import ReceiptsError
from receipts.models import Receipt
from receipts.replay import REASON_MAX, Mode

#: Rows of the plan that are shown: of those left out, and of those that would run.
LEFT_OUT_SHOWN, RUNNING_SHOWN = 50, 20


def plan_selection(
    model_admin: admin.ModelAdmin[Receipt], request: HttpRequest, selected: QuerySet[Receipt]
) -> HttpResponse | None:
    """The page of a plan; None: there are too many, which a message says."""
    limit = settings.BULK_REPLAY_MAX
    receipts = list(selected[: limit + 1])
    if len(receipts) > limit:
        messages.error(
            request,
            f"More than {limit:,} receipts were selected, and one bulk replay takes {limit:,} at most. Nothing was"
            " planned: narrow the filter, by time or by reason for instance.",
        )
        return None
    found = plan(receipts, in_words(model_admin, request, len(receipts)))
    return plan_page(request, found, media=model_admin.media)


def in_words(model_admin: admin.ModelAdmin[Receipt], request: HttpRequest, count: int) -> dict[str, str]:
    """Which receipts were meant: the filter of the list as it was read, with its instant and zone."""
    now = timezone.now()
    across = request.POST.get("select_across") == "1"
    words = {"selected": f"{bulk_words.many(count)}, {'all that match' if across else 'ticked one by one'}"}
    listed = model_admin.get_changelist_instance(request)
    for spec in listed.filter_specs:
        for number, choice in enumerate(spec.choices(listed)):
            if number and choice["selected"]:  # the first is “All”
                words[str(spec.title)] = str(choice["display"])
                if isinstance(spec, Recent):
                    since = now - spec.spans[spec.value() or ""][1]
                    words[str(spec.title)] += f", since {show.second(since)} UTC"
    if listed.query:
        words["search"] = show.visible(listed.query)
    return words | {"as of": f"{show.second(now)} UTC"}


def plan_page(request: HttpRequest, found: Plan, *, media: Any, error: ReceiptsError | None = None) -> HttpResponse:
    """Counts by verdict, what is left out (the newest first), the first that would run, and the reason to be given."""
    left_out, running = found.excluded, found.running
    receipts = _receipts([*left_out[:LEFT_OUT_SHOWN], *running[:RUNNING_SHOWN]])
    context = {
        **admin.site.each_context(request),
        "title": "Plan of a bulk replay",
        "media": media,
        "error": error,
        "filter": found.filter,
        "total": len(found.items),
        "limit": settings.BULK_REPLAY_MAX,
        "counts": _counts(found),
        "running": len(running),
        "drafts": sum(item.verdict == Mode.DRAFT_AGAIN for item in running),
        "alike": _alike(running),
        "left_out": len(left_out),
        "left_out_rows": [_row(item, receipts) for item in left_out[:LEFT_OUT_SHOWN]],
        "running_rows": [_row(item, receipts) for item in running[:RUNNING_SHOWN]],
        "plan": found.seal(request.user),
        "reason": request.POST.get("reason", ""),
        "reason_max": REASON_MAX,
    }
    status = error.http_status if error else 200
    return TemplateResponse(request, "admin/receipts/plan.html", context, status=status)


def _counts(found: Plan) -> list[dict[str, Any]]:
    """What would run comes first, then what is left out, each by how many."""
    counted = sorted(found.counts().items(), key=lambda pair: (pair[0][0] not in list(Mode), -pair[1]))
    return [
        {
            "verdict": bulk_words.verdict(said),
            "runs": said in list(Mode),
            "why": "" if said in list(Mode) else verdicts.words(said, reason),
            "count": count,
        }
        for (said, reason), count in counted
    ]


def _receipts(items: Sequence[Planned]) -> dict[Any, Receipt]:
    rows = Receipt.objects.select_related("user").filter(pk__in=[item.receipt_id for item in items])
    others = Receipt.objects.filter(pk__in=[item.look_at for item in items if item.look_at])
    return {receipt.pk: receipt for receipt in [*others, *rows]} | {str(receipt.pk): receipt for receipt in others}


def _row(item: Planned, receipts: dict[Any, Receipt]) -> dict[str, Any]:
    receipt = receipts[item.receipt_id]
    other = receipts.get(item.look_at) if item.look_at else None
    return {
        "receipt": show.receipt(receipt),
        "created": show.second(receipt.created_at),
        "subject": receipt.subject,
        "who": receipt.user.username,
        "what_happened": show.what_happened(receipt),
        "verdict": bulk_words.verdict(item.verdict),
        "why": "" if item.runs else verdicts.words(item.verdict, item.reason),
        "look_at": show.receipt(other) if other else "",
        "look_at_status": show.status(other) if other else "",
    }


def _alike(running: Sequence[Planned]) -> int:
    """Receipts beyond the first that have ticket and input in common: each would make a change of its own."""
    rows = Receipt.objects.filter(pk__in=[item.receipt_id for item in running]).order_by()
    groups = rows.values("tool_name", "subject", "input_hash").annotate(count=Count("pk")).filter(count__gt=1)
    return sum(group["count"] - 1 for group in groups)
