"""The project as an app: its management commands."""

from __future__ import annotations

from django.apps import AppConfig


class ReceiptsProjectConfig(AppConfig):
    name = "receipts_project"
    label = "receipts_project"
