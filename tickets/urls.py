"""The leads' pages."""

from __future__ import annotations

from django.urls import path, re_path

from tickets import board_views, run_views, views
from tickets.models import TICKET_ID
from tickets.press_forms import PRESSES
from tickets.sign_in import SignIn, SignOut

urlpatterns = [
    path("", board_views.board, name="board"),
    # the form of an id, so that nothing else reaches the database
    re_path(rf"^tickets/(?P<ticket_id>{TICKET_ID})$", views.ticket, name="ticket"),
    re_path(rf"^tickets/(?P<ticket_id>{TICKET_ID})/(?P<what>{'|'.join(PRESSES)})$", views.other_press, name="press"),
    re_path(rf"^tickets/(?P<ticket_id>{TICKET_ID})/place$", board_views.place, name="place"),
    path("receipts", views.receipts, name="receipts"),
    path("receipts/<uuid:receipt_id>", views.receipt, name="receipt"),
    path("receipts/<uuid:receipt_id>/retry", views.retry, name="retry"),
    path("runs", run_views.runs, name="runs"),
    path("runs/<uuid:run_id>", run_views.run, name="run"),
    path("login", SignIn.as_view(), name="login"),
    path("logout", SignOut.as_view(), name="logout"),
]
