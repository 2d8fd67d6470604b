"""Server-sent events from bytes, by the WHATWG rules.

Bytes, because two shortcuts lose data: splitting decoded text into "lines" also splits at U+2028 and U+0085
inside a JSON string, and decoding by the declared charset replaces bad bytes silently. Here only CR, LF and
CRLF end a line, and each line is strict UTF-8. The caller strips a byte order mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from receipts.fill.limits import Limits
from receipts.fill.verdict import failed

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True)
class Event:
    """One dispatched event."""

    name: str
    """The `event:` field; "" means `message`."""
    data: str
    """The `data:` lines, joined with \\n."""


class EventParser:
    """Cuts packets into events. The result does not depend on where the packets were cut."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rest = bytearray()
        self._after_cr = False
        self._name = ""
        self._data: list[str] = []
        self._events = 0

    def feed(self, packet: bytes) -> Iterator[Event]:
        """The events that `packet` completes, one by one, so that the caller can stop at a terminal one.

        Raises: Refusal `provider_too_large` over a cap, `provider_protocol` for bytes that are not UTF-8.
        """
        for line in self._lines(packet):
            event = self._line(line)
            if event is not None:
                self._events += 1
                if self._events > self._limits.events:
                    raise failed("caps", "provider_too_large")
                yield event

    def _lines(self, packet: bytes) -> Iterator[bytes]:
        if self._after_cr and packet:
            # The CR ended its line at once; a LF that follows in the next packet belongs to it.
            packet = packet.removeprefix(b"\n")
            self._after_cr = False
        start = 0
        for end in _LINE_END.finditer(packet):
            line, self._rest = bytes(self._rest + packet[start : end.start()]), bytearray()
            start = end.end()
            self._after_cr = end[0] == b"\r" and start == len(packet)
            self._check_length(line)
            yield line
        self._rest += packet[start:]
        self._check_length(self._rest)

    def _check_length(self, line: bytes | bytearray) -> None:
        if len(line) > self._limits.line_bytes:
            raise failed("caps", "provider_too_large")

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        try:
            name, _, value = line.decode("utf-8").partition(":")
        except UnicodeDecodeError:
            # `from None`: the exception holds the line.
            raise failed("utf8", "provider_protocol") from None
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        return None  # comments (no name), id, retry and unknown fields mean nothing to us

    def _dispatch(self) -> Event | None:
        name, data = self._name, "\n".join(self._data)
        self._name, self._data = "", []
        # An `id:` or a comment and then a blank line makes an event without data: never dispatched.
        return Event(name, data) if data else None
