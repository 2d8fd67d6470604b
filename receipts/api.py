"""Receipts and runs over REST: read, and retried. Filing lives with the tickets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from receipts import flow, narration, workflows
from receipts.errors import NotFound, PermissionDenied, ReceiptsError
from receipts.filters import ReceiptFilter, RunFilter
from receipts.models import Attempt, Receipt, Run
from receipts.pages import MAX_PAGE_SIZE, Keyset
from receipts.permissions import SEES_ALL
from receipts.problems import problem
from receipts.runner import Inflight, running
from receipts.serializers import (
    EventSerializer,
    ReceiptSerializer,
    RunReceiptListSerializer,
    RunSerializer,
    RunSummarySerializer,
    WorkflowListSerializer,
)
from receipts.told import (
    API,
    attach_decisions,
    holds_others,
    represent,
    representable,
    run_json,
    run_receipt,
    run_summary,
    workflow_json,
)
from receipts.wire import EVENT_STREAM, EventStreamRenderer, Wire, answer, parse_uuid, prefers_async, problems


def visible_receipts(user: Any) -> QuerySet[Receipt]:
    """The receipts that a person may see: all with `view_receipt`, else those they pressed or that are on their behalf.

    With all that `represent` needs.
    """
    rows = representable(Receipt.objects.all())
    return rows if user.has_perm(SEES_ALL) else rows.filter(Q(user=user) | Q(on_behalf_of=user))


def visible_runs(user: Any) -> QuerySet[Run]:
    """The runs that a person may see: all with `view_receipt`, else those that they started."""
    rows = Run.objects.select_related("actor")
    return rows if user.has_perm(SEES_ALL) else rows.filter(actor=user)


def find_receipt(user: Any, receipt_id: str) -> Receipt:
    """Raises: NotFound, the same for a receipt that is not there, not visible or not an id at all."""
    receipt = visible_receipts(user).filter(pk=parse_uuid(receipt_id)).first()
    if receipt is None:
        raise NotFound
    return receipt


def show_receipts(receipts: list[Receipt]) -> list[dict[str, Any]]:
    attach_decisions(receipts)
    return [represent(receipt) for receipt in receipts]


class Stream:
    """The bytes of a reader's narration, counted among the process's open streams until the server closes it.

    A class, because a generator that the client left before its first byte would never run its `finally`.
    """

    def __init__(self, events: Iterator[bytes]) -> None:
        self._events = events
        self._open = True

    def __iter__(self) -> Iterator[bytes]:
        return self._events

    def close(self) -> None:
        """Called by the server, whatever became of the client."""
        if self._open:
            self._open = False
            narration.streams.give_back()


@contextmanager
def place_for_stream() -> Iterator[None]:
    """Take a place among the open streams; given back here only if the view fails, else by `Stream.close`.

    For readers only: a press has its place among the attempts in flight. Raises: Overloaded.
    """
    narration.streams.take()
    try:
        yield
    except BaseException:
        narration.streams.give_back()
        raise


def event_stream(
    receipt: Receipt,
    inflight: Inflight | None,
    *,
    reader: Any,
    headers: dict[str, str] | None = None,
    in_place: bool = False,
) -> StreamingHttpResponse:
    """The narration of a receipt as an answer; `in_place` when it was given a `place_for_stream`.

    Only the person who pressed sees the words of the draft. The database connection is given back while it lasts.
    """
    events = narration.narrate(receipt, inflight, drafts=receipt.user_id == reader.pk)
    body = Stream(events) if in_place else events
    response = StreamingHttpResponse(body, content_type=EVENT_STREAM, headers=headers)
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"  # nginx would collect the words of a draft otherwise
    return response


def answer_filing(filing: flow.Filing, *, reader: Any, narrated: bool, respond_async: bool) -> HttpResponseBase:
    """A press in the way that the client chose to wait: stream, 202, or the settled receipt."""
    headers = {"Location": f"{API}/receipts/{filing.receipt.pk}"}
    if filing.deduplicated:
        headers["Idempotent-Replayed"] = "true"
    if narrated:
        return event_stream(filing.receipt, filing.inflight, reader=reader, headers=headers)
    if respond_async and not filing.deduplicated:
        headers["Preference-Applied"] = "respond-async"
        return answer(represent(filing.receipt), 202, headers)
    receipt = flow.wait(filing)
    try:
        flow.answer_of(receipt)
    except ReceiptsError as error:
        return problem(error, headers)
    attach_decisions([receipt])
    return answer(represent(receipt), 200 if filing.deduplicated else receipt.http_status or 201, headers)


#: How a press or a retry is answered, and how to ask for it; for OpenAPI.
PREFER = OpenApiParameter(
    "Prefer",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="`respond-async`: 202 at once; the receipt tells the rest",
)
FILED = {
    (201, "application/json"): OpenApiResponse(ReceiptSerializer, description="filed"),
    (200, "application/json"): OpenApiResponse(ReceiptSerializer, description="filed before; nothing ran"),
    (202, "application/json"): OpenApiResponse(ReceiptSerializer, description="accepted, pending"),
    (200, EVENT_STREAM): OpenApiResponse(OpenApiTypes.STR, description="the press as it happens"),
}
RECEIPT_ID = OpenApiParameter("receipt_id", OpenApiTypes.UUID, OpenApiParameter.PATH)
RUN_ID = OpenApiParameter("run_id", OpenApiTypes.UUID, OpenApiParameter.PATH)


class ReceiptViews(Wire):
    """Receipts: list and read."""

    queryset = Receipt.objects.none()
    serializer_class = ReceiptSerializer
    filterset_class = ReceiptFilter

    @extend_schema(responses={200: ReceiptSerializer(many=True), **problems(400)})
    def list(self, request: Request) -> HttpResponse:
        """Newest first."""
        return self.page_of(visible_receipts(request.user), show_receipts)

    @extend_schema(parameters=[RECEIPT_ID], responses={200: ReceiptSerializer, **problems(404)}, filters=False)
    def retrieve(self, request: Request, receipt_id: str) -> HttpResponse:
        """The row as it is now."""
        return answer(show_receipts([find_receipt(request.user, receipt_id)])[0])

    @extend_schema(parameters=[RECEIPT_ID], responses={200: RunReceiptListSerializer, **problems(404)}, filters=False)
    def run_receipts(self, request: Request, receipt_id: str) -> HttpResponse:
        """One run receipt for each attempt that has ended, oldest first."""
        receipt = find_receipt(request.user, receipt_id)
        attempts = Attempt.objects.filter(receipt=receipt).order_by("attempt")
        rows = attempts.select_related("actor", "receipt__run", "receipt__on_behalf_of")
        return answer({"results": [run_receipt(row) for row in rows], "next": None, "previous": None})


class EventViews(Wire):
    """What happened, for a client that reconnects."""

    queryset = Receipt.objects.none()
    renderer_classes = [JSONRenderer, EventStreamRenderer]
    pagination_class = None

    @extend_schema(
        parameters=[RECEIPT_ID],
        responses={
            (200, "application/json"): EventSerializer(many=True),
            (200, EVENT_STREAM): OpenApiResponse(OpenApiTypes.STR, description="the same events as they happen"),
            **problems(404),
        },
    )
    def list(self, request: Request, receipt_id: str) -> HttpResponseBase:
        """The receipt's events: a JSON list, or with `Accept: text/event-stream` a stream until it is settled."""
        narrated = request.accepted_media_type == EVENT_STREAM
        if not narrated:
            return answer(narration.snapshot(find_receipt(request.user, receipt_id)))
        with place_for_stream():
            receipt = find_receipt(request.user, receipt_id)
            return event_stream(receipt, running(receipt.pk), reader=request.user, in_place=True)


class RetryViews(Wire):
    """Continue a receipt after a retryable end."""

    queryset = Receipt.objects.none()
    serializer_class = ReceiptSerializer
    renderer_classes = [JSONRenderer, EventStreamRenderer]

    @extend_schema(
        operation_id="retry_receipt",
        parameters=[RECEIPT_ID, PREFER],
        request=None,
        responses={**FILED, **problems(400, 403, 404, 409, 422, 429, 502, 503, 504)},
    )
    def create(self, request: Request, receipt_id: str) -> HttpResponseBase:
        """The same receipt, next attempt: for whoever pressed, and with `retry_receipt` for others'."""
        narrated = request.accepted_media_type == EVENT_STREAM
        respond_async = prefers_async(request._request) and not narrated
        receipt = find_receipt(request.user, receipt_id)
        filing = flow.retry(user=request.user, receipt=receipt, respond_async=respond_async)
        return answer_filing(filing, reader=request.user, narrated=narrated, respond_async=respond_async)


class CancelViews(Wire):
    """End a pending receipt before it is filed."""

    queryset = Receipt.objects.none()
    serializer_class = ReceiptSerializer

    @extend_schema(
        operation_id="cancel_receipt",
        parameters=[RECEIPT_ID],
        request=None,
        responses={200: ReceiptSerializer, **problems(403, 404, 409)},
    )
    def create(self, request: Request, receipt_id: str) -> HttpResponse:
        """Settle it `cancelled`; nothing will be filed. 409 where it was settled first."""
        cancelled = flow.cancel(user=request.user, receipt=find_receipt(request.user, receipt_id))
        return answer(show_receipts([cancelled])[0])


class RunPages(Keyset):
    """A run's id begins with its time, and the primary key is the one index that covers all runs."""

    order = ("id",)
    readers = (UUID,)


class RunViews(Wire):
    """Runs: list and manifest."""

    queryset = Run.objects.none()
    serializer_class = RunSummarySerializer
    filterset_class = RunFilter
    pagination_class = RunPages

    @extend_schema(responses={200: RunSummarySerializer(many=True), **problems(400)})
    def list(self, request: Request) -> HttpResponse:
        """Newest first."""
        return self.page_of(visible_runs(request.user), lambda runs: [run_summary(run) for run in runs])

    @extend_schema(parameters=[RUN_ID], responses={200: RunSerializer, **problems(404)}, filters=False)
    def retrieve(self, request: Request, run_id: str) -> HttpResponse:
        """The manifest: the context that travels with the run, and its receipts."""
        key: UUID = parse_uuid(run_id)
        run = visible_runs(request.user).filter(pk=key).first()
        if run is None:
            raise NotFound
        own = Q(run=run) | Q(run__parent=run) if holds_others(run) else Q(run=run)
        receipts = visible_receipts(request.user).filter(own).order_by("created_at", "id")[:MAX_PAGE_SIZE]
        return answer(run_json(run, receipts))


class WorkflowViews(Wire):
    """Scheduled workflows."""

    queryset = Run.objects.none()
    serializer_class = WorkflowListSerializer
    pagination_class = None

    @extend_schema(
        operation_id="workflows_list", responses={200: WorkflowListSerializer, **problems(403)}, filters=False
    )
    def retrieve(self, request: Request) -> HttpResponse:
        """Every workflow: when it runs next, how its last run stands, and which runs are missing."""
        if not request.user.has_perm(SEES_ALL):
            raise PermissionDenied
        now = timezone.now()
        shown = [workflow_json(workflow, now) for workflow in workflows.registry]
        return answer({"results": shown, "next": None, "previous": None})
