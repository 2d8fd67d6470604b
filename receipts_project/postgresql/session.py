"""What every session of the product begins with, so that no frozen instance stops the others."""

from __future__ import annotations

from collections.abc import Sequence

#: A transaction that nobody goes on with holds its locks no longer than this; ours last milliseconds.
IDLE_IN_TRANSACTION_MS = 10_000


def session_options(given: str, *, lock_timeout_ms: int, arguments: Sequence[str]) -> str:
    """libpq's `options`: our limits, then what DATABASE_URL gives, which wins.

    Args:
        given: `options` of DATABASE_URL.
        arguments: `sys.argv`; migrations wait for the locks they need, and may compute inside a transaction.
    """
    migrates = list(arguments[1:2]) == ["migrate"]
    limits = {
        "lock_timeout": 0 if migrates else lock_timeout_ms,
        "idle_in_transaction_session_timeout": 0 if migrates else IDLE_IN_TRANSACTION_MS,
        "jit": "off",  # compiling a list's statement takes up to 0.7 s, running it 30 ms
    }
    return " ".join([*(f"-c {name}={value}" for name, value in limits.items()), *filter(None, [given])])
