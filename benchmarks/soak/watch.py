"""Looks at the tables while the load is on, for what can only be seen then (I4, I5, I6)."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress

import psycopg

from benchmarks.soak.product import Product

LOOK_SECONDS = 0.7
#: A transaction of ours lasts milliseconds; so long, on a busy machine, it sits there.
SITTING_SECONDS = 3.0
#: A frozen process may hold one until the session's own limit ends it (`idle_in_transaction_session_timeout`).
FROZEN_SECONDS = 13.0

_SITTING = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - state_change)), 0)::float8 FROM pg_stat_activity
WHERE datname = current_database() AND state LIKE 'idle in transaction%' AND application_name <> 'soak'
"""
_ROWS = "SELECT id, attempt, status, result_ref, deadline_at IS NULL FROM tool_receipts"


class Watch:
    def __init__(self, product: Product) -> None:
        self.looks = 0
        self.sitting: list[float] = []
        """Seconds for which transactions sat idle, where that was too long (I4)."""
        self.without_deadline: set[uuid.UUID] = set()
        self.went_back: set[uuid.UUID] = set()
        """Receipts whose attempt fell, or that left `applied` (I6)."""
        self._product = product
        self._seen: dict[uuid.UUID, tuple[int, str, str | None]] = {}
        self._calm = 0.0

    async def run(self) -> None:
        while True:
            with suppress(psycopg.Error):
                await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        frozen = any(slot.frozen for slot in self._product.slots)
        self._calm = 0.0 if frozen else self._calm + LOOK_SECONDS
        longest = (await self._product.ask(_SITTING))[0][0]
        if longest > (SITTING_SECONDS if self._calm > SITTING_SECONDS else FROZEN_SECONDS):
            self.sitting.append(longest)
        for receipt_id, attempt, status, result_ref, without in await self._product.ask(_ROWS):
            if without and status == "pending":
                self.without_deadline.add(receipt_id)
            before = self._seen.get(receipt_id)
            if before and (attempt < before[0] or (before[1] == "applied" and before[1:] != (status, result_ref))):
                self.went_back.add(receipt_id)
            self._seen[receipt_id] = attempt, status, result_ref
        self.looks += 1
