"""Signing in and out."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from receipts_project.accounts.models import User
from tests.web.conftest import PASSWORD, text_of


@pytest.fixture
def maya(db: None) -> User:
    return User.objects.create_user("maya", password=PASSWORD)


def try_password(client: Client, password: str, **data: str) -> Any:
    return client.post("/login", {"username": "maya", "password": password, **data})


def test_goes_to_the_page_that_was_asked_for(maya: User) -> None:
    assert try_password(Client(), PASSWORD, next="/receipts")["Location"] == "/receipts"


def test_never_leaves_this_host(maya: User) -> None:
    assert try_password(Client(), PASSWORD, next="https://elsewhere.example/")["Location"] == "/"


def test_says_the_same_for_a_wrong_name_and_a_wrong_password(maya: User) -> None:
    wrong = try_password(Client(), "wrong password")
    unknown = Client().post("/login", {"username": "nobody", "password": "wrong password"})
    for page in (wrong, unknown):
        assert page.status_code == 200
        assert "User name and password do not match." in text_of(page)


def test_guessing_is_paused_in_our_words(maya: User, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT = 3
    pages = [try_password(Client(), f"wrong {n}") for n in range(4)]
    assert pages[-1].status_code == 429
    assert "Signing in works again in 10 minutes." in text_of(pages[-1])
    assert try_password(Client(), PASSWORD).status_code == 429, "the right password neither"


def test_signing_out_empties_the_tabs_storage(maya: User) -> None:
    client = Client()
    client.force_login(maya)
    answer = client.post("/logout")
    assert answer["Location"] == "/login"
    assert answer["Clear-Site-Data"] == '"storage"'
    assert client.get("/").status_code == 302
