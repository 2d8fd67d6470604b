"""Characters that people cannot see, and what is done about them.

Two directions. What goes *to* a model is cleaned (`sanitise`): hidden instructions in a note must not reach
it. What comes *from* a model is refused (`problem`), never cleaned: the stored arguments are then exactly
what the model sent.
"""

from __future__ import annotations

import re
from typing import Any

# C0 and C1 without \t and \n, which people type.
_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
# Marks that reorder the text around them: they can show a reader another sentence than the one stored.
_BIDI = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Zero width, tags (a whole hidden ASCII alphabet), variation selectors 17-256 (smuggle bytes), interlinear
# marks.
_INVISIBLE = (
    r"\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SURROGATE = r"\ud800-\udfff"
# Seen in honest text (joined emoji, Persian, hyphenation), so not refused in an answer; but alone they are
# blank.
_JOINERS = r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u200c\u200d\u2800\u3164\ufe00-\ufe0f\uffa0"

_UNSAFE = re.compile(f"[{_CONTROL}{_BIDI}{_INVISIBLE}{_SURROGATE}]")
_UNSAFE_IN_A_LINE = re.compile(f"[\\t\\n{_CONTROL}{_BIDI}{_INVISIBLE}{_SURROGATE}]")
_HIDDEN_FROM_MODELS = re.compile(f"[{_CONTROL}{_BIDI}{_INVISIBLE}{_SURROGATE}{_JOINERS}]")
_VISIBLE = re.compile(rf"[^\s{_JOINERS}]")
_UNSTORABLE = re.compile(f"[\\x00{_SURROGATE}]")


def sanitise(text: str) -> str:
    """`text` without control, bidi, tag and other invisible characters.

    \\n and \\t stay, \\r\\n becomes \\n.
    """
    return _HIDDEN_FROM_MODELS.sub("", text.replace("\r\n", "\n"))


def problem(text: str, *, one_line: bool = False) -> str | None:
    """What speaks against storing `text`: `characters`, `blank`, or None. Looks, never changes."""
    if (_UNSAFE_IN_A_LINE if one_line else _UNSAFE).search(text):
        return "characters"
    return None if _VISIBLE.search(text) else "blank"


def showable(text: str) -> str:
    """`text` with lone surrogates replaced, so that it can be encoded and sent to a browser."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def label(value: Any, length: int) -> str | None:
    """A short string of the provider's (model name, id) fit to store and log: one line, cut.

    None if unusable.
    """
    if not isinstance(value, str):
        return None
    return _UNSAFE_IN_A_LINE.sub("", value).strip()[:length] or None


def storable(value: Any) -> Any:
    """A parsed JSON value with NUL and lone surrogates written out as `\\u0000`: PostgreSQL takes neither."""
    if isinstance(value, str):
        return _UNSTORABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    if isinstance(value, dict):
        return {storable(key): storable(child) for key, child in value.items()}
    if isinstance(value, list):
        return [storable(child) for child in value]
    return value
