"""Whether an exported folder is what was exported: offline, from the folder alone.

Finds a file that was changed, removed or added. Whoever can change a file can also write a new manifest: compare the
printed sha256 of the manifest with the one in the ledger's `export` event, or with what was noted elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One run's folder."""

    folder: Path
    differences: tuple[str, ...]
    files: int = 0
    manifest_sha256: str = ""


def check(folder: Path) -> Iterator[Checked]:
    """Each run that was exported into `folder`, or `folder` itself where it is one. Nothing there: one difference."""
    if (folder / MANIFEST).is_file():
        yield _check_run(folder)
        return
    runs = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not runs:
        yield Checked(folder=folder, differences=("holds no exported run",))
    for run in runs:
        yield _check_run(run)


def _check_run(folder: Path) -> Checked:
    try:
        raw = (folder / MANIFEST).read_bytes()
        manifest = json.loads(raw)
        listed = {str(file["name"]): file for file in manifest["files"]}
        complete = manifest["export"]["complete"] is True
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Checked(folder=folder, differences=(f"{MANIFEST} is missing, or is not one",))
    differences = [] if complete else [f"{MANIFEST} does not say that it is complete"]
    differences += [found for name, file in listed.items() if (found := _difference(folder, name, file))]
    there = {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()
    }
    differences += [f"{name}: is not listed" for name in sorted(there - listed.keys() - {MANIFEST})]
    return Checked(
        folder=folder,
        differences=tuple(differences),
        files=len(listed),
        manifest_sha256=hashlib.sha256(raw).hexdigest(),
    )


def _difference(folder: Path, name: str, file: dict[str, Any]) -> str | None:
    """What is wrong with a listed file, in words."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or name.startswith("/"):
        return f"{name}: is no name of a file in this folder"
    path = folder.joinpath(*parts)
    if any(step.is_symlink() for step in (path, *path.parents[: len(parts) - 1])):
        return f"{name}: is a link"
    try:
        with path.open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return f"{name}: is missing"
    return None if found == file.get("sha256") else f"{name}: was changed"
