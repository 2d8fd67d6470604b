"""What a run is made of: its contract, its provider, its budgets; and the context that travels with it."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from receipts import fill
from receipts.contracts import Tool, registry
from receipts.errors import ContractGone
from receipts.models import Receipt


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
