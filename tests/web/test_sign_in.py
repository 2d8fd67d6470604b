"""Signing in and out."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.db import connection
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


class WatchingHasher(MD5PasswordHasher):
    """Notes what its thread holds while it hashes, and how many hash at once."""

    held: list[bool] = []
    at_once: list[int] = []
    running = 0
    lock = threading.Lock()

    def encode(self, password: str, salt: str) -> str:
        kind = type(self)
        kind.held.append(connection.connection is not None)
        with kind.lock:
            kind.running += 1
            kind.at_once.append(kind.running)
        time.sleep(0.05)
        with kind.lock:
            kind.running -= 1
        return super().encode(password, salt)


class TestHashing:
    @pytest.fixture
    def hasher(self, transactional_db: None, settings: Any) -> type[WatchingHasher]:
        settings.PASSWORD_HASHERS = [f"{__name__}.WatchingHasher"]
        User.objects.create_user("maya", password=PASSWORD)
        WatchingHasher.held, WatchingHasher.at_once = [], []
        return WatchingHasher

    @pytest.mark.parametrize(("username", "password"), [("maya", PASSWORD), ("maya", "wrong"), ("nobody", "wrong")])
    def test_holds_no_connection_and_takes_as_long_for_a_name_that_is_not_there(
        self, hasher: type[WatchingHasher], username: str, password: str
    ) -> None:
        answer = Client().post("/login", {"username": username, "password": password})
        assert answer.status_code == (302 if password == PASSWORD else 200)
        assert hasher.held == [False]

    def test_a_flood_hashes_two_at_a_time(self, hasher: type[WatchingHasher]) -> None:
        def sign_in(_: int) -> int:
            try:
                return Client().post("/login", {"username": "maya", "password": PASSWORD}).status_code
            finally:
                connection.close()

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(sign_in, range(8))) == {302}
        assert max(hasher.at_once) == 2
        assert not any(hasher.held)
