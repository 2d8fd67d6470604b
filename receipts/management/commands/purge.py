"""`manage.py purge`: delete sealed inputs that nothing may need any more, and what else has expired."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from receipts import ledger, retention


class Command(BaseCommand):
    help = (
        "Deletes sealed inputs that have expired, or whose receipt is an applied write, notes that were filed or "
        "are 30 days old, and jobs that failed QUEUE_KEEP_DAYS ago; prints how many. Receipts themselves are kept."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self._say(ledger.purge_sealed_inputs(), "sealed input")
        for what, gone in retention.purge_all().items():
            if gone:
                self._say(gone, what)

    def _say(self, gone: int, what: str) -> None:
        self.stdout.write(f"{gone} {what}{'' if gone == 1 else 's'} deleted")
