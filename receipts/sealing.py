"""The crypto of sealed inputs: a dict in, an opaque token out, and back while a key for it is held. No ORM.

Keys are the project's own and apart from SECRET_KEY, so that either can be changed alone. Rotation: put a new key
first and keep the old ones behind it, `rotate` every stored token, then drop the old keys.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class Unsealable(Exception):
    """A token that no key opens, or that was changed since it was sealed: which of the two cannot be told."""

    sentence = "The sealed input cannot be opened: its key is no longer held, or it was changed."

    def __init__(self) -> None:
        super().__init__(self.sentence)


class NotSealable(ValueError):
    """Not a dict of plain JSON values, so it would not come back as it went in."""

    sentence = "Only an object of plain JSON values can be sealed."

    def __init__(self) -> None:
        super().__init__(self.sentence)


class Sealer:
    """Seals with the first key, opens with any.

    Args:
        keys: url-safe base64 of 32 random bytes each, as `Fernet.generate_key()` makes them; the newest first.

    Raises:
        ValueError: no key, or one of another form; the sentence names its place and never the key.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        if isinstance(keys, str) or not keys:
            raise ValueError("Sealed inputs need at least one key, in a list.")
        held = [_fernet(key, place) for place, key in enumerate(keys, start=1)]
        self._first, self._fernet = held[0], MultiFernet(held)

    def seal(self, plain: dict[str, Any]) -> bytes:
        """The token (ASCII) that stands for `plain`; another one each time.

        Raises:
            NotSealable: a value that JSON has no form for (NaN, bytes, a key that is no text, nesting without end).
        """
        return self._fernet.encrypt(_canonical(plain))

    def unseal(self, token: bytes | memoryview) -> dict[str, Any]:
        """What was sealed. A memoryview is what the database driver hands out.

        Raises:
            Unsealable: no key opens it, or it was changed.
        """
        try:
            plain = json.loads(self._fernet.decrypt(bytes(token)))
        except (InvalidToken, ValueError, RecursionError):
            raise Unsealable from None  # the cause could quote the input
        if not isinstance(plain, dict):
            raise Unsealable
        return plain

    def is_current(self, token: bytes | memoryview) -> bool:
        """Whether the first key opens it. Tokens do not name their key, so it is tried."""
        try:
            self._first.decrypt(bytes(token))
        except InvalidToken:
            return False
        return True

    def rotate(self, token: bytes | memoryview) -> bytes:
        """The same input under the first key, its time of sealing kept.

        Raises:
            Unsealable: no key opens it, or it was changed.
        """
        try:
            return self._fernet.rotate(bytes(token))
        except InvalidToken:
            raise Unsealable from None


def sealer() -> Sealer:
    """The sealer for `settings.SEALED_INPUT_KEYS` (a list of str), made once for each value of the setting."""
    return _sealer(tuple(settings.SEALED_INPUT_KEYS))


@functools.lru_cache(maxsize=1)
def _sealer(keys: tuple[str, ...]) -> Sealer:
    return Sealer(keys)


def _fernet(key: str, place: int) -> Fernet:
    try:
        return Fernet(key)
    except (ValueError, TypeError):
        raise ValueError(f"Key {place} for sealed inputs is not 32 bytes of url-safe base64.") from None


def _canonical(plain: dict[str, Any]) -> bytes:
    # ASCII: a lone surrogate, refused long before, would still be kept as \udxxx rather than fail to encode.
    if not isinstance(plain, dict) or not _has_text_keys(plain):
        raise NotSealable
    try:
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError):
        raise NotSealable from None


def _has_text_keys(plain: Any) -> bool:
    """JSON would turn the keys 1 and True into texts, silently."""
    waiting, seen = [plain], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, dict):
                if not all(isinstance(key, str) for key in value):
                    return False
                waiting.extend(value.values())
            else:
                waiting.extend(value)
    return True
