"""The order of one fill: build, ask at most twice inside one budget, judge once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from receipts.contracts import Context, Tool
from receipts.errors import DeadlineExceeded, FillFailed, ReceiptsError
from receipts.fill.answer import Answer, Reader
from receipts.fill.client import Client, Exchange
from receipts.fill.facts import Facts, Filled
from receipts.fill.gates import judge
from receipts.fill.limits import Limits
from receipts.fill.prompt import Prompt, build_prompt, request_body
from receipts.fill.provider import LADDER, Provider
from receipts.fill.text import showable
from receipts.fill.upstream import BODY_MATTERS, refusal_of_status
from receipts.fill.verdict import FormatRefused, NothingArrived, Refusal, failed

log = logging.getLogger(__name__)

FILL_BUDGET_SECONDS = 20.0
#: A call is made again only while this share of the budget is left: 6 s of 20.
WORTH_ASKING_AGAIN = 0.3
#: How long to wait for `[DONE]` and usage once a finish_reason has come. The answer no longer changes.
LINGER_SECONDS = 0.5
#: How long the body of an HTTP error may take; its status alone is nearly as good.
ERROR_BODY_SECONDS = 2.0

#: Where the ladder begins, by (url, model): learned from refusals, kept as long as the process.
_learned: dict[tuple[str, str], str] = {}


def forget_downgrades() -> None:
    """Begin at the top of the ladder again: for an operator who changed the provider, and for tests."""
    _learned.clear()


async def fill(
    tool: Tool,
    context: Context,
    notes: str,
    *,
    provider: Provider,
    client: Client,
    budget_seconds: float = FILL_BUDGET_SECONDS,
    on_draft: Callable[[str], None] | None = None,
    limits: Limits | None = None,
) -> Filled:
    """Have the provider fill the tool's arguments for this context, and judge them.

    `budget_seconds` is wall clock from here to the last byte read, second call included. `on_draft` gets
    each new piece of the answer's text, for display only. Whatever the provider does becomes
    `Filled.error`.

    Raises: asyncio.CancelledError when the caller cancels. Nothing else on the provider's account.
    """
    prompt = build_prompt(tool, context, notes)
    facts = Facts(model=provider.model, provider_host=provider.host, prompt_sha256=prompt.sha256)
    facts.note(*prompt.notes)
    call = _Fill(
        tool=tool,
        context=context,
        prompt=prompt,
        provider=provider,
        client=client,
        limits=limits or Limits.of(tool),
        on_draft=on_draft,
        facts=facts,
        budget_seconds=budget_seconds,
    )
    arguments, error = await call.run()
    facts.fill_ms = call.elapsed_ms()
    return Filled(arguments=arguments, error=error, facts=facts)


@dataclass(kw_only=True)
class _Fill:
    """One fill under way."""

    tool: Tool
    context: Context
    prompt: Prompt
    provider: Provider
    client: Client
    limits: Limits
    on_draft: Callable[[str], None] | None
    facts: Facts
    budget_seconds: float
    began: float = field(default_factory=monotonic)

    async def run(self) -> tuple[dict[str, Any] | None, ReceiptsError | None]:
        try:
            async with asyncio.timeout(self.budget_seconds) as clock:
                answer = await self._answer()
            return judge(answer, self.tool, self.context, self.facts), None
        except Refusal as refusal:
            self.facts.gate, self.facts.path = refusal.gate, refusal.path
            return None, refusal.error
        except TimeoutError:
            if not clock.expired():
                raise
            self.facts.gate = "budget"
            return None, self._out_of_time()

    def _out_of_time(self) -> ReceiptsError:
        if self.facts.first_content_ms is None:
            return FillFailed(reason="provider_timeout")
        return DeadlineExceeded(reason="fill_budget")

    def elapsed_ms(self) -> int:
        return round((monotonic() - self.began) * 1000)

    async def _answer(self) -> Answer:
        """One complete answer, from the first call or a second one. Raises: Refusal."""
        if self.provider.problem:
            log.error("provider not usable: %s", self.provider.problem)
            raise failed("transport", "provider_unconfigured")
        mode = self._first_mode()
        try:
            return await self._ask(mode)
        except FormatRefused:
            lower = self._lower_mode(mode)
            if lower is None:
                raise
            mode = lower
        except NothingArrived:
            left = self.budget_seconds - (monotonic() - self.began)
            if left < self.budget_seconds * WORTH_ASKING_AGAIN:
                raise
        try:
            return await self._ask(mode)
        except FormatRefused:
            # Not a third call: but the next press begins one lower.
            self._lower_mode(mode)
            raise

    def _first_mode(self) -> str:
        if self.provider.mode != "auto":
            return self.provider.mode
        return _learned.get((self.provider.url, self.provider.model), LADDER[0])

    def _lower_mode(self, mode: str) -> str | None:
        """The next mode of the ladder, remembered for this process; None at its end or for a fixed mode."""
        if self.provider.mode != "auto" or mode == LADDER[-1]:
            return None
        lower = LADDER[LADDER.index(mode) + 1]
        _learned[self.provider.url, self.provider.model] = lower
        log.warning("%s refuses the format %s; from now on %s", self.provider.host, mode, lower)
        return lower

    async def _ask(self, mode: str) -> Answer:
        """One call. Raises: Refusal."""
        body, schema_sha256 = request_body(self.tool, self.context, self.prompt, self.provider, mode)
        self.facts.mode, self.facts.wire_schema_sha256 = mode, schema_sha256
        self.facts.calls += 1
        async with self.client.post(self.provider, body) as exchange:
            self.facts.upstream_status = exchange.status
            if not 200 <= exchange.status < 300:
                raise await self._refusal_of(exchange)
            if "content-encoding" in exchange.headers:
                raise failed("framing", "provider_protocol")
            return await self._read(exchange)

    async def _refusal_of(self, exchange: Exchange) -> Refusal:
        body = ""
        if exchange.status in BODY_MATTERS and "content-encoding" not in exchange.headers:
            try:
                async with asyncio.timeout(ERROR_BODY_SECONDS) as patience:
                    body = await exchange.text(self.limits.error_bytes)
            except Refusal:
                pass  # broken off: the status stands
            except TimeoutError:
                if not patience.expired():
                    raise
        return refusal_of_status(exchange.status, exchange.headers, body)

    async def _read(self, exchange: Exchange) -> Answer:
        """Read to the answer's end, not further: a provider may keep the socket open for ever."""
        declared = exchange.headers.get("content-type", "")
        reader = Reader(declared=declared, limits=self.limits, on_text=self._drafted)
        try:
            await self._read_on(exchange, reader)
            return reader.end()
        finally:
            self._remember(reader)

    async def _read_on(self, exchange: Exchange, reader: Reader) -> None:
        try:
            async with asyncio.timeout(None) as linger, aclosing(exchange.packets()) as packets:
                async for packet in packets:
                    if reader.feed(packet):
                        exchange.is_answered = True
                        return
                    if reader.is_terminal and linger.when() is None:
                        linger.reschedule(asyncio.get_running_loop().time() + LINGER_SECONDS)
        except TimeoutError:
            if not linger.expired():
                raise

    def _remember(self, reader: Reader) -> None:
        answer, facts = reader.answer, self.facts
        facts.bytes_in = reader.bytes_in
        facts.model = answer.model or facts.model
        facts.finish_reason, facts.usage, facts.response_id = (
            answer.finish_reason,
            answer.usage,
            answer.response_id,
        )
        facts.note(*answer.notes)

    def _drafted(self, text: str) -> None:
        if self.facts.first_content_ms is None:
            self.facts.first_content_ms = self.elapsed_ms()
        if self.on_draft is None:
            return
        try:
            self.on_draft(showable(text))
        except Exception:
            # The draft is display only: a fault in showing it must not cost the filing.
            log.exception("on_draft failed; the rest of this draft is not shown")
            self.on_draft = None
