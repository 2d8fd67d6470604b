"""`manage.py issue_token USER [--days N]`: a new API token, printed alone so that a script can take it."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from knox.models import AuthToken
from knox.settings import knox_settings

#: Ten years: a longer life is a mistake, and timedelta overflows far beyond it.
MAX_DAYS = 3650


def days(text: str) -> int:
    """Raises: ArgumentTypeError for anything but 1 to MAX_DAYS."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_DAYS:
        raise argparse.ArgumentTypeError(f"must be a number of days from 1 to {MAX_DAYS}")
    return int(text)


class Command(BaseCommand):
    help = "Print a new API token for a user. It is stored as a digest only, so it is shown this once."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("user", metavar="USER", help="the username")
        default = knox_settings.TOKEN_TTL.days
        parser.add_argument("--days", type=days, default=default, help=f"days until it expires (default {default})")

    def handle(self, *_args: Any, **options: Any) -> None:
        name = options["user"]
        user = get_user_model().objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"There is no user {name!r}.")
        if not user.is_active:
            raise CommandError(f"The user {name!r} is not active, so a token would not work.")
        _, token = AuthToken.objects.create(user, expiry=timedelta(days=options["days"]))
        self.stdout.write(token)
