"""How much of an answer is read at most: a hostile or broken provider must not cost memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Caps on one answer. An answer over any of them is `provider_too_large`."""

    wire_bytes: int = 256 * 1024
    """Body bytes of one answer. A whole follow-up is below 2 KiB; streams wrap each token in ~200 bytes."""
    line_bytes: int = 64 * 1024
    """Bytes of one line of an event stream."""
    events: int = 20_000
    """Events of one stream."""
    content_chars: int = 16 * 1024
    """Characters of content and arguments together."""
    error_bytes: int = 64 * 1024
    """Body bytes read of an answer that is an HTTP error; more is left unread."""
