"""What time it is by the database's clock, which every deadline goes by. A process's own may be wrong by hours.

Asked once a minute and counted on from there by the monotonic clock, so that a press pays nothing for it.
"""

from __future__ import annotations

import datetime as dt
import time
from contextlib import suppress

from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from receipts.statements import fetch_row

#: Two machines' clocks drift apart by milliseconds a minute; and a database may be moved to another machine.
ASK_AGAIN_SECONDS = 60.0

_asked: tuple[float, dt.datetime] | None = None
"""(monotonic seconds, the database's time then); shared by the process's threads, and replaced as a whole."""


def now() -> dt.datetime:
    """The database's time. While it cannot be asked: `counted_on`."""
    global _asked
    if _asked is None or time.monotonic() - _asked[0] > ASK_AGAIN_SECONDS:
        with suppress(DatabaseError, InterfaceError):
            _asked = _ask()
    return counted_on()


def counted_on() -> dt.datetime:
    """The same without asking, for where nothing may: from the last time that somebody did; before that, our own."""
    known = _asked
    return timezone.now() if known is None else known[1] + dt.timedelta(seconds=time.monotonic() - known[0])


def _ask() -> tuple[float, dt.datetime]:
    row = fetch_row("SELECT clock_timestamp()", {})
    assert row is not None  # noqa: S101 - a SELECT without FROM has its row
    return time.monotonic(), row[0]
