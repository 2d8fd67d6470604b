"""The text as a person reads it, and where each of its characters stands in the text as it was typed."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""Start and end in a text."""

Finder: TypeAlias = Callable[[str], Iterable[Span]]
"""From a readable text to the spans of one kind, ascending; of two that overlap the first counts."""

#: Characters without a shape: soft hyphen, joiners, direction marks, fillers, variation selectors, tags.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
_HIDES_SOMETHING = re.compile(rf"[{_INVISIBLE}]|(?![0-9])\d")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_IS_INVISIBLE = re.compile(rf"[{_INVISIBLE}]")

#: "@" and "+" as URLs, JSON and HTML escape them. No others: a space or "&" let out of a URL would end a value early.
_ESCAPED = re.compile(
    r"(?P<at>%40|\\u0040|&#(?:0*64|x0*40);|&commat;)|%2B|\\u002B|&#(?:0*43|x0*2B);|&plus;", re.IGNORECASE
)
_NOT_AS_READ = re.compile(rf"{_ESCAPED.pattern}|{_NOT_ASCII.pattern}", re.IGNORECASE)

#: How a mail program breaks a line inside a value, and how a reply quotes the next one.
WRAP = r"(?: ?\r?\n(?:> ?)?)"


def readable(text: str) -> tuple[str, list[int] | None]:
    """The text to search, and the place in `text` of each of its characters; None where both are the same."""
    escaped = ("%" in text or "\\u00" in text or "&" in text) and _ESCAPED.search(text)
    plain = text.isascii() or (unicodedata.is_normalized("NFKC", text) and not _HIDES_SOMETHING.search(text))
    if plain and not escaped:
        return text, None
    pieces: list[str] = []
    origin: list[int] = []
    done = 0
    for char in _NOT_AS_READ.finditer(text):
        at = char.start()
        pieces.append(text[done:at])
        origin.extend(range(done, at))
        shape = _shape(char[0]) if at + 1 == char.end() else "@" if char["at"] else "+"
        pieces.append(shape)
        origin.extend([at] * len(shape))
        done = char.end()
    pieces.append(text[done:])
    origin.extend(range(done, len(text)))
    return "".join(pieces), origin


def written_end(text: str, last: int) -> int:
    """Where the character at `last`, as it was typed, ends."""
    escaped = _ESCAPED.match(text, last)
    return escaped.end() if escaped else last + 1


@functools.lru_cache(maxsize=4096)
def _shape(char: str) -> str:
    if _IS_INVISIBLE.match(char):
        return ""
    digit = unicodedata.decimal(char, None)
    return unicodedata.normalize("NFKC", char) if digit is None else str(digit)


def mentions(text: str, stems: Iterable[str]) -> bool:
    """Is any of these in it? Ten times cheaper than the pattern that would look for whole words."""
    lowered = text.lower()
    return any(stem in lowered for stem in stems)


def ascii_alnum(char: str) -> bool:
    """Is it a letter or digit that would make one word with a number? Kana and the like do not."""
    return char.isascii() and (char.isalnum() or char == "_")
