"""Bodies: one strict JSON object, or 400 with the field's name."""

from __future__ import annotations

import json

import pytest

from receipts.errors import InvalidRequest
from receipts.parsers import MAX_BODY_BYTES, parse_object


def test_reads_an_object_with_any_text() -> None:
    text = "Grüße, 東京 🙂 \\u00e9 \\ud83d\\ude42"
    assert parse_object(f'{{"notes": "{text}"}}'.encode()) == {"notes": "Grüße, 東京 🙂 é 🙂"}


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b'"notes"', "body"),
        (b"null", "body"),
        (b'{"notes": 1} x', "body"),
        (b'{"notes": "a", "notes": "b"}', "body"),
        (b'{"notes": {"a": 1, "a": 2}}', "body"),
        (b'{"notes": NaN}', "body"),
        (b'{"notes": -Infinity}', "body"),
        (b'{"notes": 1e999}', "body"),
        (b'{"notes": "\xff"}', "body"),
        (b'{"notes": "\xed\xa0\x80"}', "body"),
        (b'{"notes": "a\0b"}', "body"),
        (b'{"notes":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "body"),
        (b'{"notes":' + b'{"a":' * 1000 + b"1" + b"}" * 1001, "body"),
        (b'{"notes": "a\\u0000b"}', "notes"),
        (b'{"notes": "\\ud800"}', "notes"),
        (b'{"notes": {"deep": ["a", "\\udfff"]}}', "notes.deep.1"),
        (b'{"a\\u0000b": "c"}', "body"),
        (b'{"notes": {"\\ud83d": "c"}}', "notes"),
        (b'{"notes": "' + b"x" * MAX_BODY_BYTES + b'"}', "body"),
    ],
)
def test_refuses_by_name(raw: bytes, field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_object(raw)
    assert list(refusal.value.fields) == [field]
    json.dumps(refusal.value.fields).encode("ascii")
