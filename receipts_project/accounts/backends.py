"""Who somebody is, without a connection held while the password is hashed; who may do what, in one query."""

from __future__ import annotations

import threading
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.db import connection
from django.http import HttpRequest

from receipts_project.accounts.models import User

#: Passwords that one process hashes at a time. Each takes a core for a quarter of a second: more at once would be no
#: faster, and a flood of logins would take the cores away from presses.
HASHING = threading.BoundedSemaphore(2)

#: Everything a person may do, their own permissions and their groups', as `app_label.codename`.
GRANTED = """
SELECT ct.app_label || '.' || p.codename
FROM auth_permission p JOIN django_content_type ct ON ct.id = p.content_type_id
WHERE p.id IN (
    SELECT permission_id FROM users_user_permissions WHERE user_id = {user}
    UNION ALL
    SELECT gp.permission_id FROM auth_group_permissions gp JOIN users_groups ug USING (group_id)
    WHERE ug.user_id = {user})
"""


class RoleBackend(ModelBackend):
    """Django's model backend with its two permission queries made one.

    A press authorises on every call, replays of an answer included, so this is on the hot path.
    """

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **_rest: Any
    ) -> User | None:
        """As Django's, which keeps its connection out of the pool for as long as it hashes."""
        if username is None or password is None:
            return None
        user = User.objects.filter(username=username).first()
        if not connection.in_atomic_block:
            connection.close()
        with HASHING:
            if user is None:
                User().set_password(password)  # takes as long as for a name that exists (Django's #20760)
                return None
            matches = user.check_password(password)
        return user if matches and self.user_can_authenticate(user) else None

    def get_all_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        """Permissions as `app_label.codename`; empty for the inactive, the anonymous and per-object questions."""
        if not user_obj.is_active or user_obj.is_anonymous or obj is not None:
            return set()
        if user_obj.is_superuser:
            return super().get_all_permissions(user_obj, obj)
        granted: set[str] | None = user_obj.granted
        if granted is None:
            with connection.cursor() as cursor:
                cursor.execute(GRANTED.format(user="%s"), [user_obj.pk, user_obj.pk])
                granted = {row[0] for row in cursor.fetchall()}
            user_obj.granted = granted
        return granted
