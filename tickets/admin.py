"""Tickets and members in the admin: for administrators. What a receipt stands for can only be read here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone

from receipts.admin.readonly import CappedPaginator, ReadOnlyAdmin, ReadOnlyInline
from tickets.models import Followup, Member, Message, OutgoingEmail, Resolution, Ticket

if TYPE_CHECKING:  # generic for the type checker only
    _TicketAdmin = admin.ModelAdmin[Ticket]
    _MemberAdmin = admin.ModelAdmin[Member]
else:
    _TicketAdmin = _MemberAdmin = admin.ModelAdmin


class MessageInline(ReadOnlyInline):
    """The conversation; turns are written once."""

    model = Message
    show_change_link = False
    fields = readonly_fields = ("created_at", "author", "author_name", "body")


@admin.register(Ticket)
class TicketAdmin(_TicketAdmin):
    """Tickets are opened by leads and kept for as long as a follow-up names them, so neither add nor delete."""

    list_display = ("id", "subject", "status", "priority", "assignee", "updated_at")
    list_filter = ("status", "priority", "assignee")
    list_select_related = ("assignee",)
    search_fields = ("=id", "subject")
    ordering = ("-updated_at", "-id")
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = CappedPaginator
    readonly_fields = ("id", "requester_name", "requester_email", "created_at", "updated_at")
    fields = ("id", "subject", "status", "priority", "assignee", "language", *readonly_fields[1:])
    inlines = (MessageInline,)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Ticket, form: Any, change: bool) -> None:
        obj.updated_at = timezone.now()
        super().save_model(request, obj, form, change)


@admin.register(Member)
class MemberAdmin(_MemberAdmin):
    """Who can be given a follow-up. Leaving is `active` off: old tickets keep the name."""

    list_display = ("handle", "name", "active")
    list_filter = ("active",)
    search_fields = ("handle", "name")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Followup)
class FollowupAdmin(ReadOnlyAdmin):
    list_display = ("id", "ticket_id", "summary", "assignee", "created_by", "created_at")
    list_select_related = ("created_by",)
    ordering = ("-created_at",)
    fieldsets = (
        (None, {"fields": ("id", "ticket", "summary", "assignee", "due_on", "created_by", "receipt", "created_at")}),
    )
    search_fields = ("=id", "=ticket__id")


@admin.register(Resolution)
class ResolutionAdmin(ReadOnlyAdmin):
    list_display = ("id", "ticket_id", "text", "created_by", "created_at")
    list_select_related = ("created_by",)
    ordering = ("-created_at",)
    fieldsets = ((None, {"fields": ("id", "ticket", "text", "created_by", "receipt", "created_at")}),)
    search_fields = ("=id", "=ticket__id")


@admin.register(OutgoingEmail)
class OutgoingEmailAdmin(ReadOnlyAdmin):
    """The outbox. Whether a message left, the receipt of its delivery says: its key is `outbox:` and the id."""

    list_display = ("id", "ticket_id", "to_address", "subject", "created_by", "created_at")
    list_select_related = ("created_by",)
    ordering = ("-created_at",)
    fieldsets = (
        (None, {"fields": ("id", "ticket", "to_address", "subject", "body", "created_by", "receipt", "created_at")}),
    )
    search_fields = ("=id", "=ticket__id")
