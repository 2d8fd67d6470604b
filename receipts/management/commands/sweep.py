"""`manage.py sweep`: settle what outlived its deadline."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from receipts import flow


class Command(BaseCommand):
    help = "Settles pending receipts whose deadline has passed as `abandoned`, and prints how many."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--limit", type=int, default=1000, help="at most so many (1000)")

    def handle(self, *args: Any, **options: Any) -> None:
        settled = flow.sweep(options["limit"])
        self.stdout.write(f"{settled} receipt{'' if settled == 1 else 's'} settled as abandoned")
