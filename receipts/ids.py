"""Identifiers that sort by time."""

from __future__ import annotations

import datetime as dt
import os
import time
import uuid


def uuid7() -> uuid.UUID:
    """A UUID version 7 (RFC 9562 §5.7): 48 bits of milliseconds, then 74 random bits.

    The database sees inserts at the right edge of its index; the standard library brings its own from 3.14 on.
    """
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return uuid.UUID(int=value)


def first_of(moment: dt.datetime) -> uuid.UUID:
    """The lowest identifier of that millisecond."""
    return uuid.UUID(int=int(moment.timestamp() * 1000) << 80 | 0x7 << 76 | 0x2 << 62)


def short_name(receipt_id: object) -> str:
    """`R-1f3a90bc`, what people call a receipt: the random end of its id, because ids of one day begin alike."""
    return f"R-{str(receipt_id)[-8:]}"
