"""A run as files: its manifest and, beside it, one JSON file for each run receipt.

    <run>/manifest.json
    <run>/receipt-<receipt>-attempt-<n>.json
    <run>/runs/<child>/…        what a workflow's run opened, each child laid out alike

Every manifest ends with the sha256 of each file below it, so a folder can be verified by whoever holds it alone
(`receipts.export.checking`); the sha256 of the first manifest stands in the audit event, where nobody edits it. The
manifest comes last: files without it are not an export.

Names are made of ids alone, so they are safe wherever they are unpacked.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from receipts import ledger
from receipts.errors import NotFound
from receipts.export.listing import begin_snapshot
from receipts.models import Attempt, Receipt, Run, Verb
from receipts.redaction import redact
from receipts.told import instant, run_json, run_receipt

MANIFEST = "manifest.json"
#: Runs that are read and written at once.
CHUNK = 200
#: Up to here an archive is made in memory, beyond in a file without a name.
IN_MEMORY_BYTES = 1_000_000

Put = Callable[[str, bytes], None]
"""Takes a file: its name below the run's folder, `/` between the parts, and its content."""


class AlreadyThere(Exception):
    """There is something where a run's folder would be; nothing was changed."""


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """Who exports, and why."""

    by: str
    """As the manifest says it."""
    user_id: UUID | None = None
    """None: at the machine, without an account of the product."""
    detail: dict[str, Any] = field(default_factory=dict)
    """What else the audit event should say; redacted here."""


@dataclass(kw_only=True)
class Written:
    """What an export came to."""

    manifest_sha256: str = ""
    run_receipts: int = 0
    runs: int = 0
    files: int = 0


# ── a folder, an archive ─────────────────────────────────────────────────────────────────────────────────────────


def write_folder(run_id: UUID, to: Path, exporter: Exporter) -> tuple[Path, Written]:
    """The run below `to`, in a folder of its own: complete before its name appears.

    The audit event is committed before that: no export is without one.

    Raises: AlreadyThere, NotFound, OSError.
    """
    target = to / str(run_id)
    if os.path.lexists(target):
        raise AlreadyThere(target)
    to.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{run_id}.", dir=to))

    def put(name: str, content: bytes) -> None:
        path = draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    try:
        written = export_run(run_id, put, exporter, form="folder")
        try:
            draft.rename(target)  # replaces nothing but an empty folder
        except OSError:
            if os.path.lexists(target):
                raise AlreadyThere(target) from None
            raise
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target, written


def write_archive(run_id: UUID, exporter: Exporter) -> IO[bytes]:
    """The run as a ZIP file, at its beginning; the audit event is committed. Raises: NotFound."""
    spool = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115 - whoever sends it closes it
    try:
        with zipfile.ZipFile(spool, "w", zipfile.ZIP_DEFLATED) as archive:
            export_run(
                run_id, lambda name, content: archive.writestr(f"{run_id}/{name}", content), exporter, form="zip"
            )
        spool.seek(0)
    except BaseException:
        spool.close()
        raise
    return spool


# ── the files ────────────────────────────────────────────────────────────────────────────────────────────────────


def export_run(run_id: UUID, put: Put, exporter: Exporter, *, form: str) -> Written:
    """Put all files of a run, with its children's, of one moment; record it in the transaction that read them.

    Raises: NotFound.
    """
    with transaction.atomic(durable=True):
        moment = begin_snapshot()
        run = Run.objects.select_related("actor").filter(pk=run_id).first()
        if run is None:
            raise NotFound
        bundle = _Bundle(put, {"exported_at": instant(moment), "by": exporter.by, "zone": "UTC", "complete": True})
        children = Run.objects.select_related("actor").filter(parent=run).order_by("pk").iterator(chunk_size=CHUNK)
        while chunk := list(islice(children, CHUNK)):
            for child, receipts, attempts in _with_receipts(chunk):
                bundle.add(child, receipts, attempts, below=f"runs/{child.pk}/")
        for _, receipts, attempts in _with_receipts([run]):
            bundle.add(run, receipts, attempts)
        written = bundle.written
        detail = {
            "format": form,
            "stage": "complete",
            "runs": written.runs,
            "rows": written.run_receipts,
            "manifest_sha256": written.manifest_sha256,
            **redact(exporter.detail),
        }
        ledger.record(ledger.Event(verb=Verb.EXPORT, actor_id=exporter.user_id, detail=detail), run_id=run.pk)
    return written


class _Bundle:
    """The files as they are put, children first: the last manifest lists all that lies below it."""

    def __init__(self, put: Put, facts: dict[str, Any]) -> None:
        self.written = Written()
        self._put, self._facts = put, facts
        self._files: list[dict[str, Any]] = []
        self._listed: list[dict[str, Any]] = []

    def add(self, run: Run, receipts: list[Receipt], attempts: list[Attempt], *, below: str = "") -> None:
        """One run's files, its manifest last. Without `below` it is the first run, which closes the bundle."""
        own = [
            self._add(f"receipt-{attempt.receipt_id}-attempt-{attempt.attempt}.json", run_receipt(attempt), below)
            for attempt in attempts
        ]
        self.written.run_receipts += len(own)
        self.written.runs += 1
        manifest = run_json(run, receipts)
        if below:
            self._listed += manifest["receipts"]
        else:
            manifest["receipts"] = self._listed + manifest["receipts"]
            own = self._files
        closing = self._add(MANIFEST, manifest | {"export": self._facts, "files": own}, below)
        self.written.manifest_sha256 = closing["sha256"]

    def _add(self, name: str, shown: dict[str, Any], below: str) -> dict[str, Any]:
        content = as_file(shown)
        self._put(below + name, content)
        told = {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        self._files.append({**told, "name": below + name})
        self.written.files = len(self._files)
        return told


def _with_receipts(runs: list[Run]) -> Iterator[tuple[Run, list[Receipt], list[Attempt]]]:
    """Runs with their receipts and what these came to: two queries for all of them."""
    receipts: dict[UUID, list[Receipt]] = defaultdict(list)
    for receipt in Receipt.objects.filter(run__in=runs).order_by("created_at", "pk"):
        receipts[receipt.run_id].append(receipt)
    found = Attempt.objects.filter(receipt__run__in=runs).order_by("receipt__created_at", "receipt_id", "attempt")
    attempts: dict[UUID, list[Attempt]] = defaultdict(list)
    for attempt in found.select_related("actor", "receipt__run", "receipt__on_behalf_of"):
        attempts[attempt.receipt.run_id].append(attempt)
    for run in runs:
        yield run, receipts[run.pk], attempts[run.pk]


def as_file(shown: dict[str, Any]) -> bytes:
    """JSON for people and for diff: indented, keys in their order, a line break at the end."""
    return (json.dumps(shown, indent=2, ensure_ascii=False) + "\n").encode()


def chosen_runs(*, since: Any = None, until: Any = None, workflow: str | None = None) -> QuerySet[Run]:
    """Runs that were started in [since, until), oldest first; what a workflow's run opened goes with it."""
    given = {"started_at__gte": since, "started_at__lt": until, "workflow": workflow}
    asked = Q(**{name: value for name, value in given.items() if value is not None})
    return Run.objects.filter(asked, parent__isnull=True).order_by("pk")
