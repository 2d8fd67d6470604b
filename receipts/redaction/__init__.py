"""Private values out, before anything enters a receipt, attempt, event, log line or hash. No Django, no ORM.

`redact_text` replaces each private value by the mark of its kind: `[e-mail]`, `[phone]`, `[card]`, `[IBAN]`,
`[secret]`; `redact` adds `[private]` for the fields that a contract declares private. The check digits are
python-stdnum's, the rules of phone numbers libphonenumber's.

How it reads: every kind has a *finder*, a function from text to spans. Finders see the text as a person does
(NFKC, digits of any script, nothing invisible, "@" and "+" unescaped); the spans are cut from the text as it was
typed. Each works on what the one before left, in the order of `_FINDERS`, so a digit run inside a key is a key and
not a phone.

How it stays linear: no pattern may rescan what it has refused. Repetitions are possessive (`++`) or bounded,
and what a pattern cannot say so is checked in Python after the match. Never a possessive group: before 3.11.5 Python's
`(?:…)*+` keeps what its last, failed round has read (python/cpython#106052).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from receipts.redaction.accounts import cards, ibans, is_card, wrapped_cards
from receipts.redaction.e_mails import e_mails
from receipts.redaction.passwords import (
    SECRET_FIELD,
    assignments,
    authorization,
    command_flags,
    cookies,
    query_secrets,
    url_credentials,
)
from receipts.redaction.phones import phones
from receipts.redaction.reading import Finder, Span, readable, written_end
from receipts.redaction.tokens import bot_tokens, private_keys, tokens

__all__ = ["MAX_DEPTH", "input_hash", "redact", "redact_text"]

#: JSON nested deeper than this is nobody's arguments; what lies below is replaced, not walked.
MAX_DEPTH = 64

#: A replaced value can uncover another one beside it; passes until nothing changes, and no more than this.
_MAX_PASSES = 8

#: In this order: what contains other kinds comes first.
_FINDERS: tuple[tuple[str, Finder], ...] = (
    ("[secret]", private_keys),
    ("[secret]", tokens),
    ("[secret]", bot_tokens),
    ("[secret]", url_credentials),
    ("[secret]", query_secrets),
    ("[secret]", authorization),
    ("[secret]", cookies),
    ("[secret]", command_flags),
    ("[secret]", assignments),
    ("[e-mail]", e_mails),
    ("[IBAN]", ibans),
    ("[card]", cards),
    ("[card]", wrapped_cards),
    ("[phone]", phones),
)


def redact_text(text: str) -> str:
    """`text` with every private value replaced by its mark; unchanged, and cheap, where there is none.

    Never raises; lone surrogates pass through. `redact_text(redact_text(x)) == redact_text(x)`.
    """
    for _ in range(_MAX_PASSES):
        redacted = _one_pass(text)
        if redacted == text:
            break
        text = redacted
    return text


def redact(value: Any, *, private: frozenset[str] = frozenset()) -> Any:
    """A JSON value with its texts redacted, keys included; a new value, the given one is not touched.

    Args:
        value: dict, list, str, number, bool or None; a tuple comes back as a list.
        private: names of fields, at any depth, whose whole value becomes `[private]`.

    A text in a field named like a secret (`password`, `api_key`) becomes `[secret]`, whatever it looks like.
    """
    return _redact(value, private, MAX_DEPTH)


def input_hash(ticket_id: str, notes: str) -> str:
    """16 hex characters that say "the same input"; for correlation, not security.

    Source: `make_receipt` of the article on run receipts, over the redacted `{"ticket_id", "notes"}`.
    """
    redacted = {"ticket_id": ticket_id, "notes": redact_text(notes)}
    return hashlib.sha256(json.dumps(redacted, sort_keys=True).encode()).hexdigest()[:16]


def _redact(value: Any, private: frozenset[str], depth: int) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict | list | tuple) and depth == 0:
        return "[too deep]"
    if isinstance(value, dict):
        return _redact_fields(value, private, depth)
    if isinstance(value, list | tuple):
        return [_redact(item, private, depth - 1) for item in value]
    # A card number sent as a JSON number is still a card number.
    if isinstance(value, int) and 10**12 <= value < 10**19 and is_card(str(value), grouped=False):
        return "[card]"
    return value


def _redact_fields(fields: dict[Any, Any], private: frozenset[str], depth: int) -> dict[Any, Any]:
    redacted: dict[Any, Any] = {}
    for name, value in fields.items():
        shown = redact_text(name) if isinstance(name, str) else name
        # Two addresses as keys become the same mark: number the later ones rather than lose their values.
        if shown in redacted:
            shown = next(s for n in range(2, len(fields) + 2) if (s := f"{shown} ({n})") not in redacted)
        if name in private:
            redacted[shown] = "[private]"
        elif isinstance(name, str) and isinstance(value, str) and value and SECRET_FIELD.search(name):
            redacted[shown] = "[secret]"
        else:
            redacted[shown] = _redact(value, private, depth - 1)
    return redacted


def _one_pass(text: str) -> str:
    view, origin = readable(text)
    for mark, find in _FINDERS:
        spans = list(find(view))
        if spans:
            text = _replace(text, origin, spans, mark)
            view, origin = readable(text)
    return text


def _replace(text: str, origin: list[int] | None, spans: list[Span], mark: str) -> str:
    pieces, done = [], 0
    for start, end in spans:
        if origin is not None:
            start, end = origin[start], written_end(text, origin[end - 1])
        if start < done:
            continue
        pieces += [text[done:start], mark]
        done = end
    return "".join([*pieces, text[done:]])
