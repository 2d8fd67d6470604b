"""The Idempotency-Key header: what a client may send, in both spellings."""

from __future__ import annotations

import re

from receipts.errors import IdempotencyKeyInvalid, IdempotencyKeyRequired

#: Prefixes of keys that the product makes itself; a client's key can never meet one.
RESERVED_PREFIXES = ("replay:", "outbox:")

# 255: a longer one could outgrow the index row; 8: a shorter one is no unique key. Everything else is refused
# before the database is asked: NUL, spaces, the comma of a header sent twice, parameters after the string.
_KEY = r"[A-Za-z0-9._:~-]{8,255}"
_HEADER = re.compile(rf'[ \t]*(?:"(?P<quoted>{_KEY})"|(?P<bare>{_KEY}))[ \t]*')


def parse_key(header: str | None) -> str:
    """The key of an Idempotency-Key header: `abc-12345` and `"abc-12345"` (RFC 9651 string) are the same key.

    Case counts. Raises: IdempotencyKeyRequired without the header, IdempotencyKeyInvalid for anything else; neither
    repeats the value.
    """
    if header is None:
        raise IdempotencyKeyRequired
    match = _HEADER.fullmatch(header)
    key = (match["quoted"] or match["bare"]) if match else ""
    if not key or key.startswith(RESERVED_PREFIXES):
        raise IdempotencyKeyInvalid
    return key
