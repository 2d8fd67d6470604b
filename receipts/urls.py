"""The addresses of receipts and runs, below `/api/v1/`."""

from __future__ import annotations

from receipts.api import CancelViews, EventViews, ReceiptViews, RetryViews, RunViews, WorkflowViews
from receipts.bulk_api import BulkReplayViews
from receipts.export_api import ReceiptExportViews, RunExportViews
from receipts.problem_pages import list_problems, show_problem
from receipts.replay_api import ReplayViews
from receipts.routes import route

urlpatterns = [
    *route("receipts", ReceiptViews.as_view({"get": "list"}), "receipts"),
    *route("receipts/export", ReceiptExportViews.as_view({"get": "export"}), "receipts-export"),
    *route("receipts/<str:receipt_id>", ReceiptViews.as_view({"get": "retrieve"}), "receipt"),
    *route("receipts/<str:receipt_id>/run-receipts", ReceiptViews.as_view({"get": "run_receipts"}), "run-receipts"),
    *route("receipts/<str:receipt_id>/events", EventViews.as_view({"get": "list"}), "events"),
    *route("receipts/<str:receipt_id>/cancel", CancelViews.as_view({"post": "create"}), "cancel"),
    *route("receipts/<str:receipt_id>/retry", RetryViews.as_view({"post": "create"}), "retry"),
    *route("receipts/<str:receipt_id>/replay", ReplayViews.as_view({"get": "retrieve", "post": "create"}), "replay"),
    *route("bulk-replays", BulkReplayViews.as_view({"post": "create"}), "bulk-replays"),
    *route("bulk-replays/<str:bulk_replay_id>", BulkReplayViews.as_view({"get": "retrieve"}), "bulk-replay"),
    *route("bulk-replays/<str:bulk_replay_id>/stop", BulkReplayViews.as_view({"post": "stop"}), "bulk-replay-stop"),
    *route("runs", RunViews.as_view({"get": "list"}), "runs"),
    *route("runs/<str:run_id>", RunViews.as_view({"get": "retrieve"}), "run"),
    *route("runs/<str:run_id>/export", RunExportViews.as_view({"get": "export"}), "run-export"),
    *route("workflows", WorkflowViews.as_view({"get": "retrieve"}), "workflows"),
    *route("problems", list_problems, "problems"),
    *route("problems/<str:code>", show_problem, "problem"),
]
