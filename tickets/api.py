"""Tickets over REST, and the press itself: each view makes one call into the flow or the domain."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from receipts import flow
from receipts.api import FILED, PREFER, answer_filing, show_receipts, visible_receipts
from receipts.errors import NotFound, PermissionDenied, ReceiptsError
from receipts.keys import parse_key
from receipts.models import Receipt
from receipts.pages import Keyset, read_moment
from receipts.parsers import body_error
from receipts.permissions import FILE
from receipts.serializers import ReceiptSerializer
from receipts.wire import EVENT_STREAM, EventStreamRenderer, Wire, answer, body_of, prefers_async, problems
from tickets import actions
from tickets.filters import TicketFilter
from tickets.models import TICKET_ID, Followup, OutgoingEmail, Resolution, Ticket
from tickets.outbox import deliveries
from tickets.serializers import (
    EmptyPressSerializer,
    FollowupSerializer,
    NewTicketSerializer,
    OutgoingEmailSerializer,
    PressSerializer,
    ResolutionSerializer,
    TicketChangeSerializer,
    TicketSerializer,
    TicketWithConversationSerializer,
    conversation_json,
    email_json,
    followup_json,
    resolution_json,
    ticket_json,
)

#: Turns that a ticket is read with; older ones stay in the database.
CONVERSATION_TURNS = 200

TICKET = OpenApiParameter(
    "ticket_id", OpenApiTypes.STR, OpenApiParameter.PATH, description="`TCK-1008`", pattern=f"^{TICKET_ID}$"
)
_ANSWER_HEADERS: tuple[tuple[str, list[int | str], str], ...] = (
    ("Location", [200, 201, 202], "the receipt"),
    ("Idempotent-Replayed", [200, 409, 422, 502], "`true`: answered from the ledger, nothing ran"),
    ("Preference-Applied", [202], "`respond-async`"),
    ("Retry-After", [409, 429, 503], "seconds after which asking again makes sense"),
)
_TICKET_ID = re.compile(TICKET_ID)
_FILED_ID = re.compile(r"(?:FUP|RES|MSG)-[A-Za-z0-9]{1,32}")


def _read_id(form: re.Pattern[str]) -> Any:
    def read(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(text)
        return text

    return staticmethod(read)


def _known_form(ticket_id: str) -> str:
    """Raises: NotFound for what cannot be a ticket's id; NUL in an address never reaches the database."""
    if not _TICKET_ID.fullmatch(ticket_id):
        raise NotFound
    return ticket_id


def _must_be_lead(request: Request) -> None:
    """Raises: PermissionDenied."""
    if not request.user.has_perm(FILE):
        raise PermissionDenied


def _valid(serializer: NewTicketSerializer | TicketChangeSerializer) -> dict[str, Any]:
    """Raises: ValidationError naming the fields."""
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


class TicketPages(Keyset):
    """By last change."""

    order = ("updated_at", "id")
    readers = (read_moment, _read_id(_TICKET_ID).__func__)


class ByTicket(Keyset):
    """What was done on a ticket, by time."""

    readers = (read_moment, _read_id(_FILED_ID).__func__)


class TicketViews(Wire):
    """Tickets: list, open, read, change. Every signed-in person sees every ticket; leads write."""

    queryset = Ticket.objects.all()
    serializer_class = TicketSerializer
    filterset_class = TicketFilter
    pagination_class = TicketPages

    @extend_schema(responses={200: TicketSerializer(many=True), **problems(400)})
    def list(self, request: Request) -> HttpResponse:
        """Last changed first."""
        return self.page_of(Ticket.objects.all(), lambda tickets: [ticket_json(ticket) for ticket in tickets])

    @extend_schema(
        request=NewTicketSerializer,
        responses={201: TicketWithConversationSerializer, **problems(400, 403, 415)},
    )
    def create(self, request: Request) -> HttpResponse:
        """Open a ticket; it gets the next number."""
        _must_be_lead(request)
        ticket = actions.open_ticket(**_valid(NewTicketSerializer(data=body_of(request))))
        return answer(_with_conversation(ticket), 201, {"Location": f"/api/v1/tickets/{ticket.id}"})

    @extend_schema(parameters=[TICKET], responses={200: TicketWithConversationSerializer, **problems(404)})
    def retrieve(self, request: Request, ticket_id: str) -> HttpResponse:
        """A ticket with its conversation."""
        return answer(_with_conversation(_find(ticket_id)))

    @extend_schema(
        parameters=[TICKET],
        request=TicketChangeSerializer,
        responses={200: TicketWithConversationSerializer, **problems(400, 403, 404, 415)},
    )
    def partial_update(self, request: Request, ticket_id: str) -> HttpResponse:
        """Change status, priority, assignee or subject."""
        _must_be_lead(request)
        key = _find(ticket_id).pk
        changes = _valid(TicketChangeSerializer(data=body_of(request)))
        return answer(_with_conversation(actions.change_ticket(ticket_id=key, changes=changes)))


def _find(ticket_id: str) -> Ticket:
    """Raises: NotFound."""
    ticket = Ticket.objects.filter(pk=_known_form(ticket_id)).first()
    if ticket is None:
        raise NotFound
    return ticket


def _with_conversation(ticket: Ticket) -> dict[str, Any]:
    newest = list(ticket.messages.order_by("-id")[:CONVERSATION_TURNS])
    return {**ticket_json(ticket), "conversation": conversation_json(newest[::-1])}


_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    required=True,
    description="8 to 255 of `A-Za-z0-9._:~-`, bare or quoted; the same on every retry of one press",
    pattern=r"^[A-Za-z0-9._:~-]{8,255}$",
)


_View = TypeVar("_View", bound=Callable[..., HttpResponseBase])


def press_schema(operation_id: str, body: type[Any]) -> Callable[[_View], _View]:
    """How a press is declared for OpenAPI: the same for every tool, but for its name and what may be sent."""
    declared: Callable[[_View], _View] = extend_schema(
        operation_id=operation_id,
        parameters=[
            TICKET,
            _KEY,
            PREFER,
            *(
                OpenApiParameter(name, OpenApiTypes.STR, OpenApiParameter.HEADER, response=on, description=what)
                for name, on, what in _ANSWER_HEADERS
            ),
        ],
        request=body,
        responses={**FILED, **problems(400, 403, 404, 409, 415, 422, 429, 502, 503, 504)},
    )
    return declared


class PressViews(Wire):
    """A press on a ticket: one call into the flow. Which tool it means, the route says."""

    tool: str
    renderer_classes = [JSONRenderer, EventStreamRenderer]
    pagination_class = ByTicket

    def press(self, request: Request, ticket_id: str) -> HttpResponseBase:
        """File, and answer in the way that the client chose to wait."""
        narrated = request.accepted_media_type == EVENT_STREAM
        respond_async = prefers_async(request._request) and not narrated
        filing = flow.file(
            tool=self.tool,
            user=request.user,
            subject=_known_form(ticket_id),
            key=request.META.get("HTTP_IDEMPOTENCY_KEY"),
            body=lambda: _body(request),
            respond_async=respond_async,
        )
        return answer_filing(filing, reader=request.user, narrated=narrated, respond_async=respond_async)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Echo the key, once it is known to be well-formed: a client may then match answers to presses."""
        response = super().finalize_response(request, response, *args, **kwargs)
        try:
            response.headers["Idempotency-Key"] = parse_key(request.META.get("HTTP_IDEMPOTENCY_KEY"))
        except ReceiptsError:
            return response
        return response


class FollowupViews(PressViews):
    """The follow-ups of a ticket, and the press that files one."""

    tool = "file_followup"
    queryset = Followup.objects.none()
    serializer_class = FollowupSerializer

    @extend_schema(
        parameters=[TICKET],
        responses={(200, "application/json"): FollowupSerializer(many=True), **problems(400, 404)},
    )
    def list(self, request: Request, ticket_id: str) -> HttpResponse:
        """Newest first."""
        rows: QuerySet[Followup] = Followup.objects.filter(ticket=_find(ticket_id)).select_related("created_by")
        return self.page_of(rows, lambda followups: [followup_json(followup) for followup in followups])

    @press_schema("file_followup", PressSerializer)
    def create(self, request: Request, ticket_id: str) -> HttpResponseBase:
        """Draft a follow-up from the notes and file it."""
        return self.press(request, ticket_id)


class ResolutionViews(PressViews):
    """How a ticket ended, and the press that writes it down and closes the ticket."""

    tool = "close_ticket"
    queryset = Resolution.objects.none()
    serializer_class = ResolutionSerializer

    @extend_schema(
        parameters=[TICKET],
        responses={(200, "application/json"): ResolutionSerializer(many=True), **problems(400, 404)},
    )
    def list(self, request: Request, ticket_id: str) -> HttpResponse:
        """Newest first; a ticket that was reopened may have several."""
        rows: QuerySet[Resolution] = Resolution.objects.filter(ticket=_find(ticket_id)).select_related("created_by")
        return self.page_of(rows, lambda resolutions: [resolution_json(resolution) for resolution in resolutions])

    @press_schema("close_ticket", PressSerializer)
    def create(self, request: Request, ticket_id: str) -> HttpResponseBase:
        """Draft a resolution from the notes, write it down and close the ticket."""
        return self.press(request, ticket_id)


class EmailViews(PressViews):
    """The e-mails to a ticket's requester, and the press that writes one into the outbox."""

    tool = "email_requester"
    queryset = OutgoingEmail.objects.none()
    serializer_class = OutgoingEmailSerializer

    @extend_schema(
        parameters=[TICKET],
        responses={(200, "application/json"): OutgoingEmailSerializer(many=True), **problems(400, 404)},
    )
    def list(self, request: Request, ticket_id: str) -> HttpResponse:
        """Newest first, each with what its delivery's receipt says."""
        rows: QuerySet[OutgoingEmail] = OutgoingEmail.objects.filter(ticket=_find(ticket_id))
        return self.page_of(rows.select_related("created_by"), _show_emails)

    @press_schema("email_requester", PressSerializer)
    def create(self, request: Request, ticket_id: str) -> HttpResponseBase:
        """Draft an e-mail to the requester from the notes and queue it; its delivery has a receipt of its own."""
        return self.press(request, ticket_id)


def _show_emails(emails: list[OutgoingEmail]) -> list[dict[str, Any]]:
    delivered = deliveries(emails)
    return [email_json(email, delivered.get(email.pk)) for email in emails]


class ContactCheckViews(PressViews):
    """Checks of the requester's address, and the press that makes one."""

    tool = "check_contact_email"
    queryset = Receipt.objects.none()
    serializer_class = ReceiptSerializer

    @extend_schema(
        parameters=[TICKET],
        responses={(200, "application/json"): ReceiptSerializer(many=True), **problems(400, 404)},
    )
    def list(self, request: Request, ticket_id: str) -> HttpResponse:
        """The receipts of the checks that the reader may see, newest first: a check leaves nothing else behind."""
        checks = visible_receipts(request.user).filter(tool_name=self.tool, subject=_find(ticket_id).pk)
        return self.page_of(checks, show_receipts)

    @press_schema("check_contact_email", EmptyPressSerializer)
    def create(self, request: Request, ticket_id: str) -> HttpResponseBase:
        """Judge the requester's address: the decision, its reason, and until when it stands."""
        return self.press(request, ticket_id)


def _body(request: Request) -> dict[str, Any]:
    """Raises: InvalidRequest, UnsupportedMediaType."""
    data = body_of(request)
    if not isinstance(data, dict) or hasattr(data, "getlist"):  # DRF's empty form stands for "no body"
        raise body_error("is missing")
    return data
