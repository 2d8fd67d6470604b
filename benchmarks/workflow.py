"""How long a nightly run takes: stale tickets by the thousand, a provider that takes its time, one worker and two.

    .venv/bin/python benchmarks/workflow.py [--tickets 2000] [--delay 1.0] [--in-flight 10] [--rounds 1]

Three arrangements take turns: one worker with MAX_IN_FLIGHT as it is delivered, then one and two workers with as few
calls in flight each that the provider is the limit. Server, database, provider and workers run on this machine, each in
processes of their own; the run is opened when the workers stand ready, and ends with its last receipt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "receipts_project.settings")

#: Tickets as support knows them: four messages, the last one the requester's, four days and more old.
STALE = """
INSERT INTO members (handle, name, active) VALUES ('ada', 'Ada', true), ('grace', 'Grace', true) ON CONFLICT DO NOTHING;
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT 'TCK-%(round)s' || lpad(n::text, 6, '0') AS id, now() - interval '4 days' - n * interval '1 minute' AS at
FROM generate_series(1, %(tickets)s) AS n;
INSERT INTO tickets (id, subject, status, priority, requester_name, requester_email, language, created_at, updated_at)
SELECT id, 'Invoices do not open in the portal', 'open', 'normal', 'Rita', 'rita@example.com', 'en', at, at FROM made;
INSERT INTO messages (ticket_id, author, author_name, body, created_at)
SELECT id, CASE WHEN turn %% 2 = 0 THEN 'requester' ELSE 'support' END, 'Somebody',
       repeat('The portal shows an empty page where the invoice should be. ', 6), at - (4 - turn) * interval '1 hour'
FROM made, generate_series(1, 4) AS turn ORDER BY id, turn;
ANALYZE tickets, messages;
"""


# ── the provider, in a process of its own ────────────────────────────────────────────────────────────────────────


async def provide(port: int, delay: float) -> None:
    """Answer every request after so many seconds, as a stream, about the ticket that it asks about."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
                user = json.loads(await reader.readexactly(length))["messages"][-1]["content"]
                await asyncio.sleep(delay)
                writer.write(answer(json.loads(user)["ticket"]["id"]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=2048)
    print("ready", flush=True)
    await server.serve_forever()


def answer(ticket: str) -> bytes:
    said = json.dumps({"ticket_id": ticket, "summary": "Answer about the invoices that stay empty.", "assignee": "ada"})
    event = {"id": "c", "object": "chat.completion.chunk", "model": "bench", "choices": [{"index": 0}]}
    choices: list[dict[str, Any]] = [{"delta": {"content": said}}, {"delta": {}, "finish_reason": "stop"}]
    events = [json.dumps(event | {"choices": [{"index": 0, **choice}]}) for choice in choices]
    body = "".join(f"data: {line}\n\n" for line in [*events, "[DONE]"]).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


# ── one run ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Arrangement:
    workers: int
    in_flight: int


@dataclass(frozen=True)
class Ended:
    """Seconds since the run was opened, and what it took."""

    opened: float
    first: float
    last: float
    failed: int
    cpu: float
    """Of all the workers, in it."""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(arrangement: Arrangement, number: int, options: argparse.Namespace, url: str, database: str) -> Ended:
    from django.db import connection

    from benchmarks.processes import WORKER, Process, environment, eventually
    from receipts import ledger, runs
    from receipts.models import Run
    from receipts.told import run_progress
    from tickets.workflows import NIGHTLY_STALE_TICKETS

    with connection.cursor() as cursor:
        cursor.execute(STALE % {"round": f"R{number}X", "tickets": options.tickets})
        cursor.execute("DELETE FROM procrastinate_workers")
    environ = environment(database, url, MAX_IN_FLIGHT=str(arrangement.in_flight))
    workers = [Process(*WORKER, environ=environ, bound=True) for _ in range(arrangement.workers)]

    def ready() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM procrastinate_workers")
            return bool(cursor.fetchone()[0] == arrangement.workers)

    try:
        eventually(ready)
        time.sleep(2)  # their first minute's tick is over
        used, begun = sum(cpu_seconds(worker.pid) for worker in workers), time.monotonic()
        run_id = runs.open_now(NIGHTLY_STALE_TICKETS)
        opened = first = 0.0
        while True:
            progress, at = run_progress(Run.objects.get(pk=run_id)), time.monotonic() - begun
            first = first or (at if progress["applied"] else 0.0)
            opened = opened or (at if progress["opened"] == progress["planned"] else 0.0)
            settled = progress["applied"] + progress["failed"]
            print(f"\r{at:5.0f} s  {settled} of {progress['planned']}", end="", file=sys.stderr, flush=True)
            if progress["planned"] is not None and settled == progress["planned"] == options.tickets:
                break
            time.sleep(0.25)
        print(file=sys.stderr)
        ledger.finish_run(run_id)
        cpu = sum(cpu_seconds(worker.pid) for worker in workers) - used
        return Ended(opened, first, at, progress["failed"], cpu)
    finally:
        for worker in workers:
            worker.end()


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────────────────


def table(results: dict[Arrangement, list[Ended]], options: argparse.Namespace) -> str:
    lines = [
        "| workers | in flight each | all opened s | first applied s | all applied s | receipts/s | ratio "
        "| CPU ms a receipt | failed |",
        "|---" * 9 + "|",
    ]
    for arrangement, rounds in results.items():
        middle = sorted(rounds, key=lambda ended: ended.last)[len(rounds) // 2]
        alone = results.get(Arrangement(1, arrangement.in_flight), rounds)
        ratio = statistics.median(ended.last for ended in alone) / middle.last
        lines.append(
            f"| {arrangement.workers} | {arrangement.in_flight} | {middle.opened:.1f} | {middle.first:.1f} "
            f"| {middle.last:.1f} | {options.tickets / middle.last:.0f} | {ratio:.2f} "
            f"| {1000 * middle.cpu / options.tickets:.1f} | {middle.failed} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tickets", type=int, default=2000)
    parser.add_argument("--delay", type=float, default=1.0, help="seconds that the provider takes")
    parser.add_argument("--in-flight", type=int, default=10, help="of each worker, where the provider is the limit")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="+", choices=(1, 2, 3), help="of the three arrangements these")
    parser.add_argument("--provider", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.provider:
        asyncio.run(provide(options.provider, options.delay))
        return

    import subprocess

    from receipts_project import embedded_postgres

    with tempfile.TemporaryDirectory(prefix="receipts-bench-") as folder:
        Path(folder).chmod(0o711)
        server = embedded_postgres.ensure(Path(folder) / "data")
        os.environ["DATABASE_URL"] = server.dsn
        from benchmarks.processes import free_port

        port = free_port()
        provider = subprocess.Popen(
            [sys.executable, __file__, "--provider", str(port), "--delay", str(options.delay)], stdout=subprocess.PIPE
        )
        try:
            assert provider.stdout
            provider.stdout.readline()
            import django
            from django.core.management import call_command

            django.setup()
            call_command("migrate", verbosity=0)
            arrangements = [Arrangement(1, 512), Arrangement(1, options.in_flight), Arrangement(2, options.in_flight)]
            arrangements = [arrangements[number - 1] for number in options.only or (1, 2, 3)]
            results: dict[Arrangement, list[Ended]] = {arrangement: [] for arrangement in arrangements}
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            for number in range(options.rounds):
                for place, arrangement in enumerate(arrangements):
                    print(f"round {number + 1}: {arrangement}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
                    ended = run(arrangement, number * len(arrangements) + place, options, url, server.dsn)
                    results[arrangement].append(ended)
            print(table(results, options))
        finally:
            provider.terminate()
            server.stop()
            embedded_postgres.remove(server.place.data_dir)


if __name__ == "__main__":
    main()
