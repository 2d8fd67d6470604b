"""Replay over REST: GET is the dry run, POST the deed. One engine behind both, `receipts.replay`."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request

from receipts import flow, ledger, permissions
from receipts.api import PREFER, RECEIPT_ID, find_receipt, show_receipts
from receipts.contracts import registry
from receipts.errors import InvalidRequest, NotFound, ReceiptsError
from receipts.models import Receipt
from receipts.presses import refuse_unknown
from receipts.replay import Mode, Verdict, replay, verdict
from receipts.serializers import DryRunSerializer, ReceiptSerializer, ReplaySerializer
from receipts.told import API
from receipts.wire import Wire, answer, body_of, prefers_async, problems

FIELDS = ("reason", "mode", "contract", "expected_replay_no")
MODE = OpenApiParameter("mode", OpenApiTypes.STR, enum=[mode.value for mode in Mode])
CONTRACT = OpenApiParameter("contract", OpenApiTypes.STR, description="another version of the same tool, `name@2`")
REPLAYED = {
    (201, "application/json"): OpenApiResponse(
        ReceiptSerializer, description="replayed: the new receipt, whatever became of it"
    ),
    (202, "application/json"): OpenApiResponse(ReceiptSerializer, description="the new receipt, queued"),
}


class ReplayViews(Wire):
    """A settled receipt as a new run: what that would be, and doing it."""

    queryset = Receipt.objects.none()
    serializer_class = ReplaySerializer
    pagination_class = None

    @extend_schema(
        operation_id="preview_replay",
        parameters=[RECEIPT_ID, MODE, CONTRACT],
        responses={200: DryRunSerializer, **problems(400, 403, 404)},
        filters=False,
    )
    def retrieve(self, request: Request, receipt_id: str) -> HttpResponse:
        """The dry run: what a replay would run on, or why it would be refused. Opens nothing."""
        receipt = _permitted(request, receipt_id)
        given = request.query_params.dict()
        refuse_unknown(given, ("mode", "contract"))
        found = verdict(receipt, mode=_mode(given), contract=_contract(given))
        if isinstance(found.refusal, InvalidRequest):
            raise found.refusal
        return answer(dry_run(found))

    @extend_schema(
        operation_id="replay_receipt",
        parameters=[RECEIPT_ID, PREFER],
        request=ReplaySerializer,
        responses={**REPLAYED, **problems(400, 403, 404, 409, 415, 429, 503)},
    )
    def create(self, request: Request, receipt_id: str) -> HttpResponse:
        """A new run and a new receipt, linked to this one, which stays as it is. Needs `replay_receipt`."""
        respond_async = prefers_async(request._request)
        receipt = _permitted(request, receipt_id)
        body = body_of(request)
        refuse_unknown(body, FIELDS)
        filing = replay(
            user=request.user,
            receipt=receipt,
            reason=body.get("reason"),
            mode=_mode(body),
            contract=_contract(body),
            expected_no=_expected_no(body),
            queued=respond_async,
        )
        headers = {"Location": f"{API}/receipts/{filing.receipt.pk}"}
        if respond_async:
            return answer(_as_it_is(filing.receipt), 202, headers | {"Preference-Applied": "respond-async"})
        return answer(_as_it_is(flow.wait(filing)), 201, headers)


def dry_run(found: Verdict) -> dict[str, Any]:
    """A verdict as JSON. What it would run on is private, and not in it."""
    tool, receipt = found.tool, found.receipt
    held = [other.contract for other in registry if other.name == receipt.tool_name]
    return {
        "replayable": found.refusal is None,
        "mode": str(found.mode) if found.mode else None,
        "contract": tool.contract if tool else receipt.contract,
        "contracts": sorted(held, key=lambda contract: int(contract.partition("@")[2])),
        "expected_replay_no": found.replay_no,
        "refusal": _refusal(found.refusal) if found.refusal else None,
    }


def _refusal(error: ReceiptsError) -> dict[str, Any]:
    return {
        "code": error.code,
        "reason": error.reason,
        "detail": error.detail,
        "next_step": error.next_step,
        "receipt_id": error.receipt_id,
    }


def _permitted(request: Request, receipt_id: str) -> Receipt:
    """Raises: NotFound before anything is said of permissions; PermissionDenied, recorded."""
    receipt = find_receipt(request.user, receipt_id)
    permissions.require(request.user, permissions.REPLAY, receipt)
    return receipt


def _as_it_is(receipt: Receipt) -> dict[str, Any]:
    """The new receipt, from its row."""
    row = ledger.read(receipt.pk)
    if row is None:
        raise NotFound
    return show_receipts([row])[0]


# ── what a client may send ───────────────────────────────────────────────────────────────────────────────────────


def _mode(given: dict[str, Any]) -> Mode | None:
    value = given.get("mode")
    if value is None:
        return None
    if value not in list(Mode):
        raise InvalidRequest(fields={"mode": f"must be one of {', '.join(Mode)}"})
    return Mode(value)


def _contract(given: dict[str, Any]) -> str | None:
    value = given.get("contract")
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise InvalidRequest(fields={"contract": "must be a contract like name@1"})
    return value


def _expected_no(given: dict[str, Any]) -> int | None:
    value = given.get("expected_replay_no")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidRequest(fields={"expected_replay_no": "must be a whole number from 1 on"})
    return value
