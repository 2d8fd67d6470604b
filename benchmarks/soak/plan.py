"""What a soak sets out to do: its options, and the faults of its seed, each at its moment."""

from __future__ import annotations

import random
from dataclasses import dataclass

#: What can be made to fail, by the name that the command takes.
FAULTS = ("kill-web", "kill-worker", "kill-database", "pause", "skew", "outage")
#: Times that one fault comes back within a minute of load. `skew` is no moment: it is there from the start.
PER_MINUTE = {"kill-web": 5.0, "kill-worker": 5.0, "kill-database": 2.0, "pause": 2.0, "outage": 1.0}
#: How wrong a clock goes.
SKEW_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Options:
    filings: int = 500
    """Presses, each with its own key."""
    seconds: float = 0.0
    """Over which they come; 0: eight a second."""
    seed: int = 1
    webs: int = 2
    workers: int = 2
    faults: tuple[str, ...] = FAULTS
    outage_seconds: float = 0.0
    """Of one outage; 0: a third of the load's time, a minute at most."""
    stale: int = 40
    """Tickets that the scheduled workflows find; half of them come in the middle of the load."""
    latency: float = 0.4
    """Median seconds of the provider."""
    fill_budget: float = 4.0
    deadline: float = 8.0
    """Seconds of an attempt; short, so that a pause outlives it."""
    hasten: bool = False
    """The workers' minute (sweep, dead workers' jobs, schedules) comes every two seconds once the load is over."""
    quiet_seconds: float = 420.0
    """How long it may take afterwards until nothing is under way any more."""

    @property
    def load_seconds(self) -> float:
        return self.seconds or max(15.0, self.filings / 8)

    @property
    def one_outage(self) -> float:
        return self.outage_seconds or min(60.0, self.load_seconds / 3)


@dataclass(frozen=True, kw_only=True)
class Fault:
    at: float
    """Seconds after the load's begin."""
    kind: str
    target: int
    """Which of the processes concerned, by number; taken modulo how many there are."""
    seconds: float = 0.0
    """How long it lasts, where it lasts."""


def plan(options: Options) -> list[Fault]:
    """The faults of this seed, in their order. The same seed and options give the same plan."""
    chance = random.Random(f"{options.seed} plan")
    span = options.load_seconds
    lasts = {"pause": options.deadline + 2.0, "outage": options.one_outage, "kill-database": 1.0}
    faults = []
    for kind in (kind for kind in FAULTS if kind in options.faults and kind in PER_MINUTE):
        for _ in range(max(1, round(PER_MINUTE[kind] * span / 60))):
            at = chance.uniform(0.1, 0.75) * span
            faults.append(Fault(at=at, kind=kind, target=chance.randrange(12), seconds=lasts.get(kind, 0.0)))
    return sorted(faults, key=lambda fault: fault.at)


def skew_of(options: Options, slot: str, start: int) -> int:
    """Seconds by which the clock of a process is wrong; drawn anew with each of its starts."""
    if "skew" not in options.faults:
        return 0
    return random.Random(f"{options.seed} skew {slot} {start}").choice((-SKEW_SECONDS, 0, SKEW_SECONDS))
