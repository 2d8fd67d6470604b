"""Sets the wall clock of this one Python process wrong, by SOAK_CLOCK_SKEW_SECONDS: found by `site` on PYTHONPATH.

What is shifted: `time.time`, `time.time_ns`, `datetime.now`, `utcnow`, `today`, which is how the product and its
libraries read the wall clock. What is not: `time.monotonic` (no machine's wall clock moves it), the time stamps of
files, what C code reads for itself, and the database server's clock, which is another machine's here.
"""

from __future__ import annotations

import copyreg
import datetime
import os
import time

SKEW_SECONDS = float(os.environ.get("SOAK_CLOCK_SKEW_SECONDS") or 0)


def skew(seconds: float) -> None:
    true_time, true_time_ns, true = time.time, time.time_ns, datetime.datetime
    by = datetime.timedelta(seconds=seconds)

    class Kind(type):
        """A true datetime is an instance of the skewed class too: the skewed one makes nothing else."""

        def __instancecheck__(cls, thing: object) -> bool:
            return isinstance(thing, true)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, true)

    class Skewed(true, metaclass=Kind):
        def __new__(cls, *arguments, **named):
            return true.__new__(true if cls is Skewed else cls, *arguments, **named)

        @classmethod
        def now(cls, tz=None):
            return true.now(tz) + by

        @classmethod
        def utcnow(cls):
            return true.now(datetime.UTC).replace(tzinfo=None) + by

        @classmethod
        def today(cls):
            return true.now() + by

    Skewed.__name__ = Skewed.__qualname__ = "datetime"
    Skewed.__module__ = "datetime"
    time.time = lambda: true_time() + seconds
    time.time_ns = lambda: true_time_ns() + int(seconds * 1e9)
    datetime.datetime = Skewed
    copyreg.pickle(true, lambda moment: (Skewed, moment.__reduce__()[1]))


if SKEW_SECONDS:
    skew(SKEW_SECONDS)
