"""Bulk replay over REST: a plan, what it becomes, and its stop. The same plans and the same worker as the console's."""

from __future__ import annotations

import datetime as dt
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from django_filters.utils import translate_validation
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request

from receipts import bulk_replays, permissions
from receipts.api import visible_receipts
from receipts.bulk_plans import Plan, plan
from receipts.errors import InvalidRequest, NotFound
from receipts.filters import ReceiptFilter
from receipts.models import BulkReplay, BulkReplayItem, Receipt
from receipts.presses import harmless, refuse_unknown
from receipts.replay import Mode
from receipts.serializers import BulkPlanSerializer, BulkReplaySerializer, StartBulkReplaySerializer
from receipts.told import API, instant
from receipts.wire import Wire, answer, body_of, parse_uuid, problems

#: What names the receipts: one of them.
SOURCES = ("receipts", "filter", "plan")
FIELDS = (*SOURCES, "reason", "dry_run")
BULK_ID = OpenApiParameter("bulk_replay_id", OpenApiTypes.UUID, OpenApiParameter.PATH)


class BulkReplayViews(Wire):
    """Many replays with one reason."""

    queryset = BulkReplay.objects.none()
    serializer_class = BulkReplaySerializer
    pagination_class = None

    @extend_schema(
        operation_id="bulk_replay",
        request=StartBulkReplaySerializer,
        responses={
            (200, "application/json"): OpenApiResponse(BulkPlanSerializer, description="the dry run; nothing was run"),
            (202, "application/json"): OpenApiResponse(BulkReplaySerializer, description="started, for a worker"),
            **problems(400, 403, 415, 503),
        },
        filters=False,
    )
    def create(self, request: Request) -> HttpResponse:
        """Plan a bulk replay (`dry_run`), or start one: of a plan exactly what it showed, else of what is found now."""
        permissions.require(request.user, permissions.REPLAY)
        body = body_of(request)
        dry_run = _checked(body)
        found = _plan(request, body)
        if dry_run:
            return answer(_plan_json(found, request.user))
        bulk = bulk_replays.start(user=request.user, plan=found, reason=body.get("reason"))
        return answer(bulk_json(_find(bulk.pk)), 202, {"Location": f"{API}/bulk-replays/{bulk.pk}"})

    @extend_schema(
        operation_id="bulk_replay_retrieve",
        parameters=[BULK_ID],
        responses={200: BulkReplaySerializer, **problems(404)},
        filters=False,
    )
    def retrieve(self, request: Request, bulk_replay_id: str) -> HttpResponse:
        """How far it is, counted from the rows, and what became of each receipt."""
        return answer(bulk_json(_visible(request, bulk_replay_id)))

    @extend_schema(
        operation_id="bulk_replay_stop",
        parameters=[BULK_ID],
        request=None,
        responses={200: BulkReplaySerializer, **problems(403, 404)},
        filters=False,
    )
    def stop(self, request: Request, bulk_replay_id: str) -> HttpResponse:
        """Let nothing more begin; what has begun goes on to its end. Once it has ended, this changes nothing."""
        bulk = _visible(request, bulk_replay_id)
        bulk_replays.stop(user=request.user, bulk=bulk)
        return answer(bulk_json(_find(bulk.pk)))


def _visible(request: Request, bulk_replay_id: str) -> BulkReplay:
    """Raises: NotFound, also for whoever does not see all receipts."""
    key = parse_uuid(bulk_replay_id)
    if not request.user.has_perm(permissions.SEES_ALL):
        raise NotFound
    return _find(key)


def _find(key: UUID) -> BulkReplay:
    found = bulk_replays.find(key)
    if found is None:
        raise NotFound
    return found


# ── what a client may send ───────────────────────────────────────────────────────────────────────────────────────


def _checked(body: dict[str, Any]) -> bool:
    """Whether it is a dry run. Raises: InvalidRequest naming the field."""
    refuse_unknown(body, FIELDS)
    if len([name for name in SOURCES if body.get(name) is not None]) != 1:
        raise InvalidRequest(fields={"receipts": "or a filter, or a plan: send exactly one of the three"})
    dry_run = body.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise InvalidRequest(fields={"dry_run": "must be true or false"})
    return dry_run


def _plan(request: Request, body: dict[str, Any]) -> Plan:
    """Raises: InvalidRequest naming the field."""
    if (sealed := body.get("plan")) is not None:
        if not isinstance(sealed, str):
            raise InvalidRequest(fields={"plan": "must be a text, as the dry run gave it"})
        return Plan.unseal(sealed, request.user)
    seen = visible_receipts(request.user)
    if body.get("receipts") is not None:
        rows, words = _by_id(seen, body["receipts"])
    else:
        rows, words = _by_filter(seen, body["filter"])
    now = timezone.now().astimezone(dt.UTC)
    return plan(rows, {"selected": f"{len(rows):,} receipts, {words.pop('')}"} | words | {"as of": f"{now:%F %T} UTC"})


def _by_id(seen: QuerySet[Receipt], ids: Any) -> tuple[list[Receipt], dict[str, str]]:
    if not isinstance(ids, list) or not ids or not all(isinstance(key, str) for key in ids):
        raise InvalidRequest(fields={"receipts": "must be a list of receipts' ids"})
    if len(ids) > settings.BULK_REPLAY_MAX:
        raise InvalidRequest(fields={"receipts": f"are more than {settings.BULK_REPLAY_MAX:,}"})
    try:
        keys = {parse_uuid(key) for key in ids}
    except NotFound:
        raise InvalidRequest(fields={"receipts": "hold what is no id"}) from None
    rows = list(seen.filter(pk__in=keys))
    if len(rows) < len(keys):
        raise InvalidRequest(fields={"receipts": "hold an id that no receipt has"})
    return rows, {"": "by id"}


def _by_filter(seen: QuerySet[Receipt], given: Any) -> tuple[list[Receipt], dict[str, str]]:
    if not isinstance(given, dict) or not all(isinstance(value, str) and value.strip() for value in given.values()):
        raise InvalidRequest(fields={"filter": "must be an object of texts, as the parameters of /receipts"})
    unknown = {name: "is not a parameter of /receipts" for name in given if name not in ReceiptFilter.base_filters}
    if unknown:
        raise InvalidRequest(fields={f"filter.{harmless(name)}": why for name, why in unknown.items()})
    filtered = ReceiptFilter(data=given, queryset=seen)
    if not filtered.is_valid():
        raise translate_validation(filtered.errors)
    rows = list(filtered.qs[: settings.BULK_REPLAY_MAX + 1])
    if len(rows) > settings.BULK_REPLAY_MAX:
        raise InvalidRequest(fields={"filter": f"matches more than {settings.BULK_REPLAY_MAX:,} receipts: narrow it"})
    return rows, {"": "all that match", **given}


# ── what is answered ─────────────────────────────────────────────────────────────────────────────────────────────


def _plan_json(found: Plan, user: Any) -> dict[str, Any]:
    counts = [
        {"verdict": verdict, "reason": reason, "runs": verdict in list(Mode), "receipts": count}
        for (verdict, reason), count in found.counts().most_common()
    ]
    return {
        "filter": found.filter,
        "replays": len(found.running),
        "excluded": len(found.excluded),
        "counts": counts,
        "items": [
            {
                "receipt_id": str(item.receipt_id),
                "verdict": item.verdict,
                "reason": item.reason,
                "look_at": item.look_at,
            }
            for item in found.items
        ],
        "plan": found.seal(user),
    }


def bulk_json(bulk: BulkReplay) -> dict[str, Any]:
    """A bulk replay with its items. Needs `actor` and `stop_requested_by`."""
    tally = bulk_replays.tally(bulk.pk)
    own = f"{API}/bulk-replays/{bulk.pk}"
    return {
        "bulk_replay_id": str(bulk.pk),
        "actor": bulk.actor.username,
        "reason": bulk.reason,
        "filter": bulk.filter,
        "created_at": instant(bulk.created_at),
        "started_at": instant(bulk.started_at),
        "stop_requested_at": instant(bulk.stop_requested_at),
        "stop_requested_by": bulk.stop_requested_by.username if bulk.stop_requested_by else None,
        "finished_at": instant(bulk.finished_at),
        "tally": vars(tally) | {"replayed": tally.replayed},
        "items": [_item_json(item) for item in bulk.items.order_by("position")],
        "links": {"self": own, "stop": f"{own}/stop", "page": f"/admin/receipts/bulkreplay/{bulk.pk}/change/"},
    }


def _item_json(item: BulkReplayItem) -> dict[str, Any]:
    return {
        "receipt_id": str(item.receipt_id),
        "verdict": item.verdict,
        "state": str(item.state),
        "new_receipt_id": str(item.new_receipt_id) if item.new_receipt_id else None,
        "refusal_code": item.refusal_code,
        "refusal_reason": item.refusal_reason,
        "look_at": str(item.look_at_id) if item.look_at_id else None,
    }
