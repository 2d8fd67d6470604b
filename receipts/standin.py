"""The built-in stand-in for a model provider: enough to try the product out without one, and to break it on purpose.

It speaks the chat completions protocol, drafts from the notes at reading pace and names its model `standin`. It is
no model: it copies the notes into a summary and picks a name. Notes can ask for each failure by name (`standin:
provider_timeout`), so that every end a filing can come to can be seen; `standin: help` lists the names.

No Django and no dependency: an asyncio server that writes its bytes itself, because half of the failures are bytes
that no framework would send.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

MODEL = "standin"
PATH = "/v1/chat/completions"

#: Words a second: brisk reading.
READING_PACE = 8.0
#: A draft never takes longer than this, whatever the pace: a fill has 20 s.
LONGEST_DRAFT_SECONDS = 8.0
LONGEST_SLOW_SECONDS = 600.0
#: Of a request. A prompt is below 100 KB.
MOST_REQUEST_BYTES = 4 * 1024 * 1024
SUMMARY_CHARS = 500
DRAWN_FROM_NOTES = 320

_DIRECTIVE = re.compile(
    r"standin:\s*(?P<name>[a-z][a-z0-9_]*)"
    r"(?:[ \t]+(?P<number>\d{1,4}(?:\.\d+)?))?(?P<once>[ \t]+once\b)?",
    re.IGNORECASE,
)


# ── what is asked ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Asked:
    """What the stand-in understands of a request."""

    stream: bool
    tool: str | None
    """The function that the request forces, if it does."""
    properties: dict[str, Any]
    """The wanted arguments: name → schema."""
    subject: str
    notes: str
    speakers: tuple[str, ...]

    @classmethod
    def read(cls, body: dict[str, Any]) -> Asked:
        """Raises: KeyError, TypeError, ValueError, IndexError, AttributeError for a request it cannot read."""
        said = {message["role"]: message["content"] for message in body["messages"]}
        function = body["tools"][0]["function"] if body.get("tools") else None
        material = _material(said["user"])
        return cls(
            stream=bool(body.get("stream")),
            tool=function["name"] if function else None,
            properties=_schema(body, function, said.get("system", ""))["properties"],
            subject=str(material.get("ticket", {}).get("subject", "")),
            notes=str(material["notes"]),
            speakers=tuple(str(message["author"]) for message in material.get("conversation", ())),
        )


def _material(user: str) -> dict[str, Any]:
    """Our own prompts carry JSON; anybody else's text is taken as the notes."""
    with suppress(ValueError):
        material = json.loads(user)
        if isinstance(material, dict) and "notes" in material:
            return material
    return {"notes": user}


def _schema(body: dict[str, Any], function: dict[str, Any] | None, system: str) -> dict[str, Any]:
    """From wherever the mode puts it: the format, the tool, or a line of the system message."""
    if function:
        parameters: dict[str, Any] = function["parameters"]
        return parameters
    wanted: dict[str, Any] = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    if wanted:
        return wanted
    for line in system.splitlines():
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise ValueError("no schema in the request")


# ── what is drafted ──────────────────────────────────────────────────────────────────────────────────────────────


def draft(asked: Asked) -> dict[str, Any]:
    """Arguments that fit the schema of the request."""
    return {name: _value(name, schema, asked) for name, schema in asked.properties.items()}


def _value(name: str, schema: dict[str, Any], asked: Asked) -> Any:
    if schema.get("enum"):
        return _choice([str(value) for value in schema["enum"]], asked)
    if "null" in schema.get("type", ()):  # a list of types: what may be left open, the stand-in leaves open
        return None
    if name == "subject":
        return f"About “{' '.join(asked.subject.split())[:120] or 'your request'}”"
    if schema.get("type") == "string":
        return summary(asked, min(SUMMARY_CHARS, schema.get("maxLength", SUMMARY_CHARS)))
    raise ValueError(f"the stand-in cannot draft {name}")


def _choice(allowed: list[str], asked: Asked) -> str:
    """Whom the notes name; else who spoke last; else always the same one for the same notes."""
    named = re.findall(r"[\w.@+-]+", asked.notes.lower())
    for who in [*named, *(speaker.lower() for speaker in asked.speakers)]:
        for value in allowed:
            if who.strip(".") == value.lower():
                return value
    return allowed[zlib.crc32(asked.notes.encode("utf-8", "replace")) % len(allowed)]


def summary(asked: Asked, most: int) -> str:
    """One plain sentence or two from the notes, between 12 and `most` characters."""
    words = _DIRECTIVE.sub("", asked.notes).split()
    said = " ".join(words)
    if len(said) > DRAWN_FROM_NOTES:
        said = said[:DRAWN_FROM_NOTES].rsplit(" ", 1)[0].rstrip(",;:") + " …"
    said = said[:1].upper() + said[1:]
    if said and said[-1] not in ".!?…":
        said += "."
    title = f"Follow up on “{' '.join(asked.subject.split())[:120]}”" if asked.subject.strip() else "Follow up"
    return f"{title}: {said}"[:most] if said else f"{title} with the customer."[:most]


# ── what is answered ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Reply:
    """One answer being written, in the framing that was asked for."""

    writer: asyncio.StreamWriter
    asked: Asked
    id: str
    pace: float
    """Words a second; 0 for no pauses."""
    is_open: bool = False
    """The stream's head is out."""

    async def answer(self, text: str, finish: str = "stop") -> None:
        """A whole answer that says `text`: as content, or as a call of the forced tool."""
        name = self.asked.tool
        if not self.asked.stream:
            whole = {"content": None, "tool_calls": [call_of(name, text)]} if name else {"content": text}
            await self.document(self.envelope("message", {"role": "assistant", **whole}, finish))
            return
        await self.event(self.envelope("delta", {"role": "assistant", "content": None if name else ""}))
        words = re.findall(r"\s*\S+|\s+", text) if self.pace else [text]
        pause = min(1 / self.pace, LONGEST_DRAFT_SECONDS / max(1, len(words))) if self.pace else 0.0
        for place, word in enumerate(words):
            said: dict[str, Any] = {"content": word}
            if name:
                said = {"tool_calls": [{"index": 0, **(call_of(name, word) if place == 0 else _more(word))}]}
            await self.event(self.envelope("delta", said))
            if pause:
                await asyncio.sleep(pause)
        await self.end("tool_calls" if name and finish == "stop" else finish)

    async def end(self, finish: str) -> None:
        """The last events and the last chunk of a stream, in one packet."""
        last = self.envelope("delta", {}, finish)
        self._chunk(b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def envelope(self, part: str, said: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "chat.completion.chunk" if part == "delta" else "chat.completion",
            "model": MODEL,
            "choices": [{"index": 0, part: said, "finish_reason": finish}],
        }

    async def event(self, value: Any) -> None:
        await self.raw(b"data: " + json.dumps(value).encode() + b"\n\n")

    async def raw(self, data: bytes) -> None:
        self._chunk(data)
        await self.writer.drain()

    def _chunk(self, data: bytes) -> None:
        if not self.is_open:
            self.is_open = True
            self.writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                b"Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def document(self, value: Any, status: str = "200 OK", **headers: str) -> None:
        await write_document(self.writer, value, status, **headers)


def call_of(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


def _more(arguments: str) -> dict[str, Any]:
    return {"function": {"arguments": arguments}}


async def write_document(writer: asyncio.StreamWriter, value: Any, status: str = "200 OK", **headers: str) -> None:
    """One JSON answer; header names are given with underscores."""
    body = json.dumps(value).encode()
    more = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items())
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


# ── what goes wrong when asked to ────────────────────────────────────────────────────────────────────────────────


class HangUp(Exception):
    """The connection is to be closed in the middle of the answer."""


def _status(status: str, error: dict[str, Any], **headers: str) -> Failure:
    async def fail(reply: Reply) -> None:
        await reply.document({"error": error}, status, **headers)

    return fail


def _says(text: str, finish: str = "stop") -> Failure:
    async def fail(reply: Reply) -> None:
        await reply.answer(text, finish)

    return fail


def _drafts(**changed: Any) -> Failure:
    """A draft with some arguments changed."""

    async def fail(reply: Reply) -> None:
        await reply.answer(json.dumps({**draft(reply.asked), **changed}, ensure_ascii=False))

    return fail


def _message(said: dict[str, Any], finish: str = "stop") -> Failure:
    """A message of this form in one piece, in either framing."""

    async def fail(reply: Reply) -> None:
        if not reply.asked.stream:
            await reply.document(reply.envelope("message", {"role": "assistant", **said}, finish))
            return
        await reply.event(reply.envelope("delta", {"role": "assistant", **said}))
        await reply.end(finish)

    return fail


async def _breaks_off(reply: Reply) -> None:
    half = json.dumps(draft(reply.asked))[:40]
    if reply.asked.stream:
        await reply.event(reply.envelope("delta", {"content": half}))
    else:
        reply.writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n{"id": "')
    raise HangUp


async def _breaks_the_protocol(reply: Reply) -> None:
    if reply.asked.stream:
        await reply.raw(b'data: {"choices": [oops\n\n')
    else:
        reply.writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"choices": [oops]}}')
    raise HangUp


async def _reports_an_error(reply: Reply) -> None:
    error = {"error": {"message": "asked to fail"}}
    if reply.asked.stream:
        await reply.event(error)
        raise HangUp
    await reply.document(error)


async def _is_silent(reply: Reply) -> None:
    await asyncio.sleep(LONGEST_SLOW_SECONDS)
    raise HangUp


async def _never_ends(reply: Reply) -> None:
    """Words, far apart, until the client has had enough."""
    for _ in range(int(LONGEST_SLOW_SECONDS * 5)):
        await reply.event(reply.envelope("delta", {"content": " "}))
        await asyncio.sleep(0.2)
    raise HangUp


Failure = Callable[[Reply], Awaitable[None]]

#: What notes can ask for: the reason (or code) that it comes to → how.
FAILURES: dict[str, Failure] = {
    "provider_redirect": _status("307 Temporary Redirect", {"message": "moved"}, Location="/elsewhere"),
    "provider_auth": _status("401 Unauthorized", {"code": "invalid_api_key"}),
    "provider_quota": _status("429 Too Many Requests", {"code": "insufficient_quota"}),
    "provider_rate_limited": _status("429 Too Many Requests", {"code": "rate_limit_exceeded"}, Retry_After="5"),
    "provider_not_found": _status("404 Not Found", {"code": "model_not_found"}),
    "provider_rejected_request": _status("400 Bad Request", {"code": "context_length_exceeded"}),
    "provider_unavailable": _status("503 Service Unavailable", {"message": "asked to fail"}),
    "provider_error_in_200": _reports_an_error,
    "provider_protocol": _breaks_the_protocol,
    "provider_truncated": _breaks_off,
    "provider_timeout": _is_silent,
    "provider_too_large": _says("x" * 40_000),
    "model_truncated": _says('{"ticket_id": "', "length"),
    "model_output_empty": _message({"content": ""}),
    "model_output_not_json": _says("Sure! I have filed the follow-up for you."),
    "model_output_invalid": _drafts(priority="p1"),
    "model_output_unsafe_text": _drafts(summary="This reads \u202ebackwards\u202c, or so it seems."),
    "model_refused": _message({"content": None, "refusal": "I cannot help with that."}),
    "model_content_filtered": _message({"content": None}, "content_filter"),
    "model_unexpected_tool": _message(
        {"content": None, "tool_calls": [{"index": 0, **call_of("delete_ticket", "{}")}]}, "tool_calls"
    ),
    "policy_assignee": _drafts(assignee="the-ceo"),
    "arg_mismatch": _drafts(ticket_id="TCK-0000-OTHER"),
    "fill_budget": _never_ends,
}
#: The codes that have more than one reason ask for their plainest one.
FAILURES |= {
    "fill_failed": FAILURES["provider_unavailable"],
    "fill_invalid": FAILURES["model_output_invalid"],
    "deadline_exceeded": FAILURES["fill_budget"],
}

#: Asked for in the same way, but no failures.
HELP = "help"
SLOW = "slow"


def named(name: str) -> Failure | None:
    """By its name, also without `provider_` or `model_`."""
    return FAILURES.get(name) or FAILURES.get(f"provider_{name}") or FAILURES.get(f"model_{name}")


def help_text() -> str:
    """All names, in at most 500 characters so that it fits a summary."""
    groups = []
    for prefix in ("provider_", "model_"):
        names = " ".join(name.removeprefix(prefix) for name in FAILURES if name.startswith(prefix))
        groups.append(f"{prefix}: {names}")
    rest = " ".join(name for name in FAILURES if not name.startswith(("provider_", "model_")))
    return f"Write standin: NAME in the notes (add once to fail one time). {'; '.join(groups)}; {rest}; {SLOW} 8"


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class StandIn:
    """One stand-in provider. `calls` counts the completions asked of it."""

    delay: float = 0.0
    """Seconds before the first word."""
    pace: float = 0.0
    """Words a second; 0 for no pauses."""
    calls: int = 0
    url: str = ""
    _failed_once: set[str] = field(default_factory=set)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[str]:
        """Listen on 127.0.0.1; the URL to post to. Port 0 takes a free one. Closes every connection at the end."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", port, limit=MOST_REQUEST_BYTES, backlog=1024)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{PATH}"
        try:
            yield self.url
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        if connection is None:
            return
        self._connections.add(connection)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, HangUp, ValueError):
                while True:
                    await self._exchange(*await read_request(reader), writer)
        except asyncio.CancelledError:
            pass  # closing down: asyncio.streams would report it as a fault
        finally:
            self._connections.discard(connection)
            writer.close()

    async def _exchange(self, method: str, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if method == "POST":
            self.calls += 1
            await self._complete(body, writer)
        elif path == "/calls":
            await write_document(writer, {"calls": self.calls})
        else:
            about = {"name": "stand-in provider", "model": MODEL, "post_to": self.url, "notes_can_ask": [*FAILURES]}
            await write_document(writer, about)

    async def _complete(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        try:
            asked = Asked.read(json.loads(body))
            drafted = draft(asked)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            message = "the stand-in cannot read this request"
            await write_document(writer, {"error": {"message": message}}, "400 Bad Request")
            return
        reply = Reply(writer, asked, f"standin-{self.calls}", self.pace)
        await asyncio.sleep(self.delay)
        failure = None
        for directive in _DIRECTIVE.finditer(asked.notes):
            name = directive["name"].lower()
            if name == SLOW:
                await asyncio.sleep(min(float(directive["number"] or 8), LONGEST_SLOW_SECONDS))
            elif found := named(name):
                failure = failure or self._failure(found, directive, asked)
            else:
                drafted = {key: help_text() if key == "summary" else value for key, value in drafted.items()}
        if failure is None:
            await reply.answer(json.dumps(drafted, ensure_ascii=False))
        else:
            await failure(reply)

    def _failure(self, found: Failure, directive: re.Match[str], asked: Asked) -> Failure | None:
        """None when it was to fail once and has."""
        if directive["once"]:
            press = json.dumps([asked.subject, asked.notes])
            if press in self._failed_once:
                return None
            self._failed_once.add(press)
        return found


async def read_request(reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
    """(method, path, body) of the next request.

    Raises: asyncio.IncompleteReadError at the end, asyncio.LimitOverrunError or ValueError for what it cannot read.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length") or 0)
    if not 0 <= length <= MOST_REQUEST_BYTES:
        raise ValueError("a request of that size is not read")
    return method, path.partition("?")[0], await reader.readexactly(length)
