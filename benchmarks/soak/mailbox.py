"""The soak's mail server: takes most messages, refuses some for now, hangs up on some, and counts each Message-ID."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from email import message_from_bytes

#: Shares of messages: refused for now; taken, and the line cut before the answer (nobody can know then).
REFUSED, CUT = 0.05, 0.03


class Mailbox:
    def __init__(self, seed: int) -> None:
        self.taken: Counter[str] = Counter()
        """Messages that arrived whole, by Message-ID."""
        self._chance = random.Random(f"{seed} mail")
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=256)
        self.port = self._server.sockets[0].getsockname()[1]

    def shut(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.write(b"220 soak\r\n")
            while line := await reader.readline():
                verb = line[:4].upper()
                if verb == b"DATA":
                    writer.write(b"354 go on\r\n")
                    fate = self._chance.random()
                    message = (await reader.readuntil(b"\r\n.\r\n"))[:-3]
                    if fate < REFUSED:
                        writer.write(b"451 not now\r\n")
                        continue
                    self.taken[str(message_from_bytes(message)["Message-ID"])] += 1
                    if fate < REFUSED + CUT:
                        break
                writer.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 fine\r\n")
                await writer.drain()
        writer.close()
