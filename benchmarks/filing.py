"""Filings a second and latency, of several servers side by side. Prints one table with ratios to the first target.

    python benchmarks/filing.py --target receipts=http://127.0.0.1:8000/api/v1/tickets/TCK-1008/followups \\
        --header 'receipts=Authorization: Token …' --target peer=http://127.0.0.1:9201/tickets/TCK-1008/followups \\
        --rounds 3 --duration 8 [--concurrency 16 | --rate 60]

Targets take turns, round by round, so that whatever else the machine does hits them alike; the median round counts.
Closed loop with `--concurrency`, open loop (arrivals a second, whatever the answers) with `--rate`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

BODY = json.dumps({"ticket_id": "TCK-1008", "notes": "Customer still blocked on SSO."})


@dataclass
class Round:
    seconds: float
    answers: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """Seconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@dataclass
class Target:
    name: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)


async def press(session: aiohttp.ClientSession, target: Target, into: Round) -> None:
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4()), **target.headers}
    begun = time.perf_counter()
    try:
        async with session.post(target.url, data=BODY, headers=headers) as answer:
            await answer.read()
            status = str(answer.status)
    except (aiohttp.ClientError, TimeoutError) as error:
        status = type(error).__name__
    into.answers[status] += 1
    if status in ("200", "201"):
        into.latencies.append(time.perf_counter() - begun)


async def load(target: Target, options: argparse.Namespace) -> Round:
    result = Round(0)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        begun = time.perf_counter()
        end = begun + options.duration
        if options.rate:
            tasks: list[asyncio.Task[None]] = []
            while (now := time.perf_counter()) < end:
                due = begun + len(tasks) / options.rate
                await asyncio.sleep(max(0.0, due - now))
                tasks.append(asyncio.create_task(press(session, target, result)))
            await asyncio.gather(*tasks)
        else:

            async def loop() -> None:
                while time.perf_counter() < end:
                    await press(session, target, result)

            await asyncio.gather(*(loop() for _ in range(options.concurrency)))
        result.seconds = time.perf_counter() - begun
    return result


def table(targets: list[Target]) -> str:
    lines = ["| target | filings/s | ratio | p50 ms | p95 ms | p99 ms | answers |", "|---|---|---|---|---|---|---|"]
    rates = {target.name: statistics.median(r.per_second for r in target.rounds) for target in targets}
    for target in targets:
        middle = sorted(target.rounds, key=lambda r: r.per_second)[len(target.rounds) // 2]
        shown = ", ".join(f"{count}×{status}" for status, count in sorted(middle.answers.items()))
        ratio = rates[targets[0].name] / rates[target.name] if rates[target.name] else float("nan")
        times = " | ".join(f"{middle.quantile(share) * 1000:.0f}" for share in (0.5, 0.95, 0.99))
        lines.append(f"| {target.name} | {rates[target.name]:.0f} | {ratio:.2f} | {times} | {shown} |")
    return "\n".join(lines)


def parse(arguments: list[str]) -> tuple[list[Target], argparse.Namespace]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", required=True, metavar="NAME=URL")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=HEADER: VALUE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--duration", type=float, default=8, help="seconds a round")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--rate", type=float, default=0, help="arrivals a second; 0: closed loop")
    options = parser.parse_args(arguments)
    targets = {name: Target(name, url) for name, url in (text.split("=", 1) for text in options.target)}
    for text in options.header:
        name, header = text.split("=", 1)
        key, value = header.split(": ", 1)
        targets[name].headers[key] = value
    return list(targets.values()), options


async def main() -> None:
    targets, options = parse(sys.argv[1:])
    for number in range(options.rounds):
        for target in targets:
            target.rounds.append(await load(target, options))
            print(f"round {number + 1}: {target.name} {target.rounds[-1].per_second:.0f}/s", file=sys.stderr)
    print(table(targets))


if __name__ == "__main__":
    asyncio.run(main())
