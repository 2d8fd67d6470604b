"""What every API view shares: sign-in before anything else, strict bodies, negotiation, plain JSON answers."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import OpenApiResponse
from rest_framework.negotiation import BaseContentNegotiation, DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from receipts import errors
from receipts.pages import Keyset
from receipts.parsers import StrictJSONParser, body_error
from receipts.serializers import ProblemSerializer

JSON, PROBLEM_JSON, EVENT_STREAM = "application/json", "application/problem+json", "text/event-stream"


#: A quoted string of a header's value; one that never closes reaches to the end.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*("|\\?$)')


class EventStreamRenderer(BaseRenderer):
    """Declares that a view can narrate; the view itself writes the stream."""

    media_type = EVENT_STREAM
    format = "event-stream"
    charset = None


class Negotiation(BaseContentNegotiation):
    """The Accept header with its q-values, which DRF's own negotiation ignores.

    A client that asks for problem+json only gets JSON answers: it has said which errors it understands.
    """

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        return DefaultContentNegotiation().select_parser(request, parsers)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """Raises: NotAcceptable."""
        offered = {str(renderer.media_type): renderer for renderer in renderers}
        chosen = preferred(request._request, [*offered, PROBLEM_JSON])
        if chosen is None:
            raise errors.NotAcceptable
        media_type = JSON if chosen == PROBLEM_JSON else chosen
        return offered[media_type], media_type


def preferred(request: HttpRequest, media_types: list[str]) -> str | None:
    """The offered type that the Accept header likes best; the first of them when it has no preference."""
    accept = request.META.get("HTTP_ACCEPT")
    if not accept or accept in ("*/*", JSON):  # the press of a program, without the work of parsing
        return media_types[0] if accept != JSON or JSON in media_types else None
    plain = HttpRequest()
    plain.META["HTTP_ACCEPT"] = ",".join(_without_parameters(wish) for wish in accept.split(","))
    return plain.get_preferred_type(media_types)


def _without_parameters(wish: str) -> str:
    """`application/json; charset=utf-8; q=0.5` → `application/json;q=0.5`: Django would match the charset, too."""
    media_type, *parameters = wish.split(";")
    return ";".join([media_type, *(p for p in parameters if p.strip().lower().startswith("q="))])


def prefers_async(request: HttpRequest) -> bool:
    """Whether the Prefer header (RFC 7240) asks for `respond-async`."""
    wishes = _QUOTED.sub("", request.META.get("HTTP_PREFER", "")).split(",")
    return any(wish.partition(";")[0].strip().lower() == "respond-async" for wish in wishes)


def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    """A JSON answer. Plain rather than DRF's Response: rendering is one call on the path of every press."""
    return HttpResponse(json.dumps(data), content_type=JSON, status=status, headers=headers)


def body_of(request: Request) -> Any:
    """The parsed body. Raises: InvalidRequest, UnsupportedMediaType.

    WSGI has no word for a body without its length, so one that comes in chunks would be read as an empty one.
    """
    if "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower() and not request.META.get("CONTENT_LENGTH"):
        raise body_error("came in chunks, without its length: send it with a Content-Length header")
    return request.data


def parse_uuid(text: str) -> uuid.UUID:
    """An id of a URL in its canonical form. Raises: NotFound, as for an id that nobody has."""
    try:
        value = uuid.UUID(text)
    except ValueError:
        raise errors.NotFound from None
    if str(value) != text.lower():  # UUID() also reads braces, urn: and bare hex
        raise errors.NotFound
    return value


class Wire(GenericViewSet[Any]):
    """Base of the API's views."""

    permission_classes = [IsAuthenticated]
    parser_classes = [StrictJSONParser]
    renderer_classes = [JSONRenderer]
    content_negotiation_class = Negotiation
    pagination_class: type[Keyset] | None = Keyset
    format_kwarg = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Sign-in first (DRF negotiates first): nobody learns anything before that."""
        self.perform_authentication(request)
        self.check_permissions(request)
        request.accepted_renderer, request.accepted_media_type = self.perform_content_negotiation(request)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def page_of(self, queryset: QuerySet[Any], show: Callable[[list[Any]], list[Any]]) -> HttpResponse:
        """A filtered page of a list: `{results, next, previous}`. Raises: InvalidRequest."""
        rows = self.paginate_queryset(self.filtered(queryset, "cursor", "page_size"))
        assert isinstance(self.paginator, Keyset)  # noqa: S101 - for the type checker
        return answer({"results": show(list(rows or ())), **self.paginator.links()})

    def filtered(self, queryset: QuerySet[Any], *beside: str) -> QuerySet[Any]:
        """The rows that the parameters ask for; `beside` names those that are no filters.

        Raises: InvalidRequest naming a parameter that is unknown, empty or garbled: a filter that was not understood
        must not answer with everything.
        """
        filterset = getattr(self, "filterset_class", None)
        known = {*beside, *(filterset.base_filters if filterset else ())}
        wrong = {}
        for name, value in self.request.query_params.items():
            if name not in known:
                wrong[name] = "is not a parameter of this list"
            elif not str(value).strip():
                wrong[name] = "is empty"
        if wrong:
            raise errors.InvalidRequest(fields=wrong)
        return self.filter_queryset(queryset)


def problems(*statuses: int) -> dict[Any, OpenApiResponse]:
    """Error answers for the OpenAPI schema: 401 always, and these."""
    said = {code.http_status: code.title for code in reversed(errors.BY_CODE.values())}
    return {
        (status, PROBLEM_JSON): OpenApiResponse(ProblemSerializer, description=said[status])
        for status in sorted({401, *statuses})
    }
