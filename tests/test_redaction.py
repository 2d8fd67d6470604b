"""Redaction: nothing private is kept, nothing else is lost, and no text makes it slow or makes it fail."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receipts.redaction import MAX_DEPTH, input_hash, redact, redact_text
from tests.redaction_corpus import MIX36, NEAR_MISSES, POSITIVES, Case

MARKS = ("[e-mail]", "[phone]", "[card]", "[IBAN]", "[secret]")

#: Any text at all, lone surrogates too.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=300)
#: Texts made of what patterns trip over: the corpus in pieces, glued with and without anything between.
PIECES = [piece for c in POSITIVES for piece in (c.text, *c.private)] + NEAR_MISSES + list(MARKS)
GLUE = [
    "",
    " ",
    "\n",
    "@",
    ".",
    "-",
    "/",
    ":",
    "=",
    "+",
    "(",
    ")",
    "[",
    '"',
    "0",
    "7",
    "a",
    "password=",
    "\u200b",
    "１",
]
GLUED = st.lists(st.sampled_from(PIECES) | st.sampled_from(GLUE), max_size=8).map("".join)


class TestTheCorpus:
    def test_is_large_enough_to_mean_something(self):
        assert len(POSITIVES) >= 90
        assert len(NEAR_MISSES) >= 60
        assert len({c.text for c in POSITIVES} | set(NEAR_MISSES)) == len(POSITIVES) + len(NEAR_MISSES)

    @pytest.mark.parametrize("c", POSITIVES, ids=lambda c: c.text[:40].encode("ascii", "replace").decode())
    def test_recall_is_one(self, c: Case):
        kept = redact_text(c.text)
        assert not [part for part in c.private if part in kept]
        assert kept == c.expected

    def test_precision_is_at_least_98_in_100(self):
        wrong = [text for text in NEAR_MISSES if redact_text(text) != text]
        wrong += [c.text for c in POSITIVES if redact_text(c.text) != c.expected]
        right = sum(len(c.private) for c in POSITIVES)
        assert right / (right + len(wrong)) >= 0.98, wrong

    def test_near_misses_stay_as_they_are(self):
        assert [text for text in NEAR_MISSES if redact_text(text) != text] == []


class TestRedactText:
    @given(ANY_TEXT | GLUED)
    def test_redacts_no_further_the_second_time(self, text: str):
        once = redact_text(text)
        assert redact_text(once) == once

    @given(ANY_TEXT, st.sampled_from(["a@b.co", "4242424242424242", "+49 30 1234567"]))
    def test_finds_a_value_among_any_text(self, text: str, value: str):
        assert value not in redact_text(f"{text}\n{value}\n{text}")

    @given(st.text(st.sampled_from("\u200b\u00ad\u2060\ufeff"), max_size=3), st.integers(1, 15))
    def test_sees_through_invisible_characters(self, hidden: str, at: int):
        address = "anna@example.com"
        assert redact_text(f"to {address[:at]}{hidden}{address[at:]} now") == "to [e-mail] now"

    def test_keeps_lone_surrogates(self):
        assert redact_text("\ud800 a@b.co \udfff") == "\ud800 [e-mail] \udfff"

    @pytest.mark.parametrize(
        ("unit", "tail"),
        [
            (unit, tail)
            for unit in (  # noqa: SIM905
                "a@ 1 + -----BEGIN -----BEGIN_PRIVATE_KEY----- sk- sk-a1 eyJ eyJaaaaaaaa. a . - ( (0 a@b.c @a.b (at) "
                "1- 1.1. 00 0049 +( x= password= password=a, password=a&b ?key= :// ://a: ://a:b@ TCK- \u200b １ \u0308"
            ).split()
            for tail in ("", "!")
        ]
        + [("030 1234567 ", ""), ("4111 ", ""), ("DE89 3704 ", ""), ("1 ", "x"), ("a1 ", ""), ("tel 1234567 ", "")],
    )
    def test_work_grows_with_length_not_its_square(self, unit: str, tail: str):
        """Counted in calls, not in seconds; the patterns' own steps are bounded by how they are written."""
        unit = unit.replace("_", " ")
        small, large = (unit * (size // len(unit)) + tail for size in (2_000, 8_000))
        assert calls(lambda: redact_text(large)) <= 5 * calls(lambda: redact_text(small)) + 200


def calls(work: Callable[[], object]) -> int:
    """How many functions, Python's and C's, `work` calls."""
    count = 0

    def on_event(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    work()  # caches are filled before counting
    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


class TestRedact:
    def test_walks_fields_lists_and_names(self):
        value = {
            "summary": "mail a@b.co",
            "steps": ["call +49 30 1234567", {"a@b.co": 1}],
            "n": 3,
            "ok": True,
            "x": None,
        }
        assert redact(value) == {
            "summary": "mail [e-mail]",
            "steps": ["call [phone]", {"[e-mail]": 1}],
            "n": 3,
            "ok": True,
            "x": None,
        }

    def test_leaves_the_given_value_alone(self):
        value = {"notes": ["a@b.co"]}
        redact(value)
        assert value == {"notes": ["a@b.co"]}

    def test_replaces_private_fields_wholly_at_any_depth(self):
        value = {"assignee": "ada", "more": [{"assignee": {"name": "ada"}}]}
        assert redact(value, private=frozenset({"assignee"})) == {
            "assignee": "[private]",
            "more": [{"assignee": "[private]"}],
        }

    def test_replaces_texts_in_fields_named_like_secrets(self):
        value = {"password": "swordfish", "apiKey": "zzz", "prompt_tokens": "7", "token": 7}
        assert redact(value) == {"password": "[secret]", "apiKey": "[secret]", "prompt_tokens": "7", "token": 7}

    def test_loses_no_field_when_two_names_get_the_same_mark(self):
        assert redact({"a@b.co": 1, "c@d.co": 2, "e@f.co": 3}) == {"[e-mail]": 1, "[e-mail] (2)": 2, "[e-mail] (3)": 3}

    def test_takes_a_card_number_sent_as_a_number(self):
        assert redact([4242424242424242, 1767609127123, 4242424242424243, 10**5000]) == [
            "[card]",
            1767609127123,
            4242424242424243,
            10**5000,
        ]

    def test_stops_at_a_depth_that_nobody_means(self):
        value: object = "a@b.co"
        for _ in range(100_000):
            value = [value]
        walked, depth = redact(value), 0
        while isinstance(walked, list):
            walked, depth = walked[0], depth + 1
        assert (walked, depth) == ("[too deep]", MAX_DEPTH)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.sampled_from(PIECES) | ANY_TEXT,
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(PIECES) | ANY_TEXT, inner, max_size=3)
            ),
            max_leaves=6,
        )
    )
    def test_redacts_no_further_the_second_time(self, value: object):
        once = redact(value, private=frozenset({"x"}))
        assert redact(once, private=frozenset({"x"})) == once


class TestInputHash:
    def test_is_what_the_article_computes_on_the_redacted_input(self):
        redacted_input = {"notes": "SSO fails for [e-mail]", "ticket_id": "TCK-1008"}
        digest = hashlib.sha256(json.dumps(redacted_input, sort_keys=True).encode()).hexdigest()[:16]
        assert input_hash("TCK-1008", "SSO fails for anna@example.com") == digest

    def test_tells_nothing_about_the_private_part(self):
        assert input_hash("TCK-1008", f"token ghp_{MIX36}") == input_hash("TCK-1008", f"token ghp_{MIX36[::-1]}")
        assert input_hash("TCK-1008", "a") != input_hash("TCK-1009", "a")
