"""People who enter the console."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from receipts_project.accounts.models import User
from receipts_project.accounts.roles import AUDITORS, OPERATORS
from tests.api.conftest import provider
from tests.factories import alice, bob, charlie, desk, person

__all__ = ["alice", "bob", "charlie", "desk", "provider"]

Console = Callable[[User], Client]


@pytest.fixture
def auditor(desk: None) -> User:
    return person("ines", AUDITORS, is_staff=True)


@pytest.fixture
def operator(desk: None) -> User:
    return person("kofi", OPERATORS, is_staff=True)


@pytest.fixture
def root(desk: None) -> User:
    """An administrator: superuser."""
    return person("robin", is_staff=True, is_superuser=True)


@pytest.fixture(autouse=True)
def plain_static_files(settings: object) -> None:
    """Pages name static files by plain names: hashed ones exist after `collectstatic` only."""
    settings.STORAGES = {  # type: ignore[attr-defined]
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


@pytest.fixture
def console() -> Console:
    """A browser in which somebody has signed in."""

    def browser(user: User) -> Client:
        client = Client(headers={"host": "localhost"})
        client.force_login(user, backend="receipts_project.accounts.backends.RoleBackend")
        return client

    return browser
