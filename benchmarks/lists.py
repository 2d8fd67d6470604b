"""How long the lists take on millions of receipts: every filter, pair of filters, search and range, console and API.

    .venv/bin/python benchmarks/lists.py [--rows 10000000] [--explain]
    DATABASE_URL=… .venv/bin/python benchmarks/lists.py --there      # on receipts that were generated before

Rows come from `manage.py generate_receipts`, into a server of its own that is deleted afterwards. Pages are asked for
through Django's test client, templates and sessions included, once to warm up and five times to measure; a page over
the limit is asked ten times more. Exit status 1 where one is over it at the 95th percentile.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "receipts_project.settings")

LIMIT = 0.300
REPEATS, AGAIN = 5, 10


@dataclass
class Case:
    group: str
    who: str
    address: str
    query: dict[str, str]
    times: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.address} {' '.join(f'{k}={v}' for k, v in self.query.items())} ({self.who})"

    def quantile(self, share: float) -> float:
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def cases() -> Iterator[Case]:
    """Everything that is asked. Values are what the rows hold: of each filter some that are common, and some rare."""
    from receipts.contracts import registry
    from receipts.errors import REASONS
    from receipts.models import Receipt, Run

    newest = Receipt.objects.order_by("-created_at").first()
    old = (
        Receipt.objects.filter(created_at__lt=newest.created_at - dt.timedelta(days=200))
        .order_by("-created_at")
        .first()
    )
    night = Run.objects.filter(workflow="nightly_stale_tickets", parent=None).order_by("-started_at")[3]
    failed = Receipt.objects.filter(status="failed").order_by("-created_at").first()
    day = f"{old.created_at:%Y-%m-%d}"
    one = {
        "status__exact": ["applied", "failed", "pending"],
        "outcome": ["ok", "retryable", "failed"],
        "attention": ["overdue", "unresolved"],
        "error_code": ["fill_failed", "abandoned", "cancelled", "arg_mismatch", "deadline_exceeded", "internal_error"],
        "error_reason": [*REASONS, "-"],
        "within": ["hour", "day", "week", "month"],
        "user": ["generated-001", "generated-200", "scheduler", "nobody"],
        "ticket": ["TCK-1000", old.subject, "TCK-0"],
        "run": [str(old.run_id), str(night.pk)],
        "tool": list(registry.names()),
        "contract": [tool.contract for tool in registry],
        "trigger": ["press", "schedule", "replay", "command"],
        "replay": ["has", "none", "is"],
    }
    ends = {
        "status__exact": ["applied", "pending"],
        "outcome": ["ok", "retryable", "failed"],
        "attention": ["overdue", "unresolved"],
        "error_code": ["fill_failed", "abandoned", "cancelled"],
        "error_reason": ["provider_timeout", "process_died", "provider_quota"],
        "within": ["hour", "month"],
        "user": ["generated-001", "generated-200", "nobody"],
        "ticket": ["TCK-1000", old.subject],
        "run": [str(night.pk)],
        "tool": ["file_followup", "check_contact_email"],
        "contract": ["file_followup@1", "close_ticket@1"],
        "trigger": ["press", "schedule", "replay", "command"],
        "replay": ["has", "none", "is"],
    }
    ranges = [
        {"from": day, "until": f"{old.created_at + dt.timedelta(days=days):%Y-%m-%d}", "zone": zone}
        for days, zone in ((1, "UTC"), (7, "Europe/Helsinki"), (90, "America/New_York"))
    ] + [{"from": day}, {"until": day}, {"from": "2001-01-01", "until": "2001-01-02"}]
    site, api = "/admin/receipts/receipt/", "/api/v1/receipts"
    yield Case("console: list, pages", "auditor", site, {})
    for page in ("2", "11", "20"):
        yield Case("console: list, pages", "auditor", site, {"p": page})
    yield Case("console: list, pages", "auditor", site, {"o": "1"})
    for name, values in one.items():
        for value in values:
            yield Case("console: one filter", "auditor", site, {name: value})
    for (a, some), (b, others) in itertools.combinations(ends.items(), 2):
        for x, y in itertools.product(some, others):
            yield Case("console: two filters", "auditor", site, {a: x, b: y})
    for span in ranges:
        yield Case("console: range", "auditor", site, span)
        for name, values in ends.items():
            if name != "within":
                for value in values:
                    yield Case("console: range and filter", "auditor", site, span | {name: value})
    words = [
        str(old.pk), str(old.run_id), newest.number, old.number, str(old.result_ref or "FUP-1"), old.subject,
        old.input_hash, old.idempotency_key, "nothing like it", "FUP-0", "0" * 16,
    ]  # fmt: skip
    for text in words:
        yield Case("console: search", "auditor", site, {"q": text})
        for name in ("status__exact", "error_code", "user"):
            yield Case("console: search", "auditor", site, {"q": text, name: ends[name][0]})
    for row in (newest, old, failed):
        yield Case("console: a receipt's page", "operator", f"{site}{row.pk}/change/", {})
    for query in ({}, {"within": "hour"}, {"within": "week"}, {"status__exact": "failed"}, ranges[0], ranges[1]):
        yield Case("console: figures", "auditor", f"{site}overview/", query)
    yield Case("console: last night", "operator", f"{site}last-night/", {})
    for kind, filters in {
        "attempt": [{"status": "ok"}, {"status": "failed"}, {"status": "retryable"}],
        "run": [{"trigger": "press"}, {"trigger": "replay"}, {"trigger": "schedule"}, {"trigger": "command"}],
        "auditevent": [{"verb": "retry"}, {"verb": "replay"}, {"verb": "purge"}, {"verb": "retarget_refused"}],
        "bulkreplay": [],
        "sealedinput": [],
    }.items():
        for query in ({}, {"p": "20"}, *filters):
            yield Case("console: other lists", "admin", f"/admin/receipts/{kind}/", query)
            for span in ("hour", "week", "month") if filters and "p" not in query else ():
                yield Case("console: other lists", "admin", f"/admin/receipts/{kind}/", {**query, "within": span})

    told = {
        "status": ["applied", "failed", "pending"],
        "outcome": ["ok", "retryable", "failed"],
        "error_code": ["fill_failed", "abandoned", "cancelled"],
        "error_reason": ["provider_timeout", "process_died", "provider_quota"],
        "tool": ["file_followup", "check_contact_email"],
        "contract": ["file_followup@1", "close_ticket@1", "close_ticket@9"],
        "ticket_id": ["TCK-1000", old.subject],
        "user": ["generated-001", "generated-200", "nobody"],
        "overdue": ["true", "false"],
        "input_hash": [old.input_hash, "0" * 16],
        "run": [str(night.pk), str(old.run_id)],
        "idempotency_key": [old.idempotency_key, "not-there"],
        "created_after": [f"{old.created_at:%Y-%m-%dT%H:%M:%SZ}"],
        "created_before": [f"{old.created_at:%Y-%m-%dT%H:%M:%SZ}", "2001-01-01T00:00:00Z"],
    }
    for who in ("auditor", "generated-001", "generated-200"):
        yield Case("API: receipts", who, api, {})
        yield Case("API: receipts", who, api, {"page_size": "200"})
        for name, values in told.items():
            for value in values:
                yield Case("API: one filter", who, api, {name: value})
        for (a, some), (b, others) in itertools.combinations(told.items(), 2):
            for x, y in itertools.product(some[:2] if who != "auditor" else some, others[:2]):
                yield Case("API: two filters", who, api, {a: x, b: y})
        for query in (
            {},
            {"trigger": "press"},
            {"trigger": "command"},
            {"workflow": "nightly_stale_tickets"},
            {"workflow": "x"},
        ):
            yield Case("API: runs", who, "/api/v1/runs", query)
        yield Case("API: runs", who, "/api/v1/runs", {"parent": str(night.pk)})


def ask(clients: dict[str, Any], case: Case, repeats: int) -> None:
    for _time in range(repeats):
        begun = time.perf_counter()
        response = clients[case.who].get(case.address, case.query)
        if response.streaming:
            b"".join(response.streaming_content)
        case.times.append(time.perf_counter() - begun)
        assert response.status_code == 200, (case.name, response.status_code, response.content[:200])


def explain(clients: dict[str, Any], case: Case) -> None:
    """The page's slowest statement, with its plan."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as seen:
        clients[case.who].get(case.address, case.query)
    slowest = max(seen, key=lambda query: float(query["time"]))
    print(f"\n{case.name}\n{slowest['time']} s: {slowest['sql'][:1500]}")
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS) " + slowest["sql"])
        print("\n".join(row[0] for row in cursor.fetchall()[:25]))


def measure(options: argparse.Namespace) -> int:
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import Group
    from django.test import Client

    from receipts_project.accounts.models import User

    settings.ALLOWED_HOSTS = ["*"]
    settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
    groups = {
        "auditor": "Auditors",
        "operator": "Operators",
        "generated-001": "Support leads",
        "generated-200": "Support leads",
    }
    clients = {}
    for name in (*groups, "admin"):
        user, _created = User.objects.get_or_create(username=name)
        User.objects.filter(pk=user.pk).update(
            is_staff=not name.startswith("generated"), is_superuser=name == "admin", is_active=True
        )
        if name in groups:
            user.groups.add(Group.objects.get(name=groups[name]))
        clients[name] = Client()
        clients[name].force_login(user, backend="receipts_project.accounts.backends.RoleBackend")
    asked = [case for case in cases() if not options.only or options.only in case.group]
    slow: list[Case] = []
    print("| what | pages | p50 ms | p95 ms | the slowest page's p95 ms |\n|---|---|---|---|---|", flush=True)
    asked.sort(key=lambda case: case.group)
    for group, members in itertools.groupby(asked, key=lambda case: case.group):
        held = list(members)
        for case in held:
            ask(clients, case, 1)
            case.times.clear()
            ask(clients, case, REPEATS)
            if case.quantile(0.95) > LIMIT:
                case.times.clear()
                ask(clients, case, AGAIN)
        times = sorted(time for case in held for time in case.times)
        p50, p95 = (times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.95))
        worst = max(case.quantile(0.95) for case in held)
        print(f"| {group} | {len(held)} | {p50 * 1000:.0f} | {p95 * 1000:.0f} | {worst * 1000:.0f} |", flush=True)
        for case in held:
            if case.quantile(0.95) > LIMIT:
                slow.append(case)
                figures = f"p50 {case.quantile(0.5) * 1000:.0f}, p95 {case.quantile(0.95) * 1000:.0f}"
                print(f"over {LIMIT * 1000:.0f} ms: {figures} {case.name}", file=sys.stderr, flush=True)
    slow.sort(key=lambda case: -case.quantile(0.95))
    if options.explain:
        for case in slow[: options.explain]:
            explain(clients, case)
    print(f"\n{len(asked)} pages, {len(slow)} over {LIMIT * 1000:.0f} ms; load average {os.getloadavg()[0]:.1f}")
    return 1 if slow else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--there", action="store_true", help="measure on what DATABASE_URL holds")
    parser.add_argument("--only", help="groups whose name holds this")
    parser.add_argument("--explain", type=int, nargs="?", const=5, default=0, help="plans of the slowest so many")
    options = parser.parse_args()
    if options.there:
        return measure(options)
    from receipts_project import embedded_postgres

    # as a server of that size would have it; nothing is flushed to disk, for it is thrown away
    embedded_postgres.NOT_DURABLE |= {"shared_buffers": "4GB", "max_wal_size": "16GB", "maintenance_work_mem": "512MB"}
    with tempfile.TemporaryDirectory(prefix="receipts-bench-") as folder:
        Path(folder).chmod(0o711)
        server = embedded_postgres.ensure(Path(folder) / "data", durable=False)
        os.environ["DATABASE_URL"] = server.dsn
        try:
            import django
            from django.core.management import call_command

            django.setup()
            call_command("migrate", verbosity=0)
            call_command("generate_receipts", options.rows)
            return measure(options)
        finally:
            server.stop()
            embedded_postgres.remove(server.place.data_dir)


if __name__ == "__main__":
    sys.exit(main())
