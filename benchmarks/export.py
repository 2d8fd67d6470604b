"""Rows a second and peak memory of an export, on generated receipts in a server of its own.

    .venv/bin/python benchmarks/export.py [--rows 200000]

Rows are inserted by SQL past the flow but under the ledger's guards: runs, receipts, attempts, as a press leaves them.
Each export runs in a process of its own, whose peak memory is then its.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "receipts_project.settings")

#: One in four failed; every receipt has a run and one attempt, as large as a short draft makes them.
GENERATE = """
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
SELECT n, gen_random_uuid() AS id, gen_random_uuid() AS run, gen_random_uuid() AS attempt,
       now() - n * interval '1 second' AS at, n %% 4 = 0 AS failed,
       jsonb_build_object('ticket_id', 'TCK-' || n %% 5000, 'assignee', 'ada',
         'summary', 'Customer is still blocked on the SSO login; check the certificate, then call back. ' || n) AS said
FROM generate_series(1, %(rows)s) AS n;
INSERT INTO runs (id, workflow, trigger, actor_id, started_at, manifest)
SELECT run, 'file_followup', 'press', %(user)s, at, '{"app_version": "0.1.0"}' FROM made;
INSERT INTO tool_receipts (id, user_id, actor_id, idempotency_key, request_fingerprint, run_id, tool_name,
  contract_version, contract_sha256, effect, subject, input_hash, arguments_json, status, attempt, started_at,
  deadline_at, settled_at, applied_at, created_at, http_status, error_code, error_reason, retryable, result_ref,
  context_moved, root_id, model, provider_host, finish_reason, prompt_tokens, completion_tokens, fill_ms, apply_ms)
SELECT id, %(user)s, %(user)s, 'generated-' || n, '\\x00', run, 'file_followup', 1, repeat('a', 64), 'write',
  said ->> 'ticket_id', lpad(to_hex(n), 16, '0'), CASE WHEN failed THEN '{}' ELSE said END,
  CASE WHEN failed THEN 'failed' ELSE 'applied' END, 1, at, at + interval '30 s', at + interval '2 s',
  CASE WHEN NOT failed THEN at + interval '2 s' END, at, CASE WHEN failed THEN 422 ELSE 201 END,
  CASE WHEN failed THEN 'arg_mismatch' END, NULL, CASE WHEN failed THEN false END,
  CASE WHEN NOT failed THEN 'FUP-' || n END, false, id, 'gpt-4o-mini', 'provider.test', 'stop', 700, 60, 1800, 4
FROM made;
INSERT INTO attempts (id, receipt_id, attempt, actor_id, started_at, finished_at, status, http_status, error_code,
  replayable, model_decision, tool_result)
SELECT attempt, id, 1, %(user)s, at, at + interval '2 s', CASE WHEN failed THEN 'failed' ELSE 'ok' END,
  CASE WHEN failed THEN 422 ELSE 201 END, CASE WHEN failed THEN 'arg_mismatch' END, failed,
  jsonb_build_object('proposed', said, 'gate', CASE WHEN failed THEN 'retarget' END, 'model', 'gpt-4o-mini',
    'provider_host', 'provider.test', 'finish_reason', 'stop', 'mode', 'json_schema', 'prompt_sha256', repeat('b', 64),
    'wire_schema_sha256', repeat('c', 64), 'calls', 1,
    'usage', '{"prompt_tokens": 700, "completion_tokens": 60}'::jsonb),
  jsonb_build_object('effect', 'write', 'result_ref', CASE WHEN NOT failed THEN 'FUP-' || n END, 'error', NULL)
FROM made;
"""


def fill(rows: int) -> None:
    """Migrate, one person, the rows; then what autovacuum would do."""
    import django
    from django.core.management import call_command
    from django.db import connection

    django.setup()
    call_command("migrate", verbosity=0)
    from receipts_project.accounts.models import User

    user = User.objects.create_user("auditor", is_superuser=True)
    begun = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute(GENERATE, {"rows": rows, "user": user.pk})
        cursor.execute("VACUUM ANALYZE tool_receipts, attempts, runs")
    print(f"{rows} rows made in {time.perf_counter() - begun:.0f} s", file=sys.stderr)


def export(name: str) -> dict[str, object]:
    """One whole export, as the API streams it, its bytes counted and thrown away."""
    import django

    django.setup()
    from receipts.export import FORMATS, ReceiptExport
    from receipts.models import AuditEvent, Receipt
    from receipts_project.accounts.models import User

    rows = Receipt.objects.order_by("-created_at", "-id")
    user = User.objects.get(username="auditor")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun, worked = time.perf_counter(), time.process_time()
    stream, size, first = ReceiptExport(rows, FORMATS[name], user=user, chosen={}), 0, 0.0
    for data in stream:
        size += len(data)
        first = first or (time.perf_counter() - begun if data else 0.0)
    stream.close()
    seconds, worked = time.perf_counter() - begun, time.process_time() - worked
    count = AuditEvent.objects.filter(detail__stage="complete").latest("id").detail["rows"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "format": name,
        "rows": count,
        "rows/s": round(count / seconds),
        "rows a CPU second": round(count / worked),
        "MB": round(size / 1e6),
        "first byte ms": round(first * 1000),
        "peak RSS MB": round(peak / 1024),
        "of it before": round(before / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--export", metavar="FORMAT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.export:
        print(json.dumps(export(options.export)))
        return
    from receipts_project import embedded_postgres

    with tempfile.TemporaryDirectory(prefix="receipts-bench-") as folder:
        Path(folder).chmod(0o711)
        server = embedded_postgres.ensure(Path(folder) / "data", durable=False)
        os.environ["DATABASE_URL"] = server.dsn
        try:
            fill(options.rows)
            for number, name in enumerate(("jsonl", "csv", "jsonl", "csv")):
                out = subprocess.run([sys.executable, __file__, "--export", name], stdout=subprocess.PIPE, check=True)
                told = json.loads(out.stdout)
                if number == 0:
                    print("| " + " | ".join(told) + " |\n" + "|---" * len(told) + "|")
                print("| " + " | ".join(str(value) for value in told.values()) + " |", flush=True)
        finally:
            server.stop()
            embedded_postgres.remove(server.place.data_dir)


if __name__ == "__main__":
    main()
