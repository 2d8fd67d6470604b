"""`manage.py database_url`: where the rows are."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Print the DSN in use: DATABASE_URL, else the embedded server's. Starts nothing."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(settings.DATABASE_URL)
