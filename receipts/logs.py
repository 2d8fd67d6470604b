"""Log lines: one event, one line. A line break in somebody's text must not forge a second one."""

from __future__ import annotations

import logging

from receipts.redaction import redact_text


class LineFormatter(logging.Formatter):
    """`2026-11-30T18:00:00+0000 WARNING receipts.flow: …`, redacted, control characters escaped."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def format(self, record: logging.LogRecord) -> str:
        line = redact_text(super().format(record))
        # a traceback stays readable: its own breaks are kept, with the mark of a continuation
        head, *rest = line.splitlines()
        return "\n".join([_escaped(head), *(f"  | {_escaped(more)}" for more in rest)])


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
