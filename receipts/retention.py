"""What else expires, besides sealed inputs: the domain and the queue say what, and how it is deleted."""

from __future__ import annotations

from collections.abc import Callable

_expiring: dict[str, Callable[[], int]] = {}


def expires(what: str, purge: Callable[[], int]) -> None:
    """`purge` deletes what has expired and says how many; `what` names one of them: `notes draft`."""
    _expiring[what] = purge


def purge_all() -> dict[str, int]:
    """Delete all of it. What → how many."""
    return {what: purge() for what, purge in _expiring.items()}
