"""People and roles in the admin. A changed power leaves an audit event in the same transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
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

    # both below run in the one transaction that Django's view opens: the event is written with the deed, or neither is

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        request.powers_before = _powers(obj.pk) if change else set()  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save groups and permissions, with the event that says who gave which power to whom."""
        super().save_related(request, form, formsets, change)
        before: set[str] = request.powers_before  # type: ignore[attr-defined]
        _record(request, {"user": form.instance.get_username()}, before, _powers(form.instance.pk))


admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin):
    """Django's. What a role may do is changed with an event, as who has it is."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        before = _permissions(form.instance.permissions)
        super().save_related(request, form, formsets, change)
        _record(request, {"role": form.instance.name}, before, _permissions(form.instance.permissions))

    def delete_model(self, request: HttpRequest, obj: Group) -> None:
        _record(request, {"role": obj.name}, _permissions(obj.permissions) | {"the role itself"}, set())
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        with transaction.atomic():
            for group in queryset:
                self.delete_model(request, group)


def _record(request: HttpRequest, whose: dict[str, str], before: set[str], after: set[str]) -> None:
    """The audit event of a change of powers; none where nothing changed."""
    if before != after:
        detail = {**whose, "given": sorted(after - before), "taken": sorted(before - after)}
        ledger.record(ledger.Event(verb=Verb.ROLE_CHANGE, actor_id=_key(request), detail=detail))


def _powers(user_id: Any) -> set[str]:
    """Flags, groups by name and single permissions, as they are in the database now."""
    user = User.objects.get(pk=user_id)
    flags = {name for name in ("is_active", "is_staff", "is_superuser") if getattr(user, name)}
    return flags | set(user.groups.values_list("name", flat=True)) | _permissions(user.user_permissions)


def _permissions(held: Any) -> set[str]:
    return {f"{app}.{name}" for app, name in held.values_list("content_type__app_label", "codename")}


def _key(request: HttpRequest) -> Any:
    return request.user.pk
