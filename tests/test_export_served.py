"""An export on the server as it is run: taken whole, hung up on, and killed with its process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Permission
from django.db import connection

from benchmarks.export import GENERATE
from receipts.models import AuditEvent
from receipts_project.accounts.models import User
from tests.factories import alice, desk
from tests.flow.web import Web, eventually

__all__ = ["alice", "desk"]

pytestmark = pytest.mark.processes

ROWS = 12_000  # some 25 MB: more than the sockets between server and client hold


@pytest.fixture
def web(alice: User) -> Iterator[Web]:
    alice.user_permissions.add(Permission.objects.get(codename="export_receipt"))
    with connection.cursor() as cursor:
        cursor.execute(GENERATE, {"rows": ROWS, "user": alice.pk})
        cursor.execute("ANALYZE tool_receipts, attempts")
    running = Web(user=alice, provider_url="http://127.0.0.1:9/")
    yield running
    running.end()


def take(web: Web) -> Any:
    headers = {"Authorization": f"Token {web.token}"}
    return httpx.stream("GET", f"{web.base}/api/v1/receipts/export?format=jsonl", headers=headers, timeout=60)


def stages() -> list[str]:
    return [event.detail["stage"] for event in AuditEvent.objects.filter(verb="export").order_by("id")]


def test_comes_whole_with_its_last_line(web: Web) -> None:
    with take(web) as response:
        lines = list(response.iter_lines())
    assert len(lines) == ROWS + 1
    assert json.loads(lines[-1])["export"]["rows"] == ROWS
    assert stages() == ["begun", "complete"]


def test_a_client_that_hangs_up_is_on_record_and_frees_the_place(web: Web) -> None:
    for times in range(1, 4):  # more than there are places
        with take(web) as response:
            assert response.status_code == 200
            next(response.iter_bytes())
        eventually(lambda times=times: stages() == ["begun", "cut"] * times)
    cut = AuditEvent.objects.filter(verb="export", detail__stage="cut").latest("id")
    assert 0 < cut.detail["rows"] < ROWS


def test_a_killed_process_leaves_the_event_that_it_began(web: Web) -> None:
    with take(web) as response:
        next(response.iter_bytes())
        web.kill()
    assert stages() == ["begun"]
