"""What a command learns from the instance that runs for the same DATA_DIR.

`make run` gives the stand-in provider whatever port is free. A command beside it has the same environment and
nothing more, so the address is noted in DATA_DIR.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from pathlib import Path
from urllib.parse import urlsplit

BASE_DIR = Path(__file__).resolve().parent.parent


def data_dir_of(environ: MutableMapping[str, str]) -> Path:
    """DATA_DIR as an absolute path, default `var` in the checkout: the same rule as in settings."""
    return Path(environ.get("DATA_DIR") or BASE_DIR / "var").absolute()


def note_standin(data_dir: Path, url: str) -> None:
    draft = data_dir / f".standin_url.{os.getpid()}"
    draft.write_text(url + "\n")
    draft.replace(data_dir / "standin_url")


def forget_standin(data_dir: Path, url: str) -> None:
    """Remove the note unless another instance has replaced it."""
    if noted_standin(data_dir) == url:
        (data_dir / "standin_url").unlink(missing_ok=True)


def noted_standin(data_dir: Path) -> str | None:
    try:
        return (data_dir / "standin_url").read_text().strip() or None
    except OSError:
        return None


def use_standin_of_running_instance(environ: MutableMapping[str, str]) -> None:
    """Set COMPLETIONS_URL to the running instance's stand-in, if one is noted and answers."""
    if environ.get("COMPLETIONS_URL"):
        return
    url = noted_standin(data_dir_of(environ))
    if url is None:
        return
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), timeout=0.5).close()
    except OSError:
        return  # that instance was killed
    environ.update(COMPLETIONS_URL=url, STANDIN_PROVIDER="true")
