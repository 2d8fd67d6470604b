"""The Idempotency-Key header: two spellings of one key, and everything else refused."""

from __future__ import annotations

import pytest

from receipts.errors import IdempotencyKeyInvalid, IdempotencyKeyRequired
from receipts.keys import parse_key

KEY = "0f6d2c9e-8f5f-4a55-9e0c-2f6f6a6a1b11"


@pytest.mark.parametrize(
    ("header", "key"),
    [
        (KEY, KEY),
        (f'"{KEY}"', KEY),
        (f"  {KEY}\t", KEY),
        ("abcdefgh", "abcdefgh"),
        ("ABCDEFGH", "ABCDEFGH"),
        ("a.b_c:d~e-f1", "a.b_c:d~e-f1"),
        ("x" * 255, "x" * 255),
        ("Replay:1234", "Replay:1234"),
        ("my-replay:1234", "my-replay:1234"),
    ],
)
def test_reads(header: str, key: str) -> None:
    assert parse_key(header) == key


@pytest.mark.parametrize(
    "header",
    [
        "",
        " ",
        '""',
        "short-1",
        "x" * 256,
        "x" * 8192,
        "abcdefgh\0",
        "abcdefgh\r\n",
        "abcdefgh\n",
        "abcd\tefgh",
        "abcd efgh",
        "schlüssel-1",
        "clef-é-1234",
        "key-🔑-1234",
        '"abcdefgh',
        'abcdefgh"',
        '"abcd\\"efgh"',
        '"abcdefgh";x=1',
        "abcdefgh;x=1",
        "abcdefgh, abcdefgh",  # the header sent twice
        '"abcdefgh","ijklmnop"',
        "'abcdefgh'",
        "abcdefgh/ijk",
        "replay:1234",
        '"replay:1234"',
        "outbox:1234",
    ],
)
def test_refuses_and_never_repeats_the_value(header: str) -> None:
    with pytest.raises(IdempotencyKeyInvalid) as refusal:
        parse_key(header)
    assert not header.strip() or header not in str(refusal.value)


def test_requires_the_header() -> None:
    with pytest.raises(IdempotencyKeyRequired):
        parse_key(None)
