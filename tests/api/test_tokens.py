"""`manage.py issue_token`, and what the token opens."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from knox.models import AuthToken

from receipts_project.accounts.models import User


def issue(*arguments: str) -> str:
    out = StringIO()
    call_command("issue_token", *arguments, stdout=out)
    return out.getvalue()


def status(token: str) -> int:
    headers = {"host": "localhost", "authorization": f"Token {token}"}
    return Client(headers=headers).get("/api/v1/receipts").status_code


def test_prints_the_token_alone_and_it_opens_the_api(lead: User) -> None:
    printed = issue("lead")
    assert printed == printed.split()[0] + "\n"
    assert status(printed.strip()) == 200


def test_lives_as_many_days_as_asked(lead: User) -> None:
    issue("lead", "--days", "3")
    left = AuthToken.objects.get().expiry - timezone.now()
    assert 2 <= left.days <= 3


def test_an_expired_or_made_up_token_opens_nothing(lead: User) -> None:
    token = issue("lead").strip()
    AuthToken.objects.update(expiry=timezone.now())
    assert status(token) == 401
    assert status("f" * 64) == 401
    assert status("ü") == 401


def test_a_token_of_somebody_who_left_opens_nothing(lead: User) -> None:
    token = issue("lead").strip()
    User.objects.update(is_active=False)
    assert status(token) == 401


@pytest.mark.parametrize("days", ["0", "-1", "x", "1.5", "99999"])
def test_days_that_make_no_sense(lead: User, days: str) -> None:
    with pytest.raises(CommandError, match="days"):
        issue("lead", f"--days={days}")


def test_says_who_is_unknown_or_inactive(lead: User) -> None:
    with pytest.raises(CommandError, match=r"no user 'nobody'"):
        issue("nobody")
    User.objects.update(is_active=False)
    with pytest.raises(CommandError, match="not active"):
        issue("lead")
