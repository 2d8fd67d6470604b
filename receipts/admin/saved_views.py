"""Saved views: a list's filter under a name, for oneself or for everybody in the console.

Nothing of the ledger: whoever sees the list may keep such a note, and throw their own away.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, QueryDict
from django.urls import reverse

from receipts.admin.refusals import refuse
from receipts.answers import see_other
from receipts.models import SavedView

NAME_MAX, QUERY_MAX = 60, 2_000
#: Of one person's, shown beside the list; and kept.
SHOWN = 50


def shown_to(user: Any) -> QuerySet[SavedView]:
    """Own ones and those for everybody, by name."""
    rows = SavedView.objects.filter(Q(owner=user) | Q(shared=True)).select_related("owner")
    return rows.order_by("shared", "name")[:SHOWN]


def save(model_admin: admin.ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """POST: keep the filter that the form brings. The same name again takes the new filter."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    name, query = " ".join(request.POST.get("name", "").split()), _query(request.POST.get("query", ""))
    if not name or len(name) > NAME_MAX or not name.isprintable():
        messages.error(request, f"A view needs a name of 1 to {NAME_MAX} characters. Nothing was saved.")
    elif len(query) > QUERY_MAX:
        messages.error(request, "This filter is too long to be saved.")
    elif SavedView.objects.filter(owner=_user(request)).exclude(name=name).count() >= SHOWN:
        messages.error(request, f"{SHOWN} views are kept at most: remove one first. Nothing was saved.")
    else:
        _keep(request, name, query, shared=request.POST.get("shared") == "on")
        messages.success(request, f"Saved as “{name}”.")
    return _back(query)


def _keep(request: HttpRequest, name: str, query: str, *, shared: bool) -> None:
    for _twice in range(2):  # two tabs of one person
        try:
            with transaction.atomic():
                SavedView.objects.update_or_create(
                    owner=_user(request), name=name, defaults={"query": query, "shared": shared}
                )
                return
        except IntegrityError:
            continue


def remove(model_admin: admin.ModelAdmin[Any], request: HttpRequest, view_id: int) -> HttpResponse:
    """POST: throw one's own away; an administrator anybody's."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    found = SavedView.objects.filter(pk=view_id).first()
    user: Any = request.user
    if found is None or not (found.shared or found.owner_id == user.pk):
        raise Http404
    if found.owner_id != user.pk and not user.is_superuser:
        return refuse(request, "remove a saved view of somebody else", back=_list())
    found.delete()
    messages.success(request, f"“{found.name}” is removed.")
    return _back("")


def _query(text: str) -> str:
    """Of the list alone, without the page that was open: never an address of elsewhere."""
    try:
        given = QueryDict(text.removeprefix("?"), mutable=True)
    except ValueError:
        return ""
    for name in ("p", "e", "all"):
        given.pop(name, None)
    return given.urlencode()


def _back(query: str) -> HttpResponse:
    return see_other(f"{_list()}?{query}" if query else _list())


def _list() -> str:
    return reverse("admin:receipts_receipt_changelist")


def _user(request: HttpRequest) -> Any:
    return request.user
