"""Clients of the API: people with tokens, and a provider that the test drives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from knox.models import AuthToken

from receipts_project.accounts.models import User
from receipts_project.accounts.roles import LEADS
from tests.factories import alice, auditor, bob, charlie, desk, operator, person
from tests.flow.conftest import end_runner
from tests.flow.provider import Provider

__all__ = ["alice", "auditor", "bob", "charlie", "desk", "operator"]

Api = Callable[[User | None], Client]


@pytest.fixture
def api() -> Api:
    """A client of the API with a person's token; with None, without one."""

    def client(user: User | None) -> Client:
        headers: dict[str, Any] = {"host": "localhost"}
        if user is not None:
            headers["authorization"] = f"Token {AuthToken.objects.create(user)[1]}"
        return Client(headers=headers, raise_request_exception=False)

    return client


@pytest.fixture
def lead(db: None) -> User:
    """A support lead in a database without rows: for what is refused anyway, and much faster than `alice`."""
    return person("lead", LEADS)


@pytest.fixture
def provider(desk: None, settings: Any) -> Iterator[Provider]:
    """A model provider on a real socket."""
    running = Provider()
    settings.COMPLETIONS_URL = running.url
    settings.COMPLETIONS_STREAM = False
    settings.THROTTLE_PRESSES = "none"
    yield running
    running.gate.set()
    end_runner()
    running.close()
