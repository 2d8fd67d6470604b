"""The soak's model provider: a real socket; what becomes of a call is drawn from the seed, the press and its number."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
from collections import Counter
from contextlib import suppress

from receipts.standin import FAILURES, PATH, Asked, Failure, HangUp, Reply, draft, read_request, write_document

_PRESS = re.compile(r"press-\d+")

#: Share of calls → the name of what they come to, as the stand-in words it. The rest answers well.
FATES = {
    "provider_unavailable": 0.05,
    "provider_truncated": 0.04,
    "provider_timeout": 0.01,
    "fill_budget": 0.01,
    "model_output_not_json": 0.01,
    "arg_mismatch": 0.01,
    "slow": 0.04,
}
#: Words a second of a slow stream.
SLOW_PACE = 12.0


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


class Provider:
    """Counts the calls of each press; refuses connections during an outage."""

    def __init__(self, seed: int, latency: float) -> None:
        self.calls: Counter[str] = Counter()
        """By press; those of scheduled runs by their ticket's subject."""
        self.in_flight = 0
        self._seed = seed
        self._latency = latency
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._outages = 0
        # bound for good and never listening: during an outage nobody else on the machine may be given the port
        self._held = _bound(0)
        self._port: int = self._held.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{PATH}"

    async def open(self) -> None:
        """Listen; after an outage on the same port again."""
        listening = _bound(self._port)
        self._server = await asyncio.start_server(self._connected, sock=listening, backlog=1024, limit=1 << 22)

    async def shut(self) -> None:
        """Refuse connections, and cut those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def outage(self, seconds: float) -> None:
        """Refuse connections for so long; two at once end with the later one."""
        self._outages += 1
        await self.shut()
        await asyncio.sleep(seconds)
        self._outages -= 1
        if not self._outages:
            await self.open()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError, HangUp):
                while True:
                    _method, _path, body = await read_request(reader)
                    self.in_flight += 1
                    try:
                        await self._complete(body, writer)
                    finally:
                        self.in_flight -= 1
        finally:
            self._connections.discard(task)
            writer.close()

    async def _complete(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        try:
            asked = Asked.read(json.loads(body))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            await write_document(writer, {"error": {"message": "unreadable"}}, "400 Bad Request")
            return
        found = _PRESS.search(asked.notes)
        press = found[0] if found else asked.subject
        self.calls[press] += 1
        chance = random.Random(f"{self._seed} {press} {self.calls[press]}")
        await asyncio.sleep(min(2.5, chance.lognormvariate(0.0, 0.6) * self._latency))
        fate = self.fate(chance)
        reply = Reply(writer, asked, f"soak-{press}", SLOW_PACE if fate == "slow" else 0.0)
        if failure := FAILURES.get(fate):
            await self._fail(failure, reply)
        else:
            await reply.answer(json.dumps(draft(asked), ensure_ascii=False))

    async def _fail(self, failure: Failure, reply: Reply) -> None:
        await failure(reply)

    @staticmethod
    def fate(chance: random.Random) -> str:
        drawn = chance.random()
        for name, share in FATES.items():
            drawn -= share
            if drawn < 0:
                return name
        return "ok"
