"""What is remembered about one fill, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from receipts.errors import ReceiptsError
from receipts.fill.text import storable


@dataclass(kw_only=True)
class Facts:
    """What the attempt row will hold about the model. Filled in as the fill goes on.

    Complete when it returns.
    """

    model: str
    """The name that answered; until then the name asked for."""
    provider_host: str
    finish_reason: str | None = None
    mode: str = ""
    """The mode of the last call."""
    prompt_sha256: str = ""
    wire_schema_sha256: str = ""
    """Of the schema as sent: derived from the frozen one for this subject."""
    calls: int = 0
    """Requests made: 0, 1 or 2."""
    usage: dict[str, int] | None = None
    gate: str | None = None
    """The gate that refused; None when all passed."""
    proposed: Any = None
    """The arguments object as the model sent it, also when refused; None when none parsed. Raw.

    Redact before use.
    """
    source: str | None = None
    """`content` or `tool_call`."""
    notes: list[str] = field(default_factory=list)
    """Tolerances used and cuts made: `fence`, `bom`, `content_parts`, `input_truncated`, …"""
    fill_ms: int = 0
    first_content_ms: int | None = None
    """From the begin to the first non-empty content or argument delta."""
    bytes_in: int = 0
    """Body bytes of the last answer."""
    response_id: str | None = None
    path: str | None = None
    """Where an argument was refused: validator and JSON path, never a value."""
    upstream_status: int | None = None
    """The HTTP status of the last answer."""

    def note(self, *names: str) -> None:
        """Add notes, each once."""
        for name in names:
            if name not in self.notes:
                self.notes.append(name)

    def as_json(self) -> dict[str, Any]:
        """The facts as JSON that any database takes.

        `proposed` keeps its values and still needs redaction.
        """
        return {item.name: storable(getattr(self, item.name)) for item in fields(self)}


@dataclass(frozen=True, kw_only=True)
class Filled:
    """The end of one fill: validated arguments or the error that is owed, and the facts either way."""

    arguments: dict[str, Any] | None
    """Exactly as the model sent them; None when refused."""
    error: ReceiptsError | None
    """FillFailed, FillInvalid, ArgMismatch or DeadlineExceeded; None when filled."""
    facts: Facts | None
    """None: no model was asked."""
