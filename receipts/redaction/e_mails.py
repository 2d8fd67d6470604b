"""E-mail addresses, of any script, and the two usual ways to hide one from robots."""

from __future__ import annotations

import re
from collections.abc import Iterator

from receipts.redaction.reading import Span

_AT = re.compile(r"@| ?[\[({] ?at ?[\])}] ?", re.IGNORECASE)
_DOT = r"(?:\.| ?[\[({] ?dot ?[\])}] ?)"
_LABEL = r"[\w\u0300-\u036f-]{1,63}"  # a decomposed umlaut is a letter and a combining mark
_DOMAIN = re.compile(rf"{_LABEL}(?:{_DOT}{_LABEL}){{1,10}}|\[(?:IPv6:)?[0-9A-Fa-f.:]{{3,45}}\]", re.IGNORECASE)
_LAST_LABEL = re.compile(r"[^.\s\])}]+$")
_TOP_LEVEL = re.compile(r"(?:xn--[a-z0-9-]{2,59}|[a-z]{2,63}|[^\W\d_a-z]{2,63})", re.IGNORECASE)
_LOCAL_BACKWARDS = re.compile(r"[\w\u0300-\u036f.+%!#$*^~'’-]{1,256}")
_BEHIND_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]([A-Za-z0-9._%+'-]+)$")
_PICTURE_SCALE = re.compile(r"@\d(?:\.\d)?x\.(?:png|jpe?g|gif|webp|svg|avif)", re.IGNORECASE)


def e_mails(text: str) -> Iterator[Span]:
    if "@" not in text and not any(bracket in text for bracket in "[({"):
        return
    done = 0
    for at in _AT.finditer(text):
        if at.start() < done:
            continue
        end = _domain_end(text, at.end())
        start = _local_start(text, at.start(), done) if end else at.start()
        if end and start < at.start() and not _only_looks_like_one(text, start, at.start(), end):
            yield start, end
            done = end


def _domain_end(text: str, start: int) -> int:
    """Where the domain that begins at `start` ends; 0 when there is none with a top level of letters."""
    domain = _DOMAIN.match(text, start)
    if not domain:
        return 0
    if domain[0].startswith("["):
        return domain.end()
    name = domain[0]
    while last := _LAST_LABEL.search(name):
        if last.start() == 0:
            return 0
        # A match, not a full match: languages without spaces write on right behind the address.
        top = _TOP_LEVEL.match(last[0])
        if top:
            return start + last.start() + top.end()
        name = name[: last.start()].rstrip(".[({])} dotDOT")
    return 0


def _local_start(text: str, at: int, done: int) -> int:
    if text[at - 1 : at] == '"':
        quote = text.rfind('"', max(done, at - 66), at - 1)
        return quote if quote != -1 and "\n" not in text[quote:at] else at
    # Backwards from the "@", so that a long text without one is never walked from each of its letters.
    backwards = _LOCAL_BACKWARDS.match(text[max(done, at - 256) : at][::-1])
    local = backwards[0][::-1].lstrip("._-'’!#$*^~") if backwards else ""
    if behind := _BEHIND_CJK.search(local):
        local = behind[1]
    return at - len(local)


def _only_looks_like_one(text: str, start: int, at: int, end: int) -> bool:
    if text[start:at] == "git":  # git@host:path and ssh://git@host: everybody's user, nobody's address
        return text[end : end + 1] == ":" or text[:start].endswith("://")
    return bool(_PICTURE_SCALE.match(text, at))
