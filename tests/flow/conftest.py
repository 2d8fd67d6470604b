"""A support desk with one ticket, two leads and a provider that the test drives."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.utils import timezone

from receipts import flow, runner
from receipts.models import Receipt
from receipts_project.accounts.models import User
from receipts_project.accounts.roles import LEADS, OPERATORS
from tests.flow.invariants import assert_invariants
from tests.flow.provider import Provider
from tests.flow.web import Worker
from tickets.models import Member, Ticket


@pytest.fixture
def provider(settings: Any) -> Iterator[Provider]:
    running = Provider()
    settings.COMPLETIONS_URL = running.url
    settings.COMPLETIONS_STREAM = False
    settings.THROTTLE_PRESSES = "none"
    yield running
    running.close()


@pytest.fixture
def desk(transactional_db: None, provider: Provider) -> Iterator[Provider]:
    """The rows to work on; afterwards the process's runner ends and the invariants hold."""
    now = timezone.now()
    for handle, active in (("ada", True), ("grace", True), ("alan", True), ("charles", False)):
        Member.objects.create(handle=handle, name=handle.title(), active=active)
    for number, status in ((1008, "open"), (1009, "open"), (1010, "closed")):
        Ticket.objects.create(
            id=f"TCK-{number}",
            subject="SSO login fails",
            status=status,
            requester_name="Rita",
            requester_email="rita@example.com",
            created_at=now,
            updated_at=now,
        )
    yield provider
    provider.gate.set()
    end_runner()
    assert_invariants(provider.calls)


def end_runner() -> None:
    """Let attempts end, then forget the runner: the next test gets a fresh one."""
    runner.drain(10)
    runner._runner = None


def person(name: str, role: str) -> User:
    user = User.objects.create_user(name)
    user.groups.add(Group.objects.get(name=role))
    return user


@pytest.fixture
def alice(desk: Provider) -> User:
    return person("alice", LEADS)


@pytest.fixture
def bob(desk: Provider) -> User:
    return person("bob", LEADS)


@pytest.fixture
def operator(desk: Provider) -> User:
    return person("oscar", OPERATORS)


@dataclass
class Presser:
    """Presses the button as somebody, with sensible defaults."""

    user: User

    def __call__(
        self,
        *,
        key: str | None = None,
        notes: Any = "Customer still blocked on SSO.",
        ticket: str = "TCK-1008",
        body: Callable[[], Any] | None = None,
        respond_async: bool = False,
    ) -> flow.Filing:
        return flow.file(
            tool="file_followup",
            user=self.user,
            subject=ticket,
            key=key or f"key-{uuid.uuid4()}",
            body=body or (lambda: {"notes": notes}),
            respond_async=respond_async,
        )

    def settled(self, **press: Any) -> Receipt:
        return flow.wait(self(**press))


@pytest.fixture
def press(alice: User) -> Presser:
    return Presser(alice)


@pytest.fixture
def start(desk: Provider) -> Iterator[Callable[..., Worker]]:
    """Starts real workers, with quick retries; they end with the test."""
    started: list[Worker] = []

    def start(**environment: str) -> Worker:
        started.append(Worker(provider_url=desk.url, **{"RETRY_FIRST_SECONDS": "0.1", **environment}))
        return started[-1]

    connection.close()
    yield start
    desk.gate.set()
    for worker in started:
        worker.end()
