"""The addresses of tickets, below `/api/v1/`."""

from __future__ import annotations

from receipts.routes import route
from tickets.api import ContactCheckViews, EmailViews, FollowupViews, PressViews, ResolutionViews, TicketViews

#: What is pressed on a ticket: the last part of its address, and with it the tool.
PRESSES: dict[str, type[PressViews]] = {
    "followups": FollowupViews,
    "resolutions": ResolutionViews,
    "emails": EmailViews,
    "contact-checks": ContactCheckViews,
}

urlpatterns = [
    *route("tickets", TicketViews.as_view({"get": "list", "post": "create"}), "tickets"),
    *route("tickets/<str:ticket_id>", TicketViews.as_view({"get": "retrieve", "patch": "partial_update"}), "ticket"),
    *(
        address
        for name, views in PRESSES.items()
        for address in route(f"tickets/<str:ticket_id>/{name}", views.as_view({"get": "list", "post": "create"}), name)
    ),
]
