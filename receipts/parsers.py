"""Request bodies: one strict JSON object of at most 1 MB, or 400 with the field's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any

from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.parsers import BaseParser

from receipts.errors import InvalidRequest
from receipts.fill import strictjson

#: Bytes of a request body. Notes are 8,000 characters at most; a megabyte leaves room for escapes and headroom.
MAX_BODY_BYTES = 1_048_576


def body_error(what: str) -> InvalidRequest:
    """The refusal of a body as a whole."""
    return InvalidRequest(fields={"body": what})


def parse_object(raw: bytes) -> dict[str, Any]:
    """The JSON object of a body.

    Raises: InvalidRequest naming the field: too large, not UTF-8, not one strict JSON object (duplicate keys, NaN,
    deep nesting), or a text with NUL or a lone surrogate, which no database row can hold.
    """
    if len(raw) > MAX_BODY_BYTES:
        raise body_error(f"is larger than {MAX_BODY_BYTES:,} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise body_error("is not UTF-8") from None
    try:
        value = strictjson.parse(text)
    except strictjson.NotStrictJson:
        raise body_error("is not strict JSON: check syntax, duplicate keys, numbers and nesting") from None
    if not isinstance(value, dict):
        raise body_error("is not a JSON object")
    if "\\u" in text:  # raw NUL and raw surrogates cannot get past the two steps above, escapes can
        refuse_unstorable(value)
    return value


def refuse_unstorable(value: dict[str, Any]) -> None:
    """Raises: InvalidRequest naming the fields whose text, or whose key, holds NUL or a lone surrogate."""
    wrong = {name: "holds a NUL character or a lone surrogate" for name, text in _texts(value) if _unstorable(text)}
    if wrong:
        raise InvalidRequest(fields=wrong)


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """(dotted name, text) of every text inside; a key counts as a text of its object. The parser bounds the depth."""
    if isinstance(value, str):
        yield name or "body", value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield name or "body", key
            if not _unstorable(key):
                yield from _texts(child, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield from _texts(child, f"{name}.{position}" if name else str(position))


def _unstorable(text: str) -> bool:
    return "\0" in text or any("\ud800" <= c <= "\udfff" for c in text)


class StrictJSONParser(BaseParser):
    """DRF's door to `parse_object`."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Raises: InvalidRequest; UnsupportedMediaType for a body that is encoded, or said to be."""
        request = (parser_context or {}).get("request")
        encoding = request.META.get("HTTP_CONTENT_ENCODING", "identity") if request is not None else "identity"
        if encoding.strip().lower() not in ("", "identity"):
            raise UnsupportedMediaType(
                media_type or self.media_type, f"Content-Encoding {encoding[:40]!a} is not taken."
            )
        return parse_object(stream.read(MAX_BODY_BYTES + 1))
