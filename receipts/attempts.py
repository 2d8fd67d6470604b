"""One attempt, apart from whoever asked for it: propose, then settle. The row says what came of it.

A press in the browser, the API, a retry and the worker all end up here; nothing in it knows who waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.conf import settings
from django.db.models.functions import Now

from receipts import circuit, fill
from receipts.contracts import Context, Handover, Tool
from receipts.decisions import echoes_key
from receipts.errors import Cancelled, FillInvalid, InputExpired, InternalError, ReceiptsError
from receipts.manifest import provider, tool_of
from receipts.models import Receipt, SealedInput
from receipts.presses import Input
from receipts.runner import Inflight, Runner, runner
from receipts.sealing import Unsealable, sealer
from receipts.settlement import Conclusion

log = logging.getLogger(__name__)


def unsealed(receipt: Receipt) -> dict[str, Any]:
    """The private input of a receipt. Raises: InputExpired when it has expired, was purged or cannot be opened."""
    sealed = SealedInput.objects.filter(receipt_id=receipt.pk, expires_at__gt=Now()).first()
    if sealed is None:
        raise InputExpired(receipt_id=str(receipt.pk))
    try:
        return sealer().unseal(bytes(sealed.token))
    except Unsealable as error:
        log.error("sealed input of receipt %s cannot be opened", receipt.pk)
        raise InputExpired(receipt_id=str(receipt.pk)) from error


class Place:
    """A place among this process's attempts in flight, taken before the receipt is opened."""

    def __init__(self) -> None:
        self.started = False

    def start(self, receipt: Receipt, context: Context, given: Input, begun: float) -> Inflight:
        """Hand an attempt that has begun to the runner; the place comes back when it ends.

        `begun`: monotonic seconds, from which every budget counts.
        """

        async def attempt(at: Runner, inflight: Inflight) -> Receipt | None:
            tool = tool_of(receipt)
            filled = await _propose(tool, context, given, at, inflight, begun)
            conclusion = Conclusion(
                receipt=receipt, tool=tool, context=context, given=given, filled=filled, begun=begun
            )
            if conclusion.decision.arguments is not None:
                inflight.decide(conclusion.decision.arguments)
            change = tool.apply
            if isinstance(change, Handover) and conclusion.arguments is not None:
                handed = await at.outside(lambda: conclusion.hand_over(change))
                return await at.settle(inflight, lambda: conclusion.settle(handed))
            return await at.settle(inflight, conclusion.settle)

        inflight = runner().start(receipt.pk, receipt.attempt, attempt)
        self.started = True
        return inflight


@contextmanager
def place() -> Iterator[Place]:
    """Take a place; it is given back at once where no attempt was started in it. Raises: Overloaded."""
    runner().reserve()
    taken = Place()
    try:
        yield taken
    finally:
        if not taken.started:
            runner().release()


async def _propose(
    tool: Tool, context: Context, given: Input, at: Runner, inflight: Inflight, begun: float
) -> fill.Filled | ReceiptsError:
    """The arguments: derived, given, or filled by the model from notes; judged by the same gates."""
    try:
        if given.arguments is not None:
            return fill.judge_given(given.arguments, tool, context)
        if tool.derive is not None:
            return fill.judge_given(tool.derive(context), tool, context)
    except Exception:  # a fault of ours must still settle the row
        log.exception("the arguments of receipt %s could not be judged", inflight.receipt_id)
        return InternalError()
    return await _fill(tool, context, given.notes or "", at, inflight, begun)


async def _fill(
    tool: Tool, context: Context, notes: str, at: Runner, inflight: Inflight, begun: float
) -> fill.Filled | ReceiptsError:
    left = settings.FILL_BUDGET_SECONDS - (time.monotonic() - begun)
    try:
        with inflight.filling():
            filled = await fill.fill(
                tool,
                context,
                notes,
                provider=provider(),
                client=at.client,
                budget_seconds=max(0.0, left),
                on_draft=inflight.write,
            )
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not inflight.stopped or task is None:
            raise
        task.uncancel()
        await _unheard(at, inflight)
        return Cancelled()  # its row says so already
    except Exception:  # a fault of ours must still settle the row
        log.exception("the fill of receipt %s broke", inflight.receipt_id)
        await _unheard(at, inflight)
        return InternalError()
    if filled.facts is not None and filled.facts.calls and circuit.is_news(filled.facts.provider_host, filled.error):
        await at.in_settler(partial(circuit.heard, filled.facts.provider_host, filled.error, inflight.receipt_id))
    if filled.arguments is not None and filled.facts is not None and echoes_key(filled.arguments):
        filled.facts.gate = "text_safety"
        return fill.Filled(arguments=None, error=FillInvalid(reason="model_output_unsafe_text"), facts=filled.facts)
    return filled


async def _unheard(at: Runner, inflight: Inflight) -> None:
    """Nothing was learned of the provider: if this was to be the circuit's probe, the next one may be it."""
    if circuit.is_probe(inflight.receipt_id):
        await at.in_settler(partial(circuit.give_back, inflight.receipt_id, provider().host))
