"""Many fills in flight in one worker: how long each takes, and what memory that costs. Prints one table.

    python -m benchmarks.worker [--fills 500] [--hold 5] [--rounds 3]

Queues the fills over HTTP (`Prefer: respond-async`); then one worker starts, with MAX_IN_FLIGHT=512, on a provider that
waits `--hold` seconds and answers. Times are the ledger's own: of each attempt from its begin to its settled row; and
from the first begin of all, when the queue was let go, to each settled row. Memory is the worker's resident set.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass

import aiohttp

from benchmarks.processes import WORKER, Process, resident_mb
from benchmarks.soak.plan import Options
from benchmarks.soak.product import Product
from receipts.standin import StandIn

IN_FLIGHT = 512
SETTINGS = {
    "MAX_IN_FLIGHT": str(IN_FLIGHT),
    "FILL_BUDGET_SECONDS": "20",
    "ATTEMPT_DEADLINE_SECONDS": "30",
    "DATABASE_POOL_SIZE": "12",
}

_TIMES = """
SELECT percentile_disc(ARRAY[0.5, 0.95, 0.99, 1.0]) WITHIN GROUP (ORDER BY took) AS took,
       percentile_disc(ARRAY[0.5, 0.95, 0.99, 1.0]) WITHIN GROUP (ORDER BY since_gate) AS since_gate,
       extract(epoch FROM max(started_at) - min(started_at))::float8, count(*) FILTER (WHERE status = 'applied')
FROM (SELECT extract(epoch FROM settled_at - started_at)::float8 AS took, started_at, status,
             extract(epoch FROM settled_at - min(started_at) OVER ())::float8 AS since_gate
      FROM tool_receipts WHERE idempotency_key LIKE %s) AS r
"""


@dataclass
class Round:
    took: list[float]
    since_gate: list[float]
    begun_within: float
    applied: int
    rss_before: float
    rss_most: float
    in_flight_most: int

    def row(self) -> str:
        shown = " | ".join(f"{seconds:.2f}" for seconds in (*self.took, *self.since_gate, self.begun_within))
        return f"| {self.in_flight_most} | {shown} | {self.rss_before:.0f} | {self.rss_most:.0f} | {self.applied} |"


HEAD = (
    "| in flight | p50 s | p95 s | p99 s | max s | gate p50 s | p95 s | p99 s | max s | begun within s "
    "| idle MB | most MB | applied |\n|" + "---|" * 13
)


async def queue(product: Product, desk: dict[str, list[str]], fills: int, number: int) -> None:
    """Press so often, sixteen at a time, and leave everything to a worker."""
    turns = asyncio.Semaphore(16)
    base = product.webs[0].base

    async def press(session: aiohttp.ClientSession, fill: int) -> None:
        headers = {
            "Idempotency-Key": f"worker-{number}-{fill}",
            "Authorization": f"Token {desk['tokens'][fill % len(desk['tokens'])]}",
            "Prefer": "respond-async",
        }
        ticket = desk["tickets"][fill % len(desk["tickets"])]
        address = f"{base}/api/v1/tickets/{ticket}/followups"
        body = {"notes": "Customer still blocked on SSO."}
        async with turns, session.post(address, json=body, headers=headers) as answer:
            assert answer.status == 202, await answer.text()

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(press(session, fill) for fill in range(fills)))


async def work(product: Product, standin: StandIn, fills: int, number: int) -> Round:
    pattern, log = f"worker-{number}-%", product.log("worker")
    worker = Process(*WORKER, environ=product.environ, log=log, bound=True)
    before, most, in_flight = 0.0, 0.0, 0
    unsettled = "SELECT count(*) FROM tool_receipts WHERE idempotency_key LIKE %s AND status = 'pending'"
    calls_before = standin.calls
    looks = 0
    try:
        while True:
            now = resident_mb(worker.pid)
            before = now if standin.calls == calls_before else before
            most = max(most, now)
            looks += 1
            if looks % 10 == 0:
                left = (await product.ask(unsettled, pattern))[0][0]
                in_flight = max(in_flight, standin.calls - calls_before - (fills - left))
                if not left:
                    break
            assert not worker.ended, log.read_text()[-500:]
            await asyncio.sleep(0.02)
    finally:
        worker.end()
    took, since_gate, begun_within, applied = (await product.ask(_TIMES, pattern))[0]
    return Round(took, since_gate, begun_within, applied, before, most, in_flight)


async def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fills", type=int, default=500)
    parser.add_argument("--hold", type=float, default=5.0, help="seconds before the provider answers")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    standin = StandIn(delay=given.hold)
    async with standin.listening() as url:
        options = Options(webs=1, workers=0, faults=(), stale=0)
        async with Product(options, url, **SETTINGS) as product:
            desk = await product.desk()
            await product.start()
            print(HEAD)
            for number in range(given.rounds):
                await queue(product, desk, given.fills, number)
                print((await work(product, standin, given.fills, number)).row(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
