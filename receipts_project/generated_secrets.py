"""Secrets that nobody was asked for: made once, kept in DATA_DIR/secrets, readable by their owner alone.

The environment always wins; settings come here only for a name that is not set there.
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def make_secret() -> str:
    """64 URL-safe characters, 384 bits."""
    return secrets.token_urlsafe(48)


def make_fernet_key() -> str:
    """A Fernet key: 32 random bytes, URL-safe base64 (the format of `cryptography.fernet`)."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def make_password() -> str:
    """A password that can be typed: 16 letters and digits in four groups, none that look alike."""
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(alphabet) for _ in range(4)) for _ in range(4))


def read_or_create(data_dir: Path, name: str, make: Callable[[], str] = make_secret) -> str:
    """The secret called `name` of this DATA_DIR; made by `make` the first time.

    Raises: OSError where DATA_DIR can be neither read nor written.
    """
    folder = data_dir / "secrets"
    try:
        return read_secret(folder / name)
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return create_once(folder / name, make)


def read_secret(path: Path) -> str:
    """The text of a secret's file. Raises: FileNotFoundError also when it is empty (a disk was full)."""
    text = path.read_text(encoding="ascii").strip()
    if not text:
        raise FileNotFoundError(path)
    return text


def create_once(path: Path, make: Callable[[], str]) -> str:
    """Write `make()` to `path` unless another process was first; what stands there in the end is returned.

    The text is complete before the name appears (a link, which fails where a rename would replace), so a
    second process that starts in this instant reads the first one's secret and never half of it.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(make() + "\n")
            file.flush()
            os.fsync(file.fileno())
        if path.exists() and path.stat().st_size == 0:
            draft.replace(path)
        else:
            with suppress(FileExistsError):  # another process was first: its secret counts
                os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return read_secret(path)
