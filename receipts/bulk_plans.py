"""What a bulk replay would be: a verdict for each receipt, as things stand. Planning writes nothing.

The plan that somebody has looked at comes back sealed with our signature: what is confirmed is what was shown, not what
the filter would find a minute later.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from django.core import signing

from receipts.errors import InvalidRequest
from receipts.ids import uuid7
from receipts.models import Receipt
from receipts.replay import Mode, Verdict, verdict

#: Seconds for which a plan may be confirmed; afterwards it is planned anew.
GOOD_FOR = 3600
_SALT = "receipts.bulk_plans"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One receipt of a plan."""

    receipt_id: uuid.UUID
    verdict: str
    """The mode it would run in, or the code of what excludes it."""
    replay_no: int
    """The number that its replay would have."""
    reason: str | None = None
    look_at: str | None = None
    """The receipt that explains the exclusion, where it is another one."""

    @property
    def runs(self) -> bool:
        return self.verdict in list(Mode)

    @classmethod
    def of(cls, found: Verdict) -> Self:
        key, refusal = found.receipt.pk, found.refusal
        if refusal is None:
            return cls(receipt_id=key, verdict=str(found.mode), replay_no=found.replay_no)
        other = refusal.receipt_id if refusal.receipt_id != str(key) else None
        return cls(
            receipt_id=key, verdict=refusal.code, replay_no=found.replay_no, reason=refusal.reason, look_at=other
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The receipts that somebody wants replayed, the oldest first, and what would become of each."""

    filter: dict[str, str]
    """Which receipts were meant, in words."""
    items: tuple[Planned, ...]
    id: uuid.UUID = field(default_factory=uuid7)
    """Of the bulk replay that it becomes: confirmed twice, it is still one."""

    @property
    def running(self) -> tuple[Planned, ...]:
        return tuple(item for item in self.items if item.runs)

    @property
    def excluded(self) -> tuple[Planned, ...]:
        """The newest first."""
        return tuple(item for item in reversed(self.items) if not item.runs)

    def counts(self) -> Counter[tuple[str, str | None]]:
        """(verdict, reason) → receipts."""
        return Counter((item.verdict, item.reason) for item in self.items)

    def seal(self, user: Any) -> str:
        """The plan as a text that only `unseal` for the same person takes back."""
        items = [[i.receipt_id.hex, i.verdict, i.replay_no, i.reason, i.look_at] for i in self.items]
        return signing.dumps([self.id.hex, self.filter, items], salt=f"{_SALT}:{user.pk}", compress=True)

    @classmethod
    def unseal(cls, text: str, user: Any) -> Self:
        """Raises: InvalidRequest when it is not a plan of this person's, or too old."""
        try:
            key, words, items = signing.loads(text, salt=f"{_SALT}:{user.pk}", max_age=GOOD_FOR)
        except signing.SignatureExpired:
            raise InvalidRequest(
                "This plan is more than an hour old. Nothing was run.", fields={"plan": "is too old: plan again"}
            ) from None
        except signing.BadSignature:
            raise InvalidRequest(
                "This is not a plan of yours. Nothing was run.", fields={"plan": "is not one"}
            ) from None
        planned = tuple(
            Planned(receipt_id=uuid.UUID(receipt), verdict=said, replay_no=number, reason=reason, look_at=look_at)
            for receipt, said, number, reason, look_at in items
        )
        return cls(id=uuid.UUID(key), filter=words, items=planned)


def plan(receipts: Iterable[Receipt], filter: dict[str, str]) -> Plan:  # noqa: A002 - what it is called on the row
    """Ask for each receipt what its replay would be: the pinned contract, the mode that is its default."""
    ordered = sorted(receipts, key=lambda receipt: (receipt.created_at, receipt.pk))
    return Plan(filter=filter, items=tuple(Planned.of(verdict(receipt)) for receipt in ordered))
