"""May mail be sent to this address: the decision, its reason, and the day on which to look again."""

from __future__ import annotations

import datetime as dt

import pytest
from disposable_email_domains import blocklist

from tickets.contact import LIST_VERSION, REVIEW_WINDOW_DAYS, Decision, deliverable, judge

NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("address", "decision", "reason"),
    [
        ("rita@example.com", "accept", "plain"),
        ("Rita.Meyer+tickets@Example.COM", "accept", "plain"),
        ("rita@bücher.example", "accept", "plain"),
        ("rita@mailinator.com", "reject", "disposable_domain"),
        ("rita@MAILINATOR.com", "reject", "disposable_domain"),
        ("rita@deep.below.mailinator.com", "reject", "disposable_domain"),
        ("rita@notmailinator-at-all.example", "accept", "plain"),
        ("support@example.com", "review", "role_account"),
        ("No-Reply@example.com", "review", "role_account"),
        ("billing+eu@example.com", "review", "role_account"),
        ("supporters@example.com", "accept", "plain"),
        ("", "reject", "syntax"),
        ("rita", "reject", "syntax"),
        ("rita@localhost", "reject", "syntax"),
        ("rita@shop.test", "reject", "syntax"),
        ("rita@@example.com", "reject", "syntax"),
        ("rita@example.com, bob@example.com", "reject", "syntax"),
        ("rita@example.com\nBcc: bob@example.com", "reject", "syntax"),
        ("jörg@example.com", "reject", "syntax"),
        ("a" * 65 + "@example.com", "reject", "syntax"),
    ],
)
def test_decides_with_a_reason(address: str, decision: str, reason: str) -> None:
    judged = judge(address, NOW)

    assert (judged.decision, judged.reason) == (decision, reason)


@pytest.mark.parametrize(("address", "days"), [("r@a.example", 180), ("info@a.example", 14), ("r@mailinator.com", 30)])
def test_every_decision_has_a_day_on_which_to_look_again(address: str, days: int) -> None:
    assert judge(address, NOW).review_until == NOW + dt.timedelta(days=days)
    assert set(REVIEW_WINDOW_DAYS) == set(Decision)


def test_names_the_list_by_its_version() -> None:
    assert LIST_VERSION.startswith("disposable-email-domains 0.0.")
    assert len(blocklist) > 3000


def test_mail_server_gets_the_domain_in_ascii() -> None:
    assert deliverable("rita@bücher.example") == "rita@xn--bcher-kva.example"
