"""People and service users."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models

from receipts.ids import uuid7


class User(AbstractUser):
    """A person or a service user who presses. The key is a uuid because receipts carry it for good."""

    id: models.UUIDField[uuid.UUID, uuid.UUID] = models.UUIDField(primary_key=True, default=uuid7, editable=False)

    #: `app_label.codename` of everything this person may do, once it has been read (see `RoleBackend`).
    granted: set[str] | None = None

    class Meta(AbstractUser.Meta):
        db_table = "users"
        swappable = "AUTH_USER_MODEL"
