"""A provider made of raw bytes: a framework would correct what these tests are about.

A script is a list of responses; a response is a list of steps. The stub reads one whole request, then plays
the next response; after the last one it plays that one again.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pause:
    """Say nothing for so many seconds."""

    seconds: float


class Fin:
    """Close in good order."""


class Rst:
    """Reset the connection."""


class Hold:
    """Keep the socket open, silent, until the client goes."""


@dataclass(frozen=True)
class Drip:
    """Write these bytes for ever (or once each), a pause after each piece."""

    data: bytes
    seconds: float
    size: int = 1
    forever: bool = False


Step = bytes | Pause | Drip | Fin | Rst | Hold
Response = Sequence[Step]


@dataclass
class Stub:
    """A listening stub and what it saw."""

    responses: Sequence[Response]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/chat/completions?api-version=1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        # Each write leaves as its own packet.
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            open_still = True
            while open_still:
                request = await _read_request(reader)
                response = self.responses[min(len(self.requests), len(self.responses) - 1)]
                self.requests.append(request)
                open_still = await _play(response, reader, writer)
        writer.close()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
    )
    return head + await reader.readexactly(length)


async def _play(response: Response, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """True when the connection stays open for another request."""
    for step in response:
        match step:
            case bytes():
                writer.write(step)
                await writer.drain()
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Drip():
                await _drip(step, writer)
            case Fin():
                return False
            case Rst():
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
                return False
            case Hold():
                await reader.read()
                return False
    return True


async def _drip(step: Drip, writer: asyncio.StreamWriter) -> None:
    while True:
        for start in range(0, len(step.data), step.size):
            writer.write(step.data[start : start + step.size])
            await writer.drain()
            await asyncio.sleep(step.seconds)
        if not step.forever:
            return


@asynccontextmanager
async def playing(*responses: Response) -> AsyncIterator[Stub]:
    """A stub on a free port of this machine, gone afterwards with all its connections."""
    stub = Stub(responses)
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await stub.serve(reader, writer)
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    stub.port = server.sockets[0].getsockname()[1]
    try:
        yield stub
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def in_thread(*responses: Response) -> Iterator[Stub]:
    """The same for suites without a loop of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stub = playing(*responses)
    try:
        yield asyncio.run_coroutine_threadsafe(stub.__aenter__(), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(stub.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
