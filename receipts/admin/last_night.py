"""What failed in the newest run of each scheduled workflow: by cause, and which of it is safe to replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from receipts import workflows
from receipts.admin import bulk_words, overview, show, verdicts
from receipts.admin.filters import NO_REASON
from receipts.admin.typed_filters import of_run
from receipts.lifecycle import Status
from receipts.models import Receipt, Run, Trigger
from receipts.permissions import REPLAY
from receipts.replay import verdict
from receipts.workflows import Workflow

#: Failures of one cause that are asked what their replay would be: the newest. The plan asks each of them.
LOOKED_AT = 10


def view(model_admin: admin.ModelAdmin[Receipt], request: HttpRequest) -> HttpResponse:
    """Reads only; the plan of a bulk replay is a button for those who may."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Failures of last night",
        "media": model_admin.media,
        "jobs": [_job(workflow) for workflow in workflows.registry],
        "may_replay": request.user.has_perm(REPLAY),
        "limit": settings.BULK_REPLAY_MAX,
    }
    return TemplateResponse(request, "admin/receipts/last_night.html", context)


def _job(workflow: Workflow) -> dict[str, Any]:
    run = _newest(workflow.name)
    if run is None:
        return {"name": workflow.name, "title": workflow.title, "run": None}
    held = Receipt.objects.filter(of_run(run.pk))
    counts = Counter(dict(held.order_by().values_list("status").annotate(Count("pk"))))
    failed = held.filter(status=Status.FAILED)
    causes = failed.order_by().values_list("error_code", "error_reason").annotate(count=Count("pk")).order_by("-count")
    return {
        "name": workflow.name,
        "title": workflow.title,
        "run": run,
        "link": show.link(Run, run.pk, show.second(run.started_at) + " UTC"),
        "slot": show.second(run.slot),
        "going_on": run.finished_at is None,
        "counts": {str(status): counts[status] for status in Status},
        "all": overview.address(run=str(run.pk)),
        "causes": [_cause(run, failed, str(code), reason, count) for code, reason, count in causes],
    }


def _newest(name: str) -> Run | None:
    """By the index of runs by workflow. A command's run counts too: somebody ran the night's work by hand."""
    runs = Run.objects.filter(workflow=name, parent=None, trigger__in=[Trigger.SCHEDULE, Trigger.COMMAND])
    return runs.order_by("-started_at").first()


def _cause(run: Run, failed: QuerySet[Receipt], code: str, reason: str | None, count: int) -> dict[str, Any]:
    alike = failed.filter(error_code=code, error_reason=reason)
    looked_at = list(alike.select_related("user").order_by("-created_at", "-id")[:LOOKED_AT])
    again = alike.filter(next_attempt_at__isnull=False).count()
    only = {"run": str(run.pk), "error_code": code, "error_reason": reason or NO_REASON}
    return {
        "code": code,
        "reason": reason or "",
        "sentence": show.sentence(code, reason),
        "whose_turn": show.next_step(code, reason),
        "count": count,
        "again": again,
        "first": looked_at[0].pk,
        "list": overview.address(**only),
        "too_many": count > settings.BULK_REPLAY_MAX,
        "verdicts": _verdicts(looked_at),
        "looked_at": len(looked_at),
    }


def _verdicts(receipts: Iterable[Receipt]) -> list[str]:
    """“8 could be replayed: same arguments, without the model”, “2 not: …”"""
    found: Counter[tuple[bool, str]] = Counter()
    for receipt in receipts:
        told = verdict(receipt)
        if told.refusal is None:
            found[True, verdicts.label(told.mode, told.tool)] += 1
        else:
            found[False, verdicts.words(told.refusal.code, told.refusal.reason)] += 1
    return [
        f"{bulk_words.many(count)} {'safe to replay' if safe else 'not to be replayed'}: {words}"
        for (safe, words), count in sorted(found.items(), key=lambda pair: (not pair[0][0], -pair[1]))
    ]
