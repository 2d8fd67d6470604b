"""What must hold before anything slow begins. Each check raises one sentence for the person at the terminal."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from receipts_project.database_check import DatabaseUnusableError, require_database


class LaunchError(Exception):
    """The product cannot start. The text is one sentence that says what to do."""


def require_port(environ: Mapping[str, str]) -> int:
    """PORT, default 8000. Raises: LaunchError where it is no port number."""
    text = environ.get("PORT") or "8000"
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise LaunchError(f"PORT must be a number from 1 to 65535, not {text!r}.")
    return int(text)


def require_free_port(host: str, port: int) -> None:
    """Raises: LaunchError where somebody listens there already, or we may not."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the server does: closed connections linger and are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise LaunchError(
                f"Port {port} is taken: stop what listens there, or choose another: PORT={port + 1} make run"
            ) from None
        raise LaunchError(f"Cannot listen on {host}:{port} ({error.strerror}): set HOST or PORT.") from None


def require_writable(data_dir: Path) -> None:
    """Make DATA_DIR and write a file into it. Raises: LaunchError."""
    probe = data_dir / f".writable.{os.getpid()}"
    try:
        (data_dir / "logs").mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"?" * 4096)  # a full disk takes an empty file
    except OSError as error:
        raise LaunchError(
            f"DATA_DIR {data_dir} cannot be written ({error.strerror}): make room or set DATA_DIR."
        ) from None
    finally:
        with suppress(OSError):  # the reason is told already
            probe.unlink(missing_ok=True)


def require_given_database(environ: Mapping[str, str]) -> None:
    """Raises: LaunchError where DATABASE_URL is set and does not answer."""
    url = environ.get("DATABASE_URL")
    if url:
        try:
            require_database(url)
        except DatabaseUnusableError as error:
            raise LaunchError(str(error)) from None
