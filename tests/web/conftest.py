"""The leads' pages as a browser without script meets them: real flow and database, a provider the test drives."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from receipts_project.accounts.models import User
from receipts_project.accounts.roles import AUDITORS
from tests.flow.conftest import alice, bob, desk, operator, person, provider  # noqa: F401 - fixtures
from tests.flow.provider import Provider

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _unhashed_static_files(settings: Any) -> None:
    """The names of hashed files exist only after collectstatic."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}


@pytest.fixture
def auditor(desk: Provider) -> User:
    return person("audrey", AUDITORS)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def lead(alice: User) -> Client:
    """Alice's browser."""
    return signed_in(alice)


def text_of(response: HttpResponse) -> str:
    return response.content.decode()


def key_in(page: HttpResponse, what: str = "followups") -> str:
    """The idempotency key that a form of a ticket's page holds, or the one form of another page."""
    html = text_of(page)
    form = re.search(rf'<form [^>]*data-what="{what}".*?</form>', html, re.DOTALL)
    found = re.search(r'name="idempotency_key" value="([^"]+)"', form[0] if form else html)
    assert found, "the page has no form with a key"
    return found[1]


def press(client: Client, notes: str = "Customer still blocked on SSO.", ticket: str = "TCK-1008", **data: str) -> Any:
    """Open the ticket, fill the form in, press: what a browser without script does."""
    address = f"/tickets/{ticket}"
    key = data.pop("idempotency_key", None) or key_in(client.get(address))
    return client.post(address, {"notes": notes, "idempotency_key": key, **data})


def press_other(client: Client, what: str, notes: str = "It is solved.", ticket: str = "TCK-1008") -> Any:
    """The same with another of the page's buttons."""
    key = key_in(client.get(f"/tickets/{ticket}"), what)
    return client.post(f"/tickets/{ticket}/{what}", {"notes": notes, "idempotency_key": key})


def tables_that_hold(words: str) -> set[str]:
    """The tables that have the words in any row, as text or as bytes; sessions are read as Django reads them."""
    found = set()
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            if any(form in row for (row,) in cursor.fetchall() for form in (words, words.encode().hex())):
                found.add(table)
    if any(words in str(session.get_decoded()) for session in Session.objects.all()):
        found.add("django_session")
    return found
