"""From bytes to one neutral answer, whichever framing they came in.

`Reader` takes body packets and decides by the first bytes whether they are JSON or an event stream
(providers send either, whatever was asked and declared). `Answer` gathers one message or many deltas into
the same form. Neither does any input or output, and the result does not depend on how the bytes were cut
into packets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from receipts.fill.limits import Limits
from receipts.fill.sse import Event, EventParser
from receipts.fill.strictjson import NotStrictJson, parse
from receipts.fill.text import label
from receipts.fill.upstream import refusal_of_error
from receipts.fill.verdict import Refusal, failed

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_STREAM_LINE = re.compile(rb"(?:data|event|id|retry)?(?::|\r|\n|\Z)")
#: Enough bytes to tell an event stream's first line from other text: `retry:`.
_TELLING = 6

#: finish_reasons after which an answer is complete. Compared lower-cased.
COMPLETE = frozenset({"stop", "tool_calls"})

_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")
_TEXT_PARTS = frozenset({"text", "output_text"})
_THOUGHT_PARTS = frozenset({"thinking", "reasoning", "redacted_thinking"})


@dataclass
class Call:
    """A tool call that the model made."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    is_text: bool = True
    """False when the arguments came as anything but a string."""


def protocol(gate: str = "envelope", *, retryable: bool = True) -> Refusal:
    return failed(gate, "provider_protocol", retryable=retryable)


class Answer:
    """What the provider said so far, in one form for both framings."""

    def __init__(self, limits: Limits, on_text: Callable[[str], None]) -> None:
        self._limits = limits
        self._on_text = on_text
        self._chars = 0
        self._content: list[str] = []
        self.calls: list[Call] = []
        self.refused = False
        self.finish_reason: str | None = None
        self.done = False
        """`[DONE]` came, or the one message was read."""
        self.empty_choices = False
        """The one message had `choices: []`."""
        self.model: str | None = None
        self.response_id: str | None = None
        self.usage: dict[str, int] | None = None
        self.notes: list[str] = []

    @property
    def content(self) -> str:
        return "".join(self._content)

    @property
    def has_content(self) -> bool:
        """A non-empty content or argument delta has come."""
        return self._chars > 0

    def event(self, event: Event) -> None:
        """Take one event of a stream. Raises: Refusal."""
        data = event.data.strip(" \t\n")
        if not data:
            return
        if data == "[DONE]":
            self.done = True
        elif data.startswith(":"):
            self.notes.append("comment_in_data")
        else:
            self._chunk(_strict(data), event.name)

    def _chunk(self, chunk: Any, event_name: str) -> None:
        _refuse_errors(chunk)
        if event_name == "error":
            raise refusal_of_error(chunk)
        if not isinstance(chunk, dict):
            raise protocol()
        self._about(chunk)
        if not isinstance(chunk.get("choices"), list):
            if chunk.get("choices") is not None:
                raise protocol()
            self.notes.append("no_choices")
            return
        for choice in self._first(chunk["choices"]):
            if not isinstance(choice.get("delta"), dict):
                if choice.get("delta") is not None:
                    raise protocol()
                self.notes.append("no_delta")
            self._said(choice.get("delta") or {})
            self._finish(choice)

    def message(self, text: str) -> None:
        """Take the one JSON document of an unstreamed answer. Raises: Refusal."""
        document = _strict_document(text)
        _refuse_errors(document)
        if not isinstance(document, dict) or "choices" not in document:
            raise protocol()
        self._about(document)
        choices = document["choices"]
        if choices is None:
            raise failed("error", "provider_error_in_200")
        if not isinstance(choices, list):
            raise protocol()
        self.empty_choices = not choices
        for choice in self._first(choices):
            if not isinstance(choice.get("message"), dict):
                raise protocol()
            self._finish(choice)
            self._said(choice["message"], whole=True)
        if choices and self.finish_reason is None:
            self.notes.append("no_finish_reason")
        self.done = True

    def _first(self, choices: list[Any]) -> Iterator[dict[str, Any]]:
        """The choice with index 0; one without index counts by its place. Others are noted and dropped."""
        for place, choice in enumerate(choices):
            if not isinstance(choice, dict):
                raise protocol()
            index = choice.get("index")
            if (place if index is None else index) == 0:
                yield choice
            else:
                self.notes.append("other_choices")

    def _about(self, document: dict[str, Any]) -> None:
        self.model = label(document.get("model"), 200) or self.model
        self.response_id = label(document.get("id"), 200) or self.response_id
        usage = document.get("usage")
        if isinstance(usage, dict):
            counts = {name: usage[name] for name in _USAGE if _is_count(usage.get(name))}
            self.usage = counts or self.usage

    def _finish(self, choice: dict[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if reason is None or reason == "":
            return
        if not isinstance(reason, str):
            raise protocol()
        # A bad end is not made good by a later one.
        if self.finish_reason is None or self.finish_reason in COMPLETE:
            self.finish_reason = (label(reason, 64) or "").lower()

    def _said(self, said: dict[str, Any], *, whole: bool = False) -> None:
        """One message or delta. Reasoning is never looked at: arguments are not read from thoughts."""
        if said.get("refusal"):
            self.refused = True
        content = said.get("content")
        if isinstance(content, list):
            self.notes.append("content_parts")
            for part in content:
                self._part(part)
        elif isinstance(content, str):
            self._text(content, self._content)
        elif content is not None:
            raise protocol()
        calls = said.get("tool_calls")
        if calls is not None and not isinstance(calls, list):
            raise protocol()
        for call in calls or []:
            self._tool_call(call, whole)

    def _part(self, part: Any) -> None:
        if not isinstance(part, dict):
            raise protocol()
        kind = part.get("type")
        if kind in _TEXT_PARTS and isinstance(part.get("text"), str):
            self._text(part["text"], self._content)
        elif kind == "refusal":
            self.refused = True
        elif kind not in _THOUGHT_PARTS:
            raise protocol()

    def _tool_call(self, said: Any, whole: bool) -> None:
        if not isinstance(said, dict) or not isinstance(said.get("function"), dict):
            raise protocol()
        if whole:
            self.calls.append(Call())  # a message lists its calls; only deltas carry an index
        call = self.calls[-1] if whole else self._call_of(said)
        name = said["function"].get("name")
        # The name comes once; some servers repeat it whole with each delta.
        if isinstance(name, str) and name != call.name:
            call.name += name[:200]
        arguments = said["function"].get("arguments")
        if isinstance(arguments, str):
            self._text(arguments, call.arguments)
        elif arguments is not None:
            call.is_text = False

    def _call_of(self, said: dict[str, Any]) -> Call:
        """The call that a delta belongs to: by index, else by id, else the one under way."""
        index, named = said.get("index"), said.get("id")
        if isinstance(index, int) and not isinstance(index, bool):
            if not 0 <= index <= len(self.calls):
                raise protocol()
        else:
            self.notes.append("tool_call_without_index")
            is_new = not self.calls or (isinstance(named, str) and named not in ("", self.calls[-1].id))
            index = len(self.calls) if is_new else len(self.calls) - 1
        if index == len(self.calls):
            self.calls.append(Call(id=named if isinstance(named, str) else ""))
        return self.calls[index]

    def _text(self, text: str, onto: list[str]) -> None:
        if not text:
            return
        self._chars += len(text)
        if self._chars > self._limits.content_chars:
            raise failed("caps", "provider_too_large")
        onto.append(text)
        self._on_text(text)


class Reader:
    """Body packets in, one complete Answer out."""

    def __init__(self, *, declared: str, limits: Limits, on_text: Callable[[str], None]) -> None:
        self._limits = limits
        self._declared = declared.partition(";")[0].strip().lower()
        self._head = b""
        self._at_start = True
        self._events: EventParser | None = None
        self._document: bytearray | None = None
        self.answer = Answer(limits, on_text)
        self.bytes_in = 0

    def feed(self, packet: bytes) -> bool:
        """Take a packet; True once the answer is complete whatever may follow. Raises: Refusal."""
        room = self._limits.wire_bytes - self.bytes_in
        self.bytes_in += len(packet)
        if not self.answer.done:
            self._take(packet[:room])
        if not self.answer.done and len(packet) > room:
            raise failed("caps", "provider_too_large")
        return self.answer.done

    @property
    def is_terminal(self) -> bool:
        """A finish_reason came: the answer will not change, though `[DONE]` or usage may follow."""
        return self._events is not None and self.answer.finish_reason is not None

    def end(self) -> Answer:
        """The body ended as its framing said. Raises.

        Refusal, `provider_truncated` when the answer is not whole.
        """
        if self._events is None and self._document is None:
            self._take_decided(self._decide(at_end=True))
        if self._document is not None:
            self.answer.message(_strict_text(bytes(self._document)))
        if not self.answer.done and not self.is_terminal:
            raise failed("framing", "provider_truncated")
        return self.answer

    def _take(self, packet: bytes) -> None:
        if self._events is None and self._document is None:
            self._head += packet
            packet = self._decide(at_end=False)
        self._take_decided(packet)

    def _take_decided(self, packet: bytes) -> None:
        if self._document is not None:
            self._document += packet
        elif self._events is not None:
            for event in self._events.feed(packet):
                self.answer.event(event)
                if self.answer.done:
                    return

    def _decide(self, *, at_end: bool) -> bytes:
        """Tell the framing by the first bytes; the bytes to go on with, b"" while undecided."""
        if self._at_start and not at_end and _BOM.startswith(self._head):
            return b""
        if self._at_start and self._head.startswith(_BOM):
            self._head = self._head[len(_BOM) :]
            self.answer.notes.append("bom")
        self._at_start = False
        body = self._head.lstrip(_BLANK)
        if body != self._head:
            self.answer.notes.append("leading_whitespace")
        self._head = body  # blanks are dropped as they come, so that a body of blanks costs nothing
        streamed = self._is_stream(body, at_end)
        if streamed is None:
            return b""
        self._note_content_type(streamed, body)
        if streamed:
            self._events = EventParser(self._limits)
        else:
            self._document = bytearray()
        return body

    def _is_stream(self, body: bytes, at_end: bool) -> bool | None:
        """None: too few bytes to tell."""
        declared = self._declared == "text/event-stream"
        if not body:
            return declared if at_end else None
        if body[:1] in (b"{", b"["):
            return False
        if declared:
            return body[:1] != b"<"
        if len(body) >= _TELLING or b"\n" in body or b"\r" in body or b":" in body or at_end:
            return _STREAM_LINE.match(body) is not None
        return None

    def _note_content_type(self, streamed: bool, body: bytes) -> None:
        expected = "text/event-stream" if streamed else "application/json"
        if body and self._declared != expected:
            self.answer.notes.append("content_type")


def _strict_text(document: bytes) -> str:
    try:
        return document.decode("utf-8")
    except UnicodeDecodeError:
        raise protocol("utf8") from None


def _strict(text: str) -> Any:
    """Raises: Refusal `provider_protocol`."""
    try:
        return parse(text)
    except NotStrictJson:
        raise protocol() from None


def _strict_document(text: str) -> Any:
    """The document of an unstreamed answer.

    Raises: Refusal `provider_truncated` when it ends midway; `provider_protocol`, which is permanent when the
    body does not even open like JSON: then the address is wrong.
    """
    opened = text.startswith(("{", "["))
    try:
        return parse(text)
    except NotStrictJson as broken:
        if opened and broken.unfinished:
            raise failed("framing", "provider_truncated") from None
        raise protocol(retryable=opened) from None


def _refuse_errors(document: Any) -> None:
    """Raises: Refusal for `{"error": …}` and `[{"error": …}]`, whatever else the document holds."""
    if isinstance(document, list) and document:
        document = document[0]
    if isinstance(document, dict) and document.get("error"):
        raise refusal_of_error(document["error"])


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
