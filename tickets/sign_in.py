"""Signing in and out, without losing what somebody had typed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache

from receipts.sealing import Unsealable, sealer
from tickets.by_hand import PREFIX
from tickets.forms import SignInForm

#: Where notes wait, sealed, between a press whose sign-in had expired and the next look at that ticket: in the login
#: page's form, then in the session. Never in the clear: failed logins keep what was posted, and sessions are a table.
KEPT = "kept_notes"


class SignIn(LoginView):
    """The login page. A press that met an expired session lands here with its notes, and they go on from here."""

    template_name = "login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = super().dispatch(request, *args, **kwargs)
        if request.POST.get(KEPT) and request.user.is_authenticated:  # just now, or meanwhile in another tab
            request.session[KEPT] = request.POST[KEPT]
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"kept": self.request.POST.get(KEPT, "")}

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        if getattr(self.request, "axes_locked_out", False):
            # axes' middleware would put its own bare page in place of ours
            self.request.axes_locked_out = False  # type: ignore[attr-defined]
            minutes = int(settings.AXES_COOLOFF_TIME.total_seconds() // 60)
            return render(self.request, "locked_out.html", {"minutes": minutes}, status=429)
        return super().form_invalid(form)


class SignOut(LogoutView):
    """Also empties the tab's storage, where unsettled presses and unsent notes of this person wait."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = super().dispatch(request, *args, **kwargs)
        response["Clear-Site-Data"] = '"storage"'
        return response


@never_cache
def sign_in_first(request: HttpRequest, ticket_id: str, what: str) -> HttpResponse:
    """Answer a press whose sign-in has expired: the login page, with the notes carried along to the same form."""
    given = {name: request.POST[name] for name in request.POST if name == "notes" or name.startswith(PREFIX)}
    context = {
        "form": SignInForm(request),
        "next": reverse("ticket", args=[ticket_id]),
        "ticket_id": ticket_id,
        "kept": seal_notes(ticket_id, what, given) if any(given.values()) else "",
        "expired": True,
    }
    return render(request, "login.html", context, status=401)


def seal_notes(ticket_id: str, what: str, given: dict[str, str]) -> str:
    """Text that only `take_notes` can read. It names what it is, so that no other sealed thing passes for it."""
    return sealer().seal({KEPT: {"ticket": ticket_id, "what": what, "given": given}}).decode("ascii")


@dataclass(frozen=True, kw_only=True)
class Waited:
    """What waited for a ticket's page, by form."""

    notes: dict[str, str] = field(default_factory=dict)
    typed: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of forms for filing by hand: by argument."""


def take_notes(request: HttpRequest, ticket_id: str) -> Waited:
    """What waited for this ticket; it is handed over once."""
    try:
        kept = sealer().unseal(request.session.get(KEPT, "").encode()).get(KEPT, {})
    except Unsealable:  # nothing waited, or nothing of ours
        return Waited()
    if not isinstance(kept, dict) or kept.get("ticket") != ticket_id:
        return Waited()
    del request.session[KEPT]
    what, given = str(kept["what"]), kept["given"]
    if "notes" in given:
        return Waited(notes={what: str(given["notes"])})
    return Waited(typed={what: {name.removeprefix(PREFIX): str(value) for name, value in given.items()}})
