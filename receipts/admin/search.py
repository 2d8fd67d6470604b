"""What a search means: the form of the words says which column is asked, exactly and by its index."""

from __future__ import annotations

import re
import uuid

from django.db.models import Q

HELP = (
    "A receipt's or run's id, a follow-up (FUP-…), a ticket (TCK-…), an input hash (16 hex digits), "
    "or a whole idempotency key."
)
_INPUT_HASH = re.compile(r"[0-9a-f]{16}")


def condition(words: str) -> Q:
    """Rows that the words name. Never a substring over everything: that reads the whole table."""
    words = words.strip()
    if (key := read_uuid(words)) is not None:
        return Q(pk=key) | Q(run_id=key)
    if words.upper().startswith("FUP-"):
        return Q(result_ref=words.upper())
    if words.upper().startswith("TCK-"):
        return Q(subject=words.upper())
    if _INPUT_HASH.fullmatch(words.lower()):
        return Q(input_hash=words.lower())
    return Q(idempotency_key=words)


def read_uuid(words: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(words)
    except ValueError:
        return None
