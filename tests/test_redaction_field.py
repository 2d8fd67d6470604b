"""The labelled corpus of redaction_field_corpus.py: everything private goes, the words around it stay."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import numdb

from receipts.redaction import redact
from tests.redaction_field_corpus import ANY, NEAR_MISSES, PRIVATE, Sentence

MARKER = re.compile(r"\[(?:e-mail|phone|card|IBAN|secret)\]")
WORD = re.compile(r"\w+")

#: The corpus in pieces, to be glued anew.
PIECES = [*NEAR_MISSES, *(piece for sentence in PRIVATE for piece in (sentence.text, *sentence.private()))]
GLUE = ["", " ", "\n", "\n> ", "@", "%40", "+", "=", ": ", "; ", "是", " -p ", "Cookie: a="]

#: The share of words outside private spans that must survive; 1 in 50 is what a reader of receipts puts up with.
PRECISION = 0.98


def words(*texts: str) -> Counter[str]:
    return Counter(word for text in texts for word in WORD.findall(text))


def survivors(sentence: Sentence) -> Counter[str]:
    return words(MARKER.sub(" ", redact(sentence.text)))


def may_stay(sentence: Sentence) -> Counter[str]:
    return words(*(sentence.text[start:end] for start, end, kind in sentence.spans if kind == ANY))


def leaked(sentence: Sentence) -> list[str]:
    """The words of the redacted text that stood in private spans, whole or in part."""
    return sorted(survivors(sentence) - words(*sentence.rest()) - may_stay(sentence))


def lost(sentence: Sentence) -> list[str]:
    """The words outside every span that the redacted text no longer has."""
    return sorted((words(*sentence.rest()) - survivors(sentence)).elements())


def test_the_corpus_is_what_it_says():
    texts = {sentence.text for sentence in PRIVATE} | set(NEAR_MISSES)
    assert len(PRIVATE) >= 120
    assert len(NEAR_MISSES) >= 60
    assert len(texts) == len(PRIVATE) + len(NEAR_MISSES)
    assert all(sentence.private() for sentence in PRIVATE)


@pytest.mark.parametrize("sentence", PRIVATE, ids=lambda sentence: ascii(sentence.text[:60]))
def test_nothing_private_is_left(sentence):
    left = leaked(sentence)
    assert not left, f"{sentence.text!r} keeps {left} as {redact(sentence.text)!r}"


def test_the_words_around_private_spans_stay():
    harmed = {sentence.text: gone for sentence in PRIVATE if (gone := lost(sentence))}
    total = sum(words(*sentence.rest()).total() for sentence in PRIVATE)
    assert 1 - sum(map(len, harmed.values())) / total >= PRECISION, harmed


def test_look_alikes_stay():
    harmed = {text: answer for text in NEAR_MISSES if (answer := redact(text)) != text}
    assert 1 - len(harmed) / len(NEAR_MISSES) >= PRECISION, harmed


@given(st.lists(st.sampled_from(PIECES) | st.sampled_from(GLUE), max_size=6).map("".join))
def test_redacts_no_further_the_second_time(text):
    once = redact(text)
    assert redact(once) == once


class TestEveryCountry:
    @pytest.mark.parametrize("written_as", ["INTERNATIONAL", "E164", "RFC3966"])
    def test_its_telephone_numbers_go(self, written_as):
        form = getattr(phonenumbers.PhoneNumberFormat, written_as)
        kept = []
        for number in example_numbers():
            written = phonenumbers.format_number(number, form)
            if re.search("[0-9]", redact(f"Reach me on {written}, thanks")):
                kept.append(written)
        assert not kept

    @pytest.mark.parametrize("gap", ["", " ", "-"])
    def test_its_ibans_go(self, gap):
        kept = []
        for written in example_ibans():
            grouped = gap.join(written[at : at + 4] for at in range(0, len(written), 4))
            if redact(f"to {grouped} by Friday") != "to [IBAN] by Friday":
                kept.append(grouped)
        assert not kept


def example_numbers() -> Iterator[phonenumbers.PhoneNumber]:
    """libphonenumber's own examples."""
    kinds = phonenumbers.PhoneNumberType
    for region in sorted(phonenumbers.SUPPORTED_REGIONS):
        for kind in (kinds.MOBILE, kinds.FIXED_LINE, kinds.TOLL_FREE):
            if number := phonenumbers.example_number_for_type(region, kind):
                yield number


def example_ibans() -> Iterator[str]:
    """One of each country's form, of letters and digits that count up, with its check digits."""
    for country in (first + second for first in string.ascii_uppercase for second in string.ascii_uppercase):
        form = numdb.get("iban").info(country)[0][1].get("bban", "")
        account = "".join(
            "".join((string.digits if kind == "n" else string.ascii_uppercase)[at % 10] for at in range(int(count)))
            for count, kind in re.findall(r"([0-9]+)!([nac])", form)
        )
        if account:
            remainder = int("".join(str(int(char, 36)) for char in f"{account}{country}00")) % 97
            yield f"{country}{98 - remainder:02d}{account}"
