"""`manage.py export`: runs as folders of JSON, and `--check`: whether such folders are what was exported."""

from __future__ import annotations

import argparse
import datetime as dt
import getpass
import os
import uuid
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from receipts.errors import NotFound
from receipts.export import AlreadyThere, Exporter, check, chosen_runs, write_folder
from receipts.filters import InstantField
from receipts.models import Run


class Command(BaseCommand):
    help = (
        "Writes a folder for each run: manifest.json and, beside it, one JSON file for each run receipt, those of the "
        "runs that it opened included. Never overwrites. With --check, verifies such a folder without a database and "
        "ends with code 1 where a file differs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runs", nargs="*", type=_run_id, metavar="RUN", help="ids of runs")
        parser.add_argument(
            "--since", type=_instant, help="runs started then or later: ISO 8601, UTC without an offset"
        )
        parser.add_argument("--until", type=_instant, help="runs started before then")
        parser.add_argument("--workflow", help="runs of this workflow")
        parser.add_argument("--to", type=Path, metavar="FOLDER", help="where the folders are written; made if missing")
        parser.add_argument("--reason", default="", help="why, for the audit event; redacted")
        parser.add_argument("--check", type=Path, metavar="FOLDER", help="verify a run's folder, or a folder of them")

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = {name: options[name] for name in ("since", "until", "workflow") if options[name] is not None}
        if options["check"] is not None:
            if options["runs"] or chosen or options["to"]:
                raise CommandError("--check takes a folder and nothing else")
            self._check(options["check"])
            return
        if options["to"] is None:
            raise CommandError("--to FOLDER says where to write")
        if bool(options["runs"]) == bool(chosen):
            raise CommandError("name runs, or choose them by --since, --until or --workflow")
        runs = (
            self._named(options["runs"])
            if options["runs"]
            else list(chosen_runs(**chosen).values_list("pk", flat=True))
        )
        self._export(runs, options["to"], options["reason"])

    @staticmethod
    def _named(keys: list[uuid.UUID]) -> list[uuid.UUID]:
        """Each once. Raises: CommandError before anything is written."""
        there = set(Run.objects.filter(pk__in=keys).values_list("pk", flat=True))
        if missing := [str(key) for key in keys if key not in there]:
            raise CommandError(f"there is no run {', '.join(missing)}")
        return list(dict.fromkeys(keys))

    def _export(self, runs: list[uuid.UUID], to: Path, reason: str) -> None:
        if taken := [str(to / str(key)) for key in runs if os.path.lexists(to / str(key))]:
            raise CommandError(f"{taken[0]} is there already; nothing was written")
        person = _os_user()
        detail = {"by": f"{person} at the machine", **({"reason": reason} if reason else {})}
        exporter = Exporter(by=person, detail=detail)
        for key in runs:
            try:
                folder, written = write_folder(key, to, exporter)
            except AlreadyThere:
                raise CommandError(f"{to / str(key)} is there already and was left as it is") from None
            except NotFound:
                raise CommandError(f"there is no run {key}") from None
            except OSError as error:
                raise CommandError(f"{to} cannot be written: {error.strerror or error}") from None
            self.stdout.write(
                f"{folder}  {written.run_receipts} run receipts of {written.runs} runs  "
                f"manifest sha256 {written.manifest_sha256}"
            )
        self.stdout.write(f"{len(runs)} runs exported")

    def _check(self, folder: Path) -> None:
        if not folder.is_dir():
            raise CommandError(f"{folder} is not a folder")
        different = 0
        for found in check(folder):
            if not found.differences:
                self.stdout.write(f"ok  {found.folder}  {found.files} files  manifest sha256 {found.manifest_sha256}")
            for difference in found.differences:
                different += 1
                self.stdout.write(self.style.ERROR(f"DIFFERS  {found.folder}  {difference}"))
        if different:
            raise CommandError(f"{different} difference{'' if different == 1 else 's'} from what was exported")


def _run_id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!a} is not the id of a run") from None


def _instant(text: str) -> dt.datetime:
    try:
        moment = InstantField().to_python(text)
    except ValidationError:
        moment = None
    if moment is None:
        raise argparse.ArgumentTypeError(f"{text!a} is not a moment like 2026-11-30T18:00:00Z")
    return moment


def _os_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user on this machine, as in a container
        return f"uid {os.getuid()}"
