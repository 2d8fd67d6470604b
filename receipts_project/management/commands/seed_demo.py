"""`manage.py seed_demo`: members, tickets and users to try the product out with."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass
from typing import Any

import environ
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group
from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils import timezone

from receipts_project import generated_secrets
from receipts_project.accounts.models import User
from receipts_project.accounts.roles import AUDITORS, LEADS, OPERATORS
from tickets.demo import catalogue


@dataclass(frozen=True, kw_only=True)
class DemoUser:
    username: str
    first_name: str
    last_name: str
    group: str | None = None
    is_staff: bool = False
    is_superuser: bool = False


USERS = (
    DemoUser(username="lead", first_name="Maya", last_name="Ferreira", group=LEADS),
    DemoUser(username="lead2", first_name="Tomasz", last_name="Nowak", group=LEADS),
    DemoUser(username="auditor", first_name="Ines", last_name="Adler", group=AUDITORS, is_staff=True),
    DemoUser(username="operator", first_name="Kofi", last_name="Mensah", group=OPERATORS, is_staff=True),
    DemoUser(username="admin", first_name="Robin", last_name="Hale", is_staff=True, is_superuser=True),
)


def demo_password() -> str:
    """DEMO_PASSWORD from the environment, else generated once and kept in DATA_DIR/secrets/demo_password."""
    given: str = environ.Env().str("DEMO_PASSWORD", default="")
    return given or generated_secrets.read_or_create(
        settings.DATA_DIR, "demo_password", generated_secrets.make_password
    )


@transaction.atomic
def seed_users(*, reset_passwords: bool) -> int:
    """Add the users who are missing, in their groups. Returns how many were added."""
    password = demo_password()
    added = 0
    for demo in USERS:
        user, created = User.objects.get_or_create(
            username=demo.username,
            defaults={
                "first_name": demo.first_name,
                "last_name": demo.last_name,
                "email": f"{demo.username}@tessera.example",
                "is_staff": demo.is_staff,
                "is_superuser": demo.is_superuser,
                "password": make_password(password),
            },
        )
        if created and demo.group:
            user.groups.add(Group.objects.get(name=demo.group))
        if not created and reset_passwords:
            user.set_password(password)
            user.save(update_fields=["password"])
        added += created
    return added


class Command(BaseCommand):
    help = (
        "Adds demo data: some 40 tickets with conversations, members of support, and the users lead, lead2, auditor, "
        "operator and admin. Their password is DEMO_PASSWORD, or a generated one that stands in "
        "DATA_DIR/secrets/demo_password. May run any number of times: what exists stays as people left it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--reset-passwords", action="store_true", help="give existing demo users today's demo password as well"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        users = seed_users(reset_passwords=options["reset_passwords"])
        tickets = catalogue.seed(timezone.now())
        if options["verbosity"]:
            self.stdout.write(f"Demo data: {tickets} tickets and {users} users added; the rest was there.")
