"""Addresses that answer with and without a trailing slash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path

View = Callable[..., HttpResponseBase]


def route(address: str, view: View, name: str) -> list[URLPattern]:
    """`address` under its name, and the same view behind the trailing slash that some clients add.

    Not a redirect, because a redirected POST arrives as a GET. The second address is a plain function, so that the
    OpenAPI schema, which looks for API classes, lists each address once.
    """

    def slashed(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        return view(request, **kwargs)

    slashed.csrf_exempt = getattr(view, "csrf_exempt", False)  # type: ignore[attr-defined]
    return [path(address, view, name=name), path(f"{address}/", slashed)]
