"""The roles: groups, with what each may do. The permission matrix on one screen."""

from __future__ import annotations

from typing import Any

from receipts.workflows import SCHEDULER

LEADS, AUDITORS, OPERATORS = "Support leads", "Auditors", "Operators"

#: group → codenames. Every one of the last four of DESIGN's six is an audit event when used.
ROLES: dict[str, tuple[str, ...]] = {
    LEADS: ("file_followup",),
    AUDITORS: ("view_receipt", "view_attempt", "view_run", "view_auditevent", "view_circuit", "export_receipt"),
    OPERATORS: (
        "view_receipt",
        "view_attempt",
        "view_run",
        "view_auditevent",
        "view_circuit",
        "export_receipt",
        "retry_receipt",
        "replay_receipt",
        "view_sealedinput",
    ),
}


def create_roles(sender: Any, using: str = "default", **_rest: Any) -> None:
    """After every migrate: the groups exist and hold exactly these permissions of the receipts app.

    `post_migrate` and not a data migration, because a test suite's flush takes migrated rows away. Permissions of
    other apps that an administrator added to a group are left alone.
    """
    from django.apps import apps
    from django.contrib.auth.management import create_permissions
    from django.contrib.auth.models import Group, Permission

    if getattr(sender, "label", "") != "accounts":
        return
    create_permissions(apps.get_app_config("receipts"), verbosity=0, using=using)
    known = {p.codename: p for p in Permission.objects.using(using).filter(content_type__app_label="receipts")}
    for name, codenames in ROLES.items():
        group, _created = Group.objects.using(using).get_or_create(name=name)
        wanted = {known[codename] for codename in codenames if codename in known}
        held = set(group.permissions.using(using).filter(content_type__app_label="receipts"))
        group.permissions.remove(*(held - wanted))
        group.permissions.add(*(wanted - held))
    _create_scheduler(using)


def _create_scheduler(using: str) -> None:
    """The service user of scheduled workflows: files as a lead does, and cannot sign in.

    Taking its role or its activity away stops the schedules, until the next migrate for the role.
    """
    from django.contrib.auth.hashers import make_password
    from django.contrib.auth.models import Group

    from receipts_project.accounts.models import User

    user, _created = User.objects.using(using).get_or_create(
        username=SCHEDULER,
        defaults={"first_name": "Scheduled", "last_name": "workflows", "password": make_password(None)},
    )
    user.groups.add(Group.objects.using(using).get(name=LEADS))
