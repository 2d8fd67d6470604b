"""All sealed inputs under the first of `SEALED_INPUT_KEYS`: batch by batch, and again from the start at no loss.

What is under the first key already is recognised and left alone, so a run that was stopped is continued by the next.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from receipts import ledger
from receipts.models import SealedInput
from receipts.sealing import Unsealable, sealer

#: Rows that one statement locks: settling attempts wait for it at most some milliseconds.
BATCH = 500


@dataclass(kw_only=True)
class Progress:
    """How far a rotation is."""

    current: int = 0
    """Found under the first key, with nothing to do."""
    rotated: int = 0
    moved: int = 0
    """Sealed anew or purged by somebody else while we looked: a further pass looks at them again."""
    unopenable: list[uuid.UUID] = field(default_factory=list)
    """Receipts whose input no held key opens."""

    @property
    def seen(self) -> int:
        return self.current + self.rotated + self.moved + len(self.unopenable)


def rotate_all() -> Iterator[Progress]:
    """One pass over all rows in the order of their receipts; yields after each batch. Each batch is its own commit."""
    keys, progress, after = sealer(), Progress(), uuid.UUID(int=0)
    while rows := _batch(after):
        anew: dict[uuid.UUID, tuple[bytes, bytes]] = {}
        for receipt_id, token in rows:
            after = receipt_id
            if keys.is_current(token):
                progress.current += 1
                continue
            try:
                anew[receipt_id] = token, keys.rotate(token)
            except Unsealable:
                progress.unopenable.append(receipt_id)
        done = ledger.reseal(anew) if anew else 0
        progress.rotated += done
        progress.moved += len(anew) - done
        yield progress


def _batch(after: uuid.UUID) -> list[tuple[uuid.UUID, bytes]]:
    rows = SealedInput.objects.filter(receipt_id__gt=after).order_by("receipt_id").values_list("receipt_id", "token")
    return [(receipt_id, bytes(token)) for receipt_id, token in rows[:BATCH]]
