"""People in the admin. A changed role leaves an audit event in the same transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.db import transaction
from django.http import HttpRequest

from receipts import ledger
from receipts.models import Verb
from receipts_project.accounts.models import User
from tickets.forms import SignInForm

if TYPE_CHECKING:  # generic for the type checker only
    _UserAdmin = DjangoUserAdmin[User]
else:
    _UserAdmin = DjangoUserAdmin


class ConsoleSignInForm(SignInForm, AdminAuthenticationForm):
    """The console's own door: for staff."""


admin.site.login_form = ConsoleSignInForm


@admin.register(User)
class UserAdmin(_UserAdmin):
    """Django's, with roles in the list. Whoever pressed once cannot be deleted, because their receipts stay."""

    list_display = ("username", "first_name", "last_name", "roles", "is_staff", "is_active", "last_login")
    show_facets = admin.ShowFacets.NEVER

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("groups")

    def roles(self, user: User) -> str:
        return ", ".join(group.name for group in user.groups.all()) or "–"

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save groups and permissions, with the event that says who gave which role to whom."""
        with transaction.atomic():
            before = _powers(form.instance)
            super().save_related(request, form, formsets, change)
            after = _powers(form.instance)
            if before != after:
                detail = {
                    "user": form.instance.get_username(),
                    "given": sorted(after - before),
                    "taken": sorted(before - after),
                }
                ledger.record(ledger.Event(verb=Verb.ROLE_CHANGE, actor_id=_key(request), detail=detail))


def _powers(user: User) -> set[str]:
    """Groups by name and single permissions, as they are in the database now."""
    return {
        *user.groups.values_list("name", flat=True),
        *(f"{app}.{name}" for app, name in user.user_permissions.values_list("content_type__app_label", "codename")),
    }


def _key(request: HttpRequest) -> Any:
    return request.user.pk
