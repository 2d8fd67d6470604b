"""How much of an answer is read at most: a hostile or broken provider must not cost memory."""

from __future__ import annotations

from dataclasses import dataclass

from receipts.contracts import Tool

#: Characters that one character of an argument may take: a pair of JSON escapes.
ESCAPED = 12
#: Bytes of a stream that one character may take: a token of two characters in an event of 350 bytes.
STREAMED = 175


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

    @classmethod
    def of(cls, tool: Tool) -> Limits:
        """These, or more where the contract takes longer texts: nothing that fits it is too large."""
        texts = sum(declared.get("maxLength", 0) for declared in tool.schema["properties"].values())
        return cls(
            content_chars=max(cls.content_chars, texts * ESCAPED),
            wire_bytes=max(cls.wire_bytes, texts * STREAMED),
        )
