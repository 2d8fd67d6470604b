"""The console's site: whoever is refused anywhere in it is told so on a page, and it is on record.

Outside the package `receipts.admin`, which registers its pages with this site while it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from django.apps import apps
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse

View = TypeVar("View", bound=Callable[..., HttpResponseBase])

#: How the name of one of Django's own pages ends → what it is for.
_ENDS = {"changelist": "see the list of", "add": "add to", "change": "open", "delete": "delete from", "history": "open"}


class Console(admin.AdminSite):
    """Django's site, with refusals on record: of a page, and of the console itself."""

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Every page of the console goes through here, those of libraries too."""

        from receipts.admin import refusals

        @wraps(view)
        def told(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                return view(request, *args, **kwargs)
            except PermissionDenied:
                return refusals.refuse(request, _action(request), back=reverse("admin:index"))

        inner = super().admin_view(told, cacheable)

        @wraps(inner)
        def at_the_door(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.user.is_authenticated and not self.has_permission(request):
                refusals.record(request, "enter the console")  # then Django's sign-in says that it is not theirs
            return inner(request, *args, **kwargs)

        return cast("View", at_the_door)


def _action(request: HttpRequest) -> str:
    """What was refused, in words: `add to follow-ups`, `open tickets`."""
    name = (request.resolver_match.url_name if request.resolver_match else None) or ""
    app, _, rest = name.partition("_")
    model, _, end = rest.partition("_")
    try:
        what = apps.get_model(app, model)._meta.verbose_name_plural
    except LookupError:
        return "open this page of the console"
    if end == "change" and request.method not in ("GET", "HEAD"):
        return f"change {what}"
    return f"{_ENDS.get(end, 'open')} {what}"
