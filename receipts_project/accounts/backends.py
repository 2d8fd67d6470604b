"""Who may do what, in one query."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.db import connection

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
