"""`/livez` and `/readyz`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from receipts_project import health
from tickets.models import Ticket


@pytest.fixture
def client() -> Client:
    return Client(headers={"host": "localhost"})


def test_livez_does_not_ask_the_database(client: Client, db: None) -> None:
    with CaptureQueriesContext(connection) as seen:
        response = client.get("/livez")
    assert (response.status_code, len(seen)) == (200, 0)
    assert response["Cache-Control"] == "no-store"


def test_readyz_says_what_it_checked(client: Client, db: None) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ready",
        "checks": {"database": True, "migrations": True, "tickets": True},
    }


def test_readyz_is_503_while_a_migration_is_missing(client: Client, db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE app = 'tickets'"
            " AND name = (SELECT max(name) FROM django_migrations WHERE app = 'tickets')"
        )
    response = client.get("/readyz")
    assert (response.status_code, response.json()["checks"]["migrations"]) == (503, False)


@pytest.mark.parametrize("seeded", [True, False])
def test_readyz_waits_for_the_demo_data_of_make_run(
    client: Client, db: None, monkeypatch: pytest.MonkeyPatch, seeded: bool
) -> None:
    monkeypatch.setattr(health, "DEMO_DATA", True)
    if seeded:
        Ticket.objects.create(id="TCK-1", subject="x", created_at=timezone.now(), updated_at=timezone.now())
    response = client.get("/readyz")
    assert response.json()["checks"] == {"database": True, "migrations": True, "tickets": seeded}
    assert response.status_code == (200 if seeded else 503)


@pytest.fixture
def no_database(transactional_db: None) -> Iterator[None]:
    """The connection of this thread leads nowhere, and there is no pool that still holds good ones."""
    database = connections["default"]
    given = database.settings_dict
    database.close()
    database.settings_dict = given | {"HOST": "/nowhere", "OPTIONS": {}}
    yield
    database.close()
    database.settings_dict = given


def test_without_a_database_the_process_is_alive_but_not_ready(client: Client, no_database: None) -> None:
    response = client.get("/readyz")
    assert (response.status_code, response.json()["checks"]["database"]) == (503, False)
    assert client.get("/livez").status_code == 200


def test_without_a_database_the_api_says_503_and_when_to_ask_again(client: Client, no_database: None) -> None:
    response = client.get("/api/v1/receipts", headers={"authorization": "Token " + "f" * 64})
    assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")
    assert response["Retry-After"] == "1"
