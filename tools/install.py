"""Make `.venv` and install a lock file into it; quick where that is done already.

    python3 tools/install.py requirements.lock

Standard library only, and readable by Pythons too old for the product, so that they can be refused in a
sentence. What is installed is noted in `.venv/installed.json` as {lock's name: sha256}.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
NOTE = VENV / "installed.json"
#: Stands while pip works. Found at a start, it means that an install was interrupted and may have left half a
#: package.
UNFINISHED = VENV / "unfinished"
#: What else a lock file covers: the development lock holds everything that the product needs.
COVERED_BY = {"requirements.lock": "requirements-dev.lock"}


def main(name: str) -> str | int:
    """Exit status 0, or a sentence on stderr."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this is where older ones are refused
        return f"Python 3.11 or newer is needed, and this is {VERSION}: set PYTHON=/path/to/python3.11"
    wanted = {lock: digest(lock) for lock in (name, COVERED_BY.get(name)) if lock}
    with open(__file__) as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # `make run` and `make test` at once
        if is_installed(wanted):
            return 0
        try:
            return make_venv() or install(name, wanted[name])
        except OSError as error:
            return f"Cannot write {VENV} ({error.strerror})."


def digest(lock: str) -> str:
    return hashlib.sha256((ROOT / lock).read_bytes()).hexdigest()


def is_installed(wanted: dict[str, str]) -> bool:
    """Is one of these {lock: sha256} what the venv holds, and does its Python still run?"""
    if UNFINISHED.exists() or not works(["-c", ""]):
        return False
    try:
        noted = json.loads(NOTE.read_text())
    except (OSError, ValueError):
        return False
    return any(noted.get(lock) == sha for lock, sha in wanted.items())


def works(arguments: list[str]) -> bool:
    try:
        return subprocess.run([str(PYTHON), *arguments], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def make_venv() -> str | None:
    """A venv with pip, anew where there is none or a broken one. Returns a sentence where that fails."""
    if not UNFINISHED.exists() and works(["-m", "pip", "--version"]):
        return None
    try:
        import ensurepip  # noqa: F401 - Debian puts it, and with it a working venv, into a package of its own
        import venv  # noqa: F401
    except ImportError:
        return "Python's venv module is missing: install it (Debian: apt-get install python3-venv)."
    shutil.rmtree(VENV, ignore_errors=True)
    say(f"making .venv with Python {VERSION}")
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"Cannot make .venv:\n{made.stdout}{made.stderr}"
    return None


def install(name: str, sha: str) -> str | int:
    """pip, quiet unless it fails. Returns 0 or a sentence with pip's last lines."""
    count = sum("==" in line for line in (ROOT / name).read_text().splitlines())
    say(f"installing {count} packages from {name} (the first time takes a minute or two)")
    began = time.monotonic()
    UNFINISHED.touch()
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--root-user-action=ignore", "--require-hashes", "-r", str(ROOT / name)]
    pip = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if pip.returncode != 0:
        return "pip failed (network, or disk?). Its last lines:\n" + "\n".join(pip.stdout.splitlines()[-15:])
    NOTE.write_text(json.dumps({name: sha}) + "\n")
    UNFINISHED.unlink()
    say(f"installed in {time.monotonic() - began:.0f} s")
    return 0


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1]))
