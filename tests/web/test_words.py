"""The words: one for each state of the row, and a sentence for each error."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from receipts.errors import BY_CODE, REASONS
from receipts.explanations import explain
from receipts.models import Receipt
from tickets import words

NOW = timezone.now()
LATER, EARLIER = NOW + dt.timedelta(seconds=9), NOW - dt.timedelta(seconds=9)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"status": "pending", "started_at": NOW, "deadline_at": LATER}, "Drafting — nothing filed yet"),
        ({"status": "pending", "start_by": LATER, "deadline_at": LATER}, "Waiting to start — nothing filed yet"),
        ({"status": "pending", "started_at": NOW, "deadline_at": EARLIER}, "Not confirmed yet — checking"),
        (
            {"status": "pending", "started_at": NOW, "deadline_at": LATER, "arguments_json": {"a": 1}},
            "Drafting — nothing filed yet",
        ),
        ({"status": "applied"}, "Filed"),
        ({"status": "failed"}, "Not filed"),
    ],
)
def test_each_state_has_its_words(row: dict[str, Any], said: str) -> None:
    assert words.standing(Receipt(**row), NOW).words == said


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_each_code_has_sentence_owner_and_next_step(code: str) -> None:
    said = explain(code, None)
    assert said.sentence[0].isupper()
    assert said.sentence[-1] in ".!?"
    assert said.owner
    assert said.next_step


def test_a_reason_speaks_instead_of_its_code() -> None:
    assert explain("fill_failed", "provider_timeout").sentence == REASONS["provider_timeout"].sentence


def test_a_row_of_another_version_is_said_as_it_is() -> None:
    assert "“from_the_future”" in explain("from_the_future", "unheard_of").sentence
