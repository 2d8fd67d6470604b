"""The HTTP client: httpx's requests and answers on aiohttp's connections.

httpx's own pool is quadratic in calls in flight. Its client is left out as well: without it there are no cookies,
no redirects, no credentials from the URL or `.netrc` and no log line with the URL, whose query may hold a key.

No timeouts here: per-read timeouts never add up to a deadline (a comment every second resets them for ever), so
the caller's `asyncio.timeout` is the one clock, and covers DNS and TLS too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from types import TracebackType
from typing import Self

import aiohttp
import certifi
import httpx
from httpx_aiohttp import AiohttpTransport

from receipts.fill.provider import Provider
from receipts.fill.verdict import NothingArrived, Refusal, failed

#: How long an idle connection is kept. Below the 60 s after which common load balancers drop theirs.
KEEP_ALIVE_SECONDS = 30
#: How long the rest of a finished answer may take to arrive for its connection to be kept.
DRAIN_SECONDS = 1.0
DRAIN_BYTES = 64 * 1024

_NETWORK = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError, ValueError)


class Client:
    """Connections to providers: kept alive, any number in flight, no cookies, no proxies.

    `async with Client() as client`, or `await client.open()` … `await client.close()`, inside the loop that
    uses it.
    """

    def __init__(self) -> None:
        self._transport: AiohttpTransport | None = None
        self._drains: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Make the session; must run inside the loop that will use it."""
        trust = _trust()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=trust, keepalive_timeout=KEEP_ALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        )
        self._transport = AiohttpTransport(verify=trust, trust_env=False, client=session)

    async def close(self) -> None:
        """Close every connection."""
        for drain in self._drains:
            drain.cancel()
        await asyncio.gather(*self._drains, return_exceptions=True)
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    @asynccontextmanager
    async def post(self, provider: Provider, body: bytes) -> AsyncIterator[Exchange]:
        """Send one request; the answer's status and headers are there, its body not yet.

        Raises: Refusal `provider_unreachable` or `provider_truncated` (as NothingArrived: no answer byte
        came), `provider_protocol` for an answer that is not HTTP. RuntimeError when the client is not open.
        """
        if self._transport is None:
            raise RuntimeError("the client is not open")
        try:
            request = httpx.Request("POST", provider.url, content=body, headers=_headers(provider))
            response = await self._transport.handle_async_request(request)
        except _NETWORK as error:
            raise _refusal_before_answer(error) from None
        exchange = Exchange(response)
        try:
            yield exchange
        finally:
            await self._finish(exchange)

    async def _finish(self, exchange: Exchange) -> None:
        """Keep the connection if the answer's last bytes are about to come; else close it."""
        if exchange.is_answered and not exchange.is_read:
            # `[DONE]` comes before the end of the body. Waiting for that end here would hold up the filing,
            # and closing at once would cost every call a new connection.
            drain = asyncio.create_task(_drain(exchange))
            self._drains.add(drain)
            drain.add_done_callback(self._drains.discard)
        else:
            await exchange.close()


class Exchange:
    """One answer being read."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._packets = response.aiter_raw()
        self.status: int = response.status_code
        self.headers: httpx.Headers = response.headers
        self.is_read = False
        """The body ended as its framing said."""
        self.is_answered = False
        """The reader has what it needs: the rest of the body may be thrown away."""

    async def packets(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives, still encoded.

        Raises: Refusal `provider_truncated` when it breaks off, `provider_protocol` for broken framing.
        """
        try:
            async for packet in self._packets:
                yield packet
        except _NETWORK as error:
            raise _refusal_in_body(error) from None
        self.is_read = True

    async def text(self, most: int) -> str:
        """The first `most` bytes of the body, bad bytes replaced.

        For an error's body, which is only searched.
        """
        found = bytearray()
        async for packet in self.packets():
            found += packet
            if len(found) >= most:
                break
        return bytes(found[:most]).decode("utf-8", "replace")

    async def close(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._response.aclose()
        except (TimeoutError, *_NETWORK):
            pass


async def _drain(exchange: Exchange) -> None:
    left = DRAIN_BYTES
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for packet in exchange.packets():
                left -= len(packet)
                if left < 0:
                    break
    except (TimeoutError, Refusal):
        pass
    finally:
        await exchange.close()


@cache
def _trust() -> ssl.SSLContext:
    """The machine's own trust store (companies add theirs there) and certifi's (slim images have none).

    Made once a process: reading the certificates takes longer than a call.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _headers(provider: Provider) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "Accept": "text/event-stream" if provider.stream else "application/json",
        # A compressed body could be a bomb, and a stream behind a compressor arrives late.
        "Accept-Encoding": "identity",
        "User-Agent": "receipts/1",
        **provider.auth_headers(),
    }


def _refusal_before_answer(error: Exception) -> Refusal:
    """Disconnect, reset and a stale connection all surface as ConnectTimeout: the cause tells them apart."""
    cause = error.__cause__ or error
    if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ClientConnectorDNSError):
        return _nothing("provider_unreachable")
    if isinstance(cause, aiohttp.ServerDisconnectedError):
        # aiohttp hands over the half-read head when there was one.
        begun = not isinstance(cause.message, str)
        return failed("transport", "provider_truncated") if begun else _nothing("provider_truncated")
    if isinstance(cause, aiohttp.ClientConnectionError | OSError):
        return _nothing("provider_truncated")
    if isinstance(cause, httpx.InvalidURL | httpx.UnsupportedProtocol | aiohttp.InvalidURL):
        return failed("transport", "provider_unconfigured")
    return failed("framing", "provider_protocol")


def _nothing(reason: str) -> NothingArrived:
    refusal = failed("transport", reason)
    return NothingArrived(refusal.gate, refusal.error)


def _refusal_in_body(error: Exception) -> Refusal:
    """A body that ends before its length or its last chunk; broken chunks mostly show before the body."""
    cause = error.__cause__ or error
    if isinstance(cause, aiohttp.ClientPayloadError | aiohttp.ClientConnectionError | OSError):
        return failed("transport", "provider_truncated")
    return failed("framing", "provider_protocol")
