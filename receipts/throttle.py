"""How often one person may start a fill. Counted in the ledger, so that every process counts the same.

Counting and opening are one turn, and a person's turns in one process follow each other. Several processes do not wait
for each other: together they can let through more, by the presses of the very same moment.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakValueDictionary

from django.conf import settings
from django.db import connection

from receipts.errors import Throttled
from receipts.statements import fetch_row

_UNITS = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
}


@dataclass(frozen=True, kw_only=True)
class Rate:
    """At most `presses` in any `seconds`."""

    presses: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """`60/min` → Rate; `none` → None. Raises: ValueError with a sentence."""
        if text.strip().lower() == "none":
            return None
        match = re.fullmatch(r"\s*(\d+)\s*/\s*([a-z]+)\s*", text.lower())
        if not match or match[2] not in _UNITS or int(match[1]) < 1:
            raise ValueError(f"{text!r} is not a rate like 60/min, nor none")
        return cls(presses=int(match[1]), seconds=_UNITS[match[2]])


# A press is a receipt opened, or one reopened by its owner (an audit event). The n-th newest press decides: if it is
# still inside the window, this one would be one too many, and the window says when it leaves.
_NTH_PRESS = """
SELECT extract(epoch FROM at + make_interval(secs => %(seconds)s::int) - clock_timestamp()) FROM (
    (SELECT created_at AS at FROM tool_receipts
      WHERE user_id = %(user)s AND replay_of IS NULL
        AND created_at > clock_timestamp() - make_interval(secs => %(seconds)s::int)
      ORDER BY created_at DESC LIMIT %(presses)s::int)
    UNION ALL
    (SELECT at FROM audit_events
      WHERE actor_id = %(user)s AND verb = 'retry' AND at > clock_timestamp() - make_interval(secs => %(seconds)s::int)
      ORDER BY at DESC LIMIT %(presses)s::int)
) presses ORDER BY at DESC OFFSET %(presses)s::int - 1 LIMIT 1
"""


def seconds_until_next_press(user_id: object, rate: Rate) -> int:
    """0 when the person may press now, else whole seconds (≥ 1) until they may."""
    row = fetch_row(_NTH_PRESS, {"user": user_id, "seconds": rate.seconds, "presses": rate.presses})
    return max(1, math.ceil(row[0])) if row else 0


#: A person's lock, for as long as a press of theirs holds it or waits for it.
_turns: WeakValueDictionary[Any, threading.Lock] = WeakValueDictionary()
_turns_guard = threading.Lock()


@contextmanager
def turn(user_id: Any, *, answerable: Callable[[], object] = lambda: None) -> Iterator[None]:
    """One press's turn at THROTTLE_PRESSES: count, and open the receipt inside.

    `answerable`: asked only where the rate is used up; true when the ledger answers this press without a fill, which
    then counts as no press. Must not be entered in a transaction: a press that waits gives its connection back, since
    whoever it waits for may need it.

    Raises: Throttled.
    """
    rate = Rate.parse(settings.THROTTLE_PRESSES)
    if rate is None:
        yield
        return
    with _turns_guard:
        lock = _turns.setdefault(user_id, threading.Lock())
    if not lock.acquire(blocking=False):
        if not connection.in_atomic_block:
            connection.close()
        lock.acquire()
    try:
        seconds = seconds_until_next_press(user_id, rate)
        if seconds and not answerable():
            raise Throttled(retry_after=seconds)
        yield
    finally:
        lock.release()
