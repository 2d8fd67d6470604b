"""What a search means: the form of the words says which column is asked, exactly and by its index."""

from __future__ import annotations

import re
import uuid

from django.db import connection
from django.db.models import Q

HELP = (
    "A receipt's or run's id, a receipt's number (R-…) if it is among the latest 100,000, a follow-up (FUP-…), "
    "a ticket (TCK-…), an input hash (16 hex digits), or a whole idempotency key."
)
#: A number has no index of its own, which every press would pay for; so many rows are read by the index over time.
LATEST = 100_000
_NUMBER = re.compile(r"R-([0-9a-f]{8})", re.IGNORECASE)
_NUMBERED = """
SELECT id FROM (SELECT id FROM tool_receipts ORDER BY created_at DESC, id DESC LIMIT %s) latest
WHERE right(id::text, 8) = %s
"""
_INPUT_HASH = re.compile(r"[0-9a-f]{16}")
#: How the references of results begin.
RESULTS = ("FUP-", "RES-", "MSG-")


def condition(words: str) -> Q:
    """Rows that the words name. Never a substring over everything: that reads the whole table."""
    words = words.strip()
    if (key := read_uuid(words)) is not None:
        return Q(pk=key) | Q(run_id=key)
    if found := _NUMBER.fullmatch(words):
        return Q(pk__in=_numbered(found[1].lower()))
    if words.upper().startswith(RESULTS):
        return Q(result_ref=words.upper())
    if words.upper().startswith("TCK-"):
        return Q(subject=words.upper())
    if _INPUT_HASH.fullmatch(words.lower()):
        return Q(input_hash=words.lower())
    return Q(idempotency_key=words)


def _numbered(end: str) -> list[uuid.UUID]:
    """The latest receipts whose id ends so: one, but for a rare chance."""
    with connection.cursor() as cursor:
        cursor.execute(_NUMBERED, [LATEST, end])
        return [row[0] for row in cursor.fetchall()]


def read_uuid(words: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(words)
    except ValueError:
        return None
