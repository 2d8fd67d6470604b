"""One attempt, apart from whoever asked for it: fill, then settle. The row says what came of it.

A press in the browser, the API, a retry and the worker all end up here; nothing in it knows who waits.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from receipts import fill, ledger, unwatched
from receipts.contracts import Arguments, Context, Tool, ToolRefusal, registry
from receipts.errors import (
    ApplyFailed,
    ArgMismatch,
    ContractGone,
    DeadlineExceeded,
    FillInvalid,
    InputExpired,
    InternalError,
    ReceiptsError,
    TicketConflict,
)
from receipts.lifecycle import Outcome, Status, outcome
from receipts.models import Receipt, SealedInput, Verb
from receipts.redaction import redact
from receipts.runner import Inflight, Runner, runner
from receipts.sealing import Unsealable, sealer
from receipts.told import DECISION

log = logging.getLogger(__name__)


def tool_of(receipt: Receipt) -> Tool:
    """The contract that the receipt was opened with: a retry never moves to another version.

    Raises: ContractGone when this version of the product no longer holds it.
    """
    try:
        return registry.get(receipt.tool_name, receipt.contract_version)
    except KeyError:
        raise ContractGone(receipt_id=str(receipt.pk)) from None


def manifest(tool: Tool) -> dict[str, Any]:
    """The context that travels with a run: everything that could make it differ from another one."""
    return {
        "app_version": settings.VERSION,
        "contracts": {tool.contract: tool.schema_sha256},
        "provider_host": provider().host,
        "model": settings.COMPLETIONS_MODEL,
        "mode": settings.COMPLETIONS_MODE,
        "budgets": {
            "fill_seconds": settings.FILL_BUDGET_SECONDS,
            "attempt_seconds": settings.ATTEMPT_DEADLINE_SECONDS,
            "apply_lock_ms": settings.APPLY_LOCK_TIMEOUT_MS,
            "apply_statement_ms": settings.APPLY_STATEMENT_TIMEOUT_MS,
        },
    }


def provider() -> fill.Provider:
    """The provider that the settings name."""
    return fill.Provider(
        url=settings.COMPLETIONS_URL,
        api_key=settings.COMPLETIONS_API_KEY,
        auth=settings.COMPLETIONS_AUTH,
        model=settings.COMPLETIONS_MODEL,
        mode=settings.COMPLETIONS_MODE,
        stream=settings.COMPLETIONS_STREAM,
        extra=settings.COMPLETIONS_EXTRA,
    )


def unsealed(receipt: Receipt) -> dict[str, Any]:
    """The private input of a receipt. Raises: InputExpired when it has expired, was purged or cannot be opened."""
    sealed = SealedInput.objects.filter(receipt_id=receipt.pk, expires_at__gt=timezone.now()).first()
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

    def start(self, receipt: Receipt, context: Context, notes: str, begun: float) -> Inflight:
        """Hand an attempt that has begun to the runner; the place comes back when it ends.

        `begun`: monotonic seconds, from which every budget counts.
        """

        async def attempt(at: Runner, inflight: Inflight) -> Receipt | None:
            tool = tool_of(receipt)
            filled = await _fill(tool, context, notes, at, inflight, begun)
            decision = _decision(filled)
            if decision.arguments is not None:
                inflight.decide(decision.arguments)
            return await at.settle(inflight, lambda: settle(receipt, tool, context, notes, filled, decision, begun))

        inflight = runner().start(receipt.pk, attempt)
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


async def _fill(
    tool: Tool, context: Context, notes: str, place: Runner, inflight: Inflight, begun: float
) -> fill.Filled | ReceiptsError:
    left = settings.FILL_BUDGET_SECONDS - (time.monotonic() - begun)
    try:
        filled = await fill.fill(
            tool,
            context,
            notes,
            provider=provider(),
            client=place.client,
            budget_seconds=max(0.0, left),
            on_draft=inflight.write,
        )
    except Exception:  # a fault of ours must still settle the row
        log.exception("the fill of receipt %s broke", inflight.receipt_id)
        return InternalError()
    if filled.arguments is not None and _echoes_key(filled.arguments):
        filled.facts.gate = "text_safety"
        return fill.Filled(arguments=None, error=FillInvalid(reason="model_output_unsafe_text"), facts=filled.facts)
    return filled


def settle(
    receipt: Receipt,
    tool: Tool,
    context: Context,
    notes: str,
    filled: fill.Filled | ReceiptsError,
    decision: ledger.Decision,
    begun: float,
) -> Receipt | None:
    """Commit 2: make the change and stamp it, or stamp the failure. The row as it is afterwards, whoever wrote it."""
    if isinstance(filled, fill.Filled) and filled.arguments is not None:
        done = _apply(receipt, tool, context, filled.arguments, decision, begun)
        if isinstance(done, Receipt):
            return _told(done, receipt, decision)
        error, arguments = done, filled.arguments
    else:
        error = filled.error if isinstance(filled, fill.Filled) and filled.error else _as_error(filled)
        arguments = None
    if arguments is not None:
        # exact arguments are kept, sealed, where a replay without the model may need them
        decision = _with_sealed(decision, {"notes": notes, "arguments": arguments})
    came_to = outcome(Status.FAILED, error.retryable) or Outcome.FAILED
    settled = ledger.settle_failed(
        receipt,
        error,
        decision=decision,
        replayable=tool.replayable(came_to),
        event=_event(receipt, error),
        **unwatched.again(receipt, error),
    )
    if settled is None:  # fenced: the row belongs to another attempt, or was settled from outside
        return ledger.read(receipt.pk)
    settled.retry_after = error.retry_after
    return _told(settled, receipt, decision)


def _as_error(filled: fill.Filled | ReceiptsError) -> ReceiptsError:
    return filled if isinstance(filled, ReceiptsError) else InternalError()


def _apply(
    receipt: Receipt, tool: Tool, context: Context, arguments: Arguments, decision: ledger.Decision, begun: float
) -> Receipt | ReceiptsError:
    """The applied row, or the error to settle with; then nothing of this attempt is in the database."""
    left_ms = int((settings.ATTEMPT_DEADLINE_SECONDS - (time.monotonic() - begun)) * 1000)
    if left_ms <= 0:
        return DeadlineExceeded(reason="attempt_deadline")
    try:
        return ledger.apply(
            receipt,
            tool,
            arguments,
            context,
            decision=decision,
            lock_timeout_ms=settings.APPLY_LOCK_TIMEOUT_MS,
            statement_timeout_ms=min(settings.APPLY_STATEMENT_TIMEOUT_MS, left_ms),
        )
    except ledger.Fenced:
        return DeadlineExceeded(reason="attempt_deadline")
    except ToolRefusal as refusal:
        return (
            FillInvalid(reason=refusal.reason)
            if refusal.reason == "policy_assignee"
            else TicketConflict(reason=refusal.reason)
        )
    except (DatabaseError, InterfaceError) as error:
        return _apply_failed(receipt, error)
    except Exception:
        log.exception("the tool %s broke at receipt %s", tool.contract, receipt.pk)
        return InternalError()


def _apply_failed(receipt: Receipt, error: Exception) -> ApplyFailed:
    """After a broken COMMIT the change may be there: settling waits for the row's lock and then finds it applied."""
    sqlstate = getattr(error.__cause__, "sqlstate", None)
    log.warning("apply of receipt %s failed: %s %s", receipt.pk, type(error).__name__, sqlstate or "")
    connection.close()
    reasons = {"55P03": "lock_timeout", "57014": "statement_timeout"}
    return ApplyFailed(reason=reasons.get(sqlstate or "", "database_error"))


def _decision(filled: fill.Filled | ReceiptsError) -> ledger.Decision:
    """What the model said, redacted: its decision is kept also where it was refused."""
    if isinstance(filled, ReceiptsError):
        return ledger.Decision()
    facts = filled.facts
    usage = facts.usage or {}
    record = _without_key(facts.as_json())
    record |= {name: redact(record[name]) for name in _FROM_OUTSIDE}
    return ledger.Decision(
        record=record,
        # what passed the gates is what was proposed, redacted once
        arguments=record["proposed"] if filled.arguments is not None else None,
        model=record["model"],
        provider_host=facts.provider_host,
        finish_reason=record["finish_reason"],
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        fill_ms=facts.fill_ms,
    )


#: What the provider writes: the answer's model name and id as much as its words. The rest is ours: hashes, figures.
_FROM_OUTSIDE = ("proposed", "model", "finish_reason", "response_id", "usage")

#: What the columns hold; a provider that counts further than that is not counting tokens.
_COUNT_MAX = 2**31 - 1


def _count(tokens: Any) -> int | None:
    return tokens if isinstance(tokens, int) and 0 <= tokens <= _COUNT_MAX else None


def _without_key(value: Any) -> Any:
    """The same JSON without our provider's key, which an answer may echo."""
    key = settings.COMPLETIONS_API_KEY
    if not key or key not in json.dumps(value, ensure_ascii=False):
        return value
    return json.loads(
        json.dumps(value, ensure_ascii=False).replace(json.dumps(key, ensure_ascii=False)[1:-1], "[secret]")
    )


def _echoes_key(arguments: Arguments) -> bool:
    return bool(_without_key(arguments) != arguments)


def _with_sealed(decision: ledger.Decision, private: dict[str, Any]) -> ledger.Decision:
    return replace(decision, sealed=sealer().seal(private))


def _event(receipt: Receipt, error: ReceiptsError) -> ledger.Event | None:
    """A model that names another ticket is a security event."""
    if not isinstance(error, ArgMismatch):
        return None
    return ledger.Event(verb=Verb.RETARGET_REFUSED, actor_id=None, detail={"attempt": receipt.attempt})


def _told(settled: Receipt, began_as: Receipt, decision: ledger.Decision) -> Receipt:
    """Carry over what this process knows, so that answering needs no further query."""
    setattr(settled, DECISION, decision.record)
    if "user" in began_as._state.fields_cache:
        settled.user = began_as.user
    return settled
