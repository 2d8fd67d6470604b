"""A soak: presses of correct clients on a product whose processes, database, clocks and provider fail at random.

`python -m benchmarks.soak` runs it; `run(Options(…))` is the same for tests. No part of it is Django: it speaks to the
product as everybody does, over HTTP, with its commands and, to judge it afterwards, in SQL.
"""

from __future__ import annotations

from benchmarks.soak.engine import run
from benchmarks.soak.plan import FAULTS, Options
from benchmarks.soak.tally import Tally

__all__ = ["FAULTS", "Options", "Tally", "run"]
