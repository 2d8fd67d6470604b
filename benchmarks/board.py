"""What a look at the board costs the server: the view in this process, real rows in a private PostgreSQL.

    .venv/bin/python benchmarks/board.py
    .venv/bin/python benchmarks/board.py --tickets 50000 --looks 50

Makes the rows itself in a server of its own, which is removed at the end: tickets with conversations, most of them
with receipts and follow-ups. Prints the median and 95th percentile of each kind of look in milliseconds of server
time: from the request's arrival to the last byte, middleware, session and templates included, network and browser not.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "receipts_project.settings")

MEMBERS = 12
MESSAGES = 4
#: Of ten tickets so many have receipts: one to three each, of which every eighth failed.
PRESSED = 7
WORDS = [
    "invoice",
    "login",
    "SSO",
    "certificate",
    "export",
    "webhook",
    "billing",
    "seat",
    "report",
    "access",
    "timeout",
    "migration",
]

LOOKS = {
    "columns": "/?view=columns",
    "list": "/?view=list",
    "second page of the list": "",
    "search, three words": "/?q=sso+export+rita",
    "search that finds nothing": "/?q=unicorn",
    "waiting on us": "/?waiting=us",
    "of one assignee": "/?assignee=m3",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tickets", type=int, default=5000)
    parser.add_argument("--looks", type=int, default=60, help="of each kind; the first ten are not counted")
    options = parser.parse_args()

    from receipts_project import embedded_postgres

    with tempfile.TemporaryDirectory(prefix="receipts-board-") as folder:
        Path(folder).chmod(0o711)  # as root, the user that PostgreSQL runs as must get through
        server = embedded_postgres.ensure(Path(folder) / "data")
        os.environ["DATABASE_URL"] = server.dsn
        try:
            run(options)
        finally:
            server.stop()
            embedded_postgres.remove(server.place.data_dir)


def run(options: argparse.Namespace) -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection

    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", verbosity=0)
    client = fill(options.tickets)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    measure(client, options.looks)
    connection.close()
    connection.close_pool()


def fill(tickets: int) -> Any:
    """Rows by bulk: the ledger's own writer would take minutes. Answers a signed-in lead's client."""
    from django.contrib.auth.models import Group
    from django.test import Client
    from django.utils import timezone

    from receipts_project.accounts.models import User
    from receipts_project.accounts.roles import LEADS
    from tickets.models import Member, Message, Ticket

    rng, now = random.Random(5), timezone.now()
    leads = [User.objects.create_user(f"lead{number}", first_name=f"Lead {number}") for number in range(12)]
    for lead in leads:
        lead.groups.add(Group.objects.get(name=LEADS))
    Member.objects.bulk_create(Member(handle=f"m{number}", name=f"Member {number}") for number in range(MEMBERS))
    rows = [
        Ticket(
            id=f"TCK-{10_000 + number}",
            subject=" ".join(rng.sample(WORDS, 5)).capitalize(),
            status=rng.choices(["open", "waiting", "closed"], [3, 2, 5])[0],
            priority=rng.choice(["low", "normal", "high"]),
            assignee_id=rng.choice([None, *(f"m{member}" for member in range(MEMBERS))]),
            requester_name=f"{rng.choice(['Rita', 'Henrik', 'Amara', 'Jo'])} {number}",
            requester_email="rita@example.com",
            created_at=now - dt.timedelta(days=90),
            updated_at=now - dt.timedelta(minutes=rng.randrange(90 * 1440)),
        )
        for number in range(tickets)
    ]
    Ticket.objects.bulk_create(rows, batch_size=2000)
    Message.objects.bulk_create(
        (
            Message(
                ticket=row,
                author=rng.choice(["requester", "support"]),
                author_name="Rita",
                body="It still does not work. " * 8,
                created_at=row.updated_at,
            )
            for row in rows
            for _ in range(MESSAGES)
        ),
        batch_size=5000,
    )
    receipts = press(rows, leads, rng)
    print(f"{tickets:,} tickets, {MESSAGES * tickets:,} messages, {receipts:,} receipts")
    client = Client()
    client.force_login(leads[0])
    return client


def press(tickets: list[Any], leads: list[Any], rng: random.Random) -> int:
    """Receipts with their runs, and the follow-ups of those that were applied."""
    from receipts.ids import uuid7
    from receipts.models import Receipt, Run
    from tickets.models import Followup

    runs, receipts, followups = [], [], []
    for ticket in tickets:
        if rng.randrange(10) >= PRESSED:
            continue
        for _ in range(rng.randrange(1, 4)):
            number, lead = len(receipts), rng.choice(leads)
            at = ticket.updated_at - dt.timedelta(minutes=rng.randrange(1000))
            run = Run(
                workflow="file_followup", trigger="press", actor=lead, started_at=at, manifest={"app_version": "1"}
            )
            pk, failed = uuid7(), number % 8 == 0
            receipt = Receipt(
                id=pk,
                root_id=pk,
                user=lead,
                actor=lead,
                run=run,
                idempotency_key=f"benchmark-{number}",
                request_fingerprint=number.to_bytes(32, "big"),
                tool_name="file_followup",
                contract_version=1,
                contract_sha256="0" * 64,
                effect="write",
                subject=ticket.pk,
                input_hash=f"{number:016x}",
                arguments_json={}
                if failed
                else {"ticket_id": ticket.pk, "summary": "Call them. " * 10, "assignee": "m1"},
                status="failed" if failed else "applied",
                started_at=at,
                deadline_at=at,
                settled_at=at,
                applied_at=None if failed else at,
                created_at=at,
                http_status=502 if failed else 201,
                error_code="fill_failed" if failed else None,
                error_reason="provider_timeout" if failed else None,
                retryable=True if failed else None,
                result_ref=None if failed else f"FUP-{number}",
            )
            runs.append(run)
            receipts.append(receipt)
            if not failed:
                followups.append(
                    Followup(
                        id=f"FUP-{number}",
                        ticket=ticket,
                        summary="Call them. " * 10,
                        assignee="m1",
                        created_by=lead,
                        receipt=receipt,
                        created_at=at,
                    )
                )
    Run.objects.bulk_create(runs, batch_size=2000)
    Receipt.objects.bulk_create(receipts, batch_size=2000)
    Followup.objects.bulk_create(followups, batch_size=2000)
    return len(receipts)


def measure(client: Any, looks: int) -> None:
    import re

    older = re.search(r'rel="next" href="([^"]+)"', client.get("/?view=list").content.decode())
    assert older
    kinds = LOOKS | {"second page of the list": older[1].replace("&amp;", "&")}
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {looks} looks each\n")
    print("| look | median ms | p95 ms | CPU ms of the web process | kB |\n|---|---|---|---|---|")
    for name, address in kinds.items():
        row(name, looks, lambda address=address: client.get(address))
    etag = client.get("/?view=columns")["ETag"]
    row("nothing new (304)", looks, lambda: client.get("/?view=columns", headers={"If-None-Match": etag}))


def row(name: str, looks: int, look: Any) -> None:
    took, worked = [], []
    for _ in range(looks + 10):
        begun, idle = time.perf_counter(), time.process_time()
        answer = look()
        took.append(1000 * (time.perf_counter() - begun))
        worked.append(1000 * (time.process_time() - idle))
    assert answer.status_code in (200, 304)
    counted = sorted(took[10:])
    p95 = statistics.quantiles(counted, n=20)[-1]
    cpu = statistics.median(worked[10:])
    size = len(answer.content) / 1000
    print(f"| {name} | {statistics.median(counted):.0f} | {p95:.0f} | {cpu:.0f} | {size:.0f} |", flush=True)


if __name__ == "__main__":
    main()
