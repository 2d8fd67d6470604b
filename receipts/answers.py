"""Answers that pages of leads and console share."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect


def see_other(to: str, *args: Any) -> HttpResponse:
    """303 to a page's name, with its arguments, or an address: the browser asks for it with GET, so that a reload never
    posts again."""
    response = redirect(to, *args)
    response.status_code = 303
    return response
