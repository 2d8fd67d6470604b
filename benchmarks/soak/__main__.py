"""`python -m benchmarks.soak`: press, break everything, and tell whether anything was lost or doubled.

Starts a private PostgreSQL, web processes, workers, a provider and a mail server, all on this machine and thrown away
afterwards. Correct clients press: half wait for JSON, a quarter reads a stream, a quarter asks for `respond-async`; a
seventh of them writes e-mails. Scheduled workflows run beside them. Meanwhile:

  kill-web, kill-worker  SIGKILL of a process and its children; a supervisor starts it again half a second later
                         (kill-worker also kills `manage.py run_workflow` twice while it works)
  kill-database          SIGKILL of PostgreSQL's postmaster; started again a second later, and recovers from its log
  pause                  SIGSTOP of a process until its attempts' deadline has passed, then SIGCONT
  skew                   processes whose own wall clock is ten minutes ahead or behind, drawn anew with each start:
                         a sitecustomize on PYTHONPATH shifts time.time and datetime.now in that Python process only
  outage                 the provider refuses connections for a while

The seed repeats the plan: presses, what the provider does with each call, faults and their moments. It does not repeat
the interleaving, which is the machine's. Exit status 1 when a rule is broken, 2 when the soak could not be run.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

from benchmarks.soak import FAULTS, Options, run
from receipts_project.embedded_postgres import EmbeddedPostgresError


def parse(arguments: list[str]) -> tuple[Options, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--filings", type=int, default=500, help="presses, each with its own key (500)")
    parser.add_argument("--minutes", type=float, default=0.0, help="over which they come (eight a second)")
    parser.add_argument("--seed", type=int, help="repeats a plan (drawn, and printed)")
    parser.add_argument("--web", type=int, default=2, help="web processes (2)")
    parser.add_argument("--workers", type=int, default=2, help="workers (2)")
    parser.add_argument("--faults", default=",".join(FAULTS), help=f"which, comma-separated ({','.join(FAULTS)})")
    parser.add_argument("--outage", type=float, default=0.0, metavar="SECONDS", help="of one (a third of the load)")
    parser.add_argument("--stale", type=int, default=40, help="tickets for the scheduled workflows (40; 0: none)")
    parser.add_argument(
        "--hasten", action="store_true", help="afterwards the workers' minute comes every two seconds: less waiting"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tally there")
    given = parser.parse_args(arguments)
    faults = tuple(filter(None, given.faults.split(",")))
    if unknown := set(faults) - set(FAULTS):
        parser.error(f"there is no fault {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    if given.filings < 1 or given.web < 1 or given.workers < 1:
        parser.error("at least one filing, one web process and one worker are needed")
    options = Options(
        filings=given.filings,
        seconds=given.minutes * 60,
        seed=random.SystemRandom().randrange(1, 100_000) if given.seed is None else given.seed,
        webs=given.web,
        workers=given.workers,
        faults=faults,
        outage_seconds=given.outage,
        stale=given.stale,
        hasten=given.hasten,
    )
    return options, given


def main() -> int:
    options, given = parse(sys.argv[1:])
    print(
        f"{options.filings} filings in {options.load_seconds:.0f} s, seed {options.seed}, "
        f"faults: {', '.join(options.faults) or 'none'}",
        flush=True,
    )
    try:
        tally = run(options, say=lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        print("Stopped; nothing was left behind.")
        return 130
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip() or str(error)
        print(f"The soak could not be prepared: {said[-1000:]}", file=sys.stderr)
        return 2
    except (EmbeddedPostgresError, TimeoutError) as error:
        print(f"The soak could not be run: {error}", file=sys.stderr)
        return 2
    print(f"\n{tally}")
    if given.json:
        given.json.write_text(json.dumps(tally.as_json(), indent=2) + "\n")
    if tally.broken:
        print(f"\n{len(tally.broken)} rules are broken. Seed {options.seed} repeats the plan.")
    return 1 if tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
