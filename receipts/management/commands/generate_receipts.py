"""`manage.py generate_receipts COUNT`: receipts that never happened, to measure on."""

from __future__ import annotations

import time
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from receipts import generation

#: Seconds between two words on the terminal.
TELL_EVERY = 5


class Command(BaseCommand):
    help = (
        "For development: adds COUNT receipts that never happened, with runs, attempts and events, spread over a year. "
        "They can never be removed again (history is never removed), nothing stands behind them, and verify_ledger "
        "says so: use a database that you will throw away."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("count", type=int, metavar="COUNT", help="so many receipts")
        parser.add_argument("--force", action="store_true", help="even into a database that holds real receipts")

    def handle(self, *args: Any, **options: Any) -> None:
        count: int = options["count"]
        if not 1 <= count <= 100_000_000:
            raise CommandError("COUNT must be a number from 1 to 100,000,000.")
        if generation.holds_real_receipts() and not options["force"]:
            raise CommandError(
                "This database holds real receipts, and what is generated here can never be told away from them or "
                "removed. Use another DATA_DIR or DATABASE_URL, or --force if you mean it. Nothing was written."
            )
        operator, _created = get_user_model().objects.get_or_create(
            username="generated-operator",
            defaults={"password": "!"},
        )
        begun = told = time.monotonic()
        for done in generation.generate(count, now=timezone.now(), operator=operator):
            now = time.monotonic()
            if now - told >= TELL_EVERY and options["verbosity"]:
                told, pace = now, done / (now - begun)
                left = (count - done) / pace
                self.stdout.write(f"{done:,} of {count:,}, {pace:,.0f} a second, {left:,.0f} s left")
        if options["verbosity"]:
            self.stdout.write("Statistics …")
        generation.analyze()
        if options["verbosity"]:
            self.stdout.write(f"{count:,} receipts generated in {time.monotonic() - begun:,.0f} s.")
