"""What the model proposed and how it was judged, as the ledger keeps it: redacted, and without our provider's key."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings

from receipts import fill, ledger
from receipts.contracts import Arguments
from receipts.errors import ReceiptsError
from receipts.redaction import redact


def decision_of(filled: fill.Filled | ReceiptsError) -> ledger.Decision:
    """What the model said, redacted: its decision is kept also where it was refused."""
    if isinstance(filled, ReceiptsError):
        return ledger.Decision()
    if filled.facts is None:  # no model was asked
        return ledger.Decision(arguments=redact(filled.arguments))
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


def echoes_key(arguments: Arguments) -> bool:
    """Whether the proposal holds our provider's key."""
    return bool(_without_key(arguments) != arguments)
