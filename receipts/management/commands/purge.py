"""`manage.py purge`: delete sealed inputs that nothing may need any more."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from receipts import ledger


class Command(BaseCommand):
    help = (
        "Deletes sealed inputs that have expired, or whose receipt is an applied write, and prints how many. "
        "Receipts themselves are kept."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        gone = ledger.purge_sealed_inputs()
        self.stdout.write(f"{gone} sealed input{'' if gone == 1 else 's'} deleted")
