"""The leads' pages."""

from __future__ import annotations

from django.urls import path, re_path

from tickets import board_views, notes_views, run_views, views
from tickets.models import TICKET_ID
from tickets.press_forms import PRESSES, TYPED
from tickets.sign_in import SignIn, SignOut

#: A form in which something is typed.
FORM = rf"tickets/(?P<ticket_id>{TICKET_ID})/(?P<what>{'|'.join(press.what for press in TYPED)})"

urlpatterns = [
    path("", board_views.board, name="board"),
    # the form of an id, so that nothing else reaches the database
    re_path(rf"^tickets/(?P<ticket_id>{TICKET_ID})$", views.ticket, name="ticket"),
    re_path(rf"^tickets/(?P<ticket_id>{TICKET_ID})/(?P<what>{'|'.join(PRESSES)})$", views.other_press, name="press"),
    re_path(rf"^{FORM}/notes$", notes_views.kept_notes, name="notes"),
    re_path(rf"^{FORM}/by-hand$", views.press_by_hand, name="by-hand"),
    re_path(rf"^{FORM}/by-hand/check$", views.check_by_hand, name="check-by-hand"),
    re_path(rf"^tickets/(?P<ticket_id>{TICKET_ID})/place$", board_views.place, name="place"),
    path("receipts", views.receipts, name="receipts"),
    path("receipts/<uuid:receipt_id>", views.receipt, name="receipt"),
    path("receipts/<uuid:receipt_id>/retry", views.retry, name="retry"),
    path("receipts/<uuid:receipt_id>/cancel", views.cancel, name="cancel"),
    path("runs", run_views.runs, name="runs"),
    path("runs/<uuid:run_id>", run_views.run, name="run"),
    path("login", SignIn.as_view(), name="login"),
    path("logout", SignOut.as_view(), name="logout"),
]
