"""A desk to work at, and one web process for each pair of a provider and a framing; both live for the whole module."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.utils import timezone
from knox.models import AuthToken

from receipts_project.accounts.roles import LEADS
from tests.flow.conftest import person
from tests.flow.invariants import assert_invariants
from tests.flow.web import dsn, eventually
from tests.journeys.servers import OTHER_TICKET, LLMock, Provider, StandIn, Web
from tickets.models import Member, Ticket

TICKET = "TCK-1008"
NOTES = "Customer still blocked on SSO, grace should call before noon."


@pytest.fixture(scope="module", params=[StandIn, LLMock], ids=["stand-in", "llmock"])
def provider(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    running: Provider = request.param(tmp_path_factory.mktemp("provider"))
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def serve(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """`with serve(settings) as web:` runs a web process on the test's database, with these settings and no others."""

    @contextmanager
    def serving(settings: dict[str, str]) -> Iterator[Web]:
        logs: Path = tmp_path_factory.mktemp("web")
        web = Web(settings, logs=logs, database_url=dsn())
        try:
            yield web
        finally:
            web.stop()

    return serving


@pytest.fixture(scope="module", params=["true", "false"], ids=["streamed", "in-one-piece"])
def streamed(request: pytest.FixtureRequest) -> str:
    """COMPLETIONS_STREAM."""
    return str(request.param)


@pytest.fixture(scope="module")
def web(provider: Provider, streamed: str, serve: Callable[..., Any]) -> Iterator[Web]:
    with serve({**provider.settings, "COMPLETIONS_STREAM": streamed}) as running:
        yield running


@dataclass
class Desk:
    """A lead's tickets, and their program that presses over HTTP."""

    token: str

    def headers(self, **more: str) -> dict[str, str]:
        return {"Authorization": f"Token {self.token}", **more}

    def press(self, web: Web, *, key: str = "", notes: str = NOTES, **headers: str) -> httpx.Response:
        """File on TICKET. Header names are given with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.post(
            f"{web.base}/api/v1/tickets/{TICKET}/followups",
            json={"notes": notes},
            headers=self.headers(**{"Idempotency-Key": key or f"key-{uuid.uuid4()}"}, **named),
            timeout=60,
        )

    def read(self, web: Web, path: str) -> Any:
        answer = httpx.get(f"{web.base}{path}", headers=self.headers(), timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def settled(self, web: Web, location: str) -> dict[str, Any]:
        """The receipt at this address once it is no longer pending."""

        def look() -> Any:
            receipt = self.read(web, location)
            return receipt if receipt["status"] != "pending" else None

        receipt: dict[str, Any] = eventually(look)
        return receipt


@pytest.fixture
def desk(transactional_db: None) -> Iterator[Desk]:
    """Two open tickets and three people of support; afterwards the ledger's invariants hold."""
    now = timezone.now()
    for handle in ("ada", "grace", "alan"):
        Member.objects.create(handle=handle, name=handle.title())
    for ticket in (TICKET, OTHER_TICKET):
        Ticket.objects.create(
            id=ticket,
            subject="SSO login fails",
            status="open",
            requester_name="Rita",
            requester_email="rita@example.com",
            created_at=now,
            updated_at=now,
        )
    _, token = AuthToken.objects.create(person("lead", LEADS))
    yield Desk(token)
    assert_invariants()


def events_of(stream: str) -> list[tuple[str, dict[str, Any]]]:
    """(name, data) of each event of a narration; pings are no events."""
    found = []
    for block in stream.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found
