"""The one strict JSON parser: for envelopes, events and arguments alike.

The standard library's parser accepts what no two readers agree on: duplicate keys (the last wins, so a
second `ticket_id` would replace the first unseen), NaN, Infinity, `1e999`. It also raises `RecursionError`,
which is no `ValueError`, on deep nesting. Nothing here repairs or guesses.
"""

from __future__ import annotations

import json
import math
from typing import Any

#: Nesting of a real envelope is below 10. Everything parsed here is later walked by redaction and stored,
#: so the bound must stay far below the interpreter's recursion limit.
MAX_DEPTH = 64


class NotStrictJson(ValueError):
    """Text that is not one strict JSON value. The message never holds the text."""

    unfinished: bool = False
    """The text ended in the middle of a value: it may have been cut off."""


def parse(text: str) -> Any:
    """The value of `text`.

    Raises: NotStrictJson for a syntax error, a duplicate key, a number that is not finite or has too many
    digits, or nesting deeper than `MAX_DEPTH`.
    """
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        broken = NotStrictJson("not JSON")
        broken.unfinished = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        # `from None`: a JSONDecodeError carries the whole document, which must not reach a log.
        raise broken from None
    except NotStrictJson:
        raise
    except (ValueError, RecursionError) as error:
        raise NotStrictJson(type(error).__name__) from None
    if text.count("{") + text.count("[") > MAX_DEPTH:
        _check_depth(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotStrictJson("duplicate key")
    return found


def _no_constant(_name: str) -> Any:
    raise NotStrictJson("not a finite number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NotStrictJson("not a finite number")
    return number


#: Built once: json.loads with hooks would build a decoder for every event.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)


def _check_depth(value: Any) -> None:
    """Walks with its own stack, level by level. Raises: NotStrictJson."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise NotStrictJson("too deep")
        level = [child for parent in level for child in _children(parent)]


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [child for child in value.values() if isinstance(child, dict | list)]
    if isinstance(value, list):
        return [child for child in value if isinstance(child, dict | list)]
    return []
