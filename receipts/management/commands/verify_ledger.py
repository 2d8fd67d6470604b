"""`manage.py verify_ledger`: ask the tables whether the ledger tells the truth."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from receipts.verification import verify


class Command(BaseCommand):
    help = (
        "Checks the ledger's rules against its rows and its guards, and names what breaks them. Reads only. Ends with "
        "code 1 when a rule does not hold."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        broken = 0
        for rule, finding in verify():
            if finding is None:
                self.stdout.write(f"holds   {rule}")
                continue
            broken += 1
            more = f" and {finding.count - len(finding.rows)} more" if finding.count > len(finding.rows) else ""
            self.stdout.write(self.style.ERROR(f"BROKEN  {rule}: {', '.join(finding.rows)}{more}"))
        if broken:
            raise CommandError(f"{broken} rule{'' if broken == 1 else 's'} of the ledger do not hold")
