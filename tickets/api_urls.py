"""The addresses of tickets, below `/api/v1/`."""

from __future__ import annotations

from receipts.routes import route
from tickets.api import FollowupViews, TicketViews

urlpatterns = [
    *route("tickets", TicketViews.as_view({"get": "list", "post": "create"}), "tickets"),
    *route("tickets/<str:ticket_id>", TicketViews.as_view({"get": "retrieve", "patch": "partial_update"}), "ticket"),
    *route("tickets/<str:ticket_id>/followups", FollowupViews.as_view({"get": "list", "post": "create"}), "followups"),
]
