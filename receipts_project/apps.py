"""The project as an app: its management commands; and Django's admin, with the console as its site."""

from __future__ import annotations

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class ReceiptsProjectConfig(AppConfig):
    name = "receipts_project"
    label = "receipts_project"


class ConsoleConfig(AdminConfig):
    default_site = "receipts.console.Console"
