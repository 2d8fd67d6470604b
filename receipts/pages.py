"""Cursor pagination by keyset: any page of ten million rows costs what the first costs."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Model, Q
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from receipts.errors import InvalidRequest

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200


def read_moment(text: str) -> dt.datetime:
    """In UTC. Raises: ValueError for anything but an instant with its offset, OverflowError outside the years 1-9999.

    The offset alone can lead out of them (`9999-12-31T23:59:59-23:00`), and the database holds UTC.
    """
    moment = dt.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment.astimezone(dt.UTC)


class Keyset(BasePagination):
    """Newest first by the fields of `order`, all descending; the last of them is unique.

    A cursor is a place between two rows and a direction; rows that arrive meanwhile neither repeat nor hide others.
    Answers `{"results": […], "next": URL or null, "previous": URL or null}`.
    """

    order: ClassVar[tuple[str, ...]] = ("created_at", "id")
    readers: ClassVar[tuple[Callable[[str], Any], ...]] = (read_moment, UUID)
    """How each field of a cursor is read back. Raise: ValueError."""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """The page's rows. Raises: InvalidRequest naming `cursor` or `page_size`."""
        self._url = request.build_absolute_uri()
        size = _page_size(request.query_params.get("page_size"))
        direction, place = self._place(request.query_params.get("cursor"))
        backwards = direction == "before"
        mark = "" if backwards else "-"
        if place:
            queryset = queryset.filter(self._beyond(place, "gt" if backwards else "lt"))
        rows = list(queryset.order_by(*(mark + name for name in self.order))[: size + 1])
        more, rows = len(rows) > size, rows[:size]
        if backwards:
            rows.reverse()
        # the row that a cursor was made of lies on the side that we came from
        self._has_previous = more if backwards else direction == "after"
        self._has_next = True if backwards else more
        self._edges = (rows[0], rows[-1]) if rows else None
        return rows

    def _beyond(self, place: tuple[Any, ...], step: str) -> Q:
        *_, last = self.order
        if len(self.order) == 1:
            return Q(**{f"{last}__{step}": place[0]})
        first = self.order[0]
        # the redundant first term lets the index begin at the place instead of filtering its way there
        return Q(**{f"{first}__{step}e": place[0]}) & (
            Q(**{f"{first}__{step}": place[0]}) | Q(**{f"{last}__{step}": place[1]})
        )

    def links(self) -> dict[str, str | None]:
        """`next` and `previous` of the page that was read."""
        if not self._edges:
            return {"next": None, "previous": None}
        newest, oldest = self._edges
        return {
            "next": self._link("after", oldest) if self._has_next else None,
            "previous": self._link("before", newest) if self._has_previous else None,
        }

    def _link(self, direction: str, row: Model) -> str:
        place = [direction, *(_written(getattr(row, name)) for name in self.order)]
        cursor = base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")
        return replace_query_param(self._url, "cursor", cursor)

    def _place(self, cursor: str | None) -> tuple[str, tuple[Any, ...]]:
        """(direction, place between two rows); ("", ()) for the first page. Raises: InvalidRequest."""
        if cursor is None:
            return "", ()
        try:
            raw = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
            direction, *place = json.loads(raw)
            if direction not in ("after", "before"):
                raise ValueError(direction)
            return direction, tuple(read(text) for read, text in zip(self.readers, place, strict=True))
        except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
            raise InvalidRequest(fields={"cursor": "is not a cursor of this list"}) from None

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """For OpenAPI."""
        link = {"type": "string", "nullable": True, "format": "uri"}
        return {
            "type": "object",
            "required": ["results", "next", "previous"],
            "properties": {"results": schema, "next": link, "previous": link},
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """For OpenAPI."""
        size = {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": DEFAULT_PAGE_SIZE}
        return [
            {"name": "cursor", "in": "query", "required": False, "schema": {"type": "string"}},
            {"name": "page_size", "in": "query", "required": False, "schema": size},
        ]


def _written(value: Any) -> str:
    return value.isoformat() if isinstance(value, dt.datetime) else str(value)


def _page_size(text: str | None) -> int:
    if text is None:
        return DEFAULT_PAGE_SIZE
    # int() also takes "٣", "1_0" and " 7 "
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MAX_PAGE_SIZE):
        raise InvalidRequest(fields={"page_size": f"is not a number from 1 to {MAX_PAGE_SIZE}"})
    return int(text)
