"""The environment, read strictly: a value that cannot be meant stops the process with one sentence.

Every reader names the setting and what is wrong with its value; a secret's value is never part of the sentence. A
variable that is set but empty counts as not set, as Compose files write it.
"""

from __future__ import annotations

import json
import math
import os
import sys
import zoneinfo
from collections.abc import Sequence
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
#: PostgreSQL's integer; more milliseconds, days or threads than that are not meant.
INTEGER_MAX = 2**31 - 1
YEAR_SECONDS = 31_536_000.0


def text(name: str, default: str = "") -> str:
    return os.environ.get(name) or default


def flag(name: str, default: bool) -> bool:
    """Raises: ImproperlyConfigured for anything but true/false and their common spellings."""
    given = text(name).strip().lower()
    if given and given not in (*_YES, *_NO):
        raise ImproperlyConfigured(f"{name} must be true or false, not {_shown(name)}.")
    return given in _YES if given else default


def integer(name: str, default: int, *, minimum: int = 1, maximum: int = INTEGER_MAX) -> int:
    """Raises: ImproperlyConfigured unless it is a whole number from `minimum` to `maximum`."""
    given = text(name).strip()
    if not given:
        return default
    # int() also takes "٣" and "1_0"
    value = int(given) if given.isascii() and given.lstrip("-").isdigit() and len(given) <= 12 else None
    if value is None or not minimum <= value <= maximum:
        span = f"from {minimum} to {maximum}" if maximum < INTEGER_MAX else f"of at least {minimum}"
        raise ImproperlyConfigured(f"{name} must be a whole number {span}, not {_shown(name)}.")
    return value


def seconds(name: str, default: float) -> float:
    """Raises: ImproperlyConfigured unless it is a number above 0 and at most a year."""
    given = text(name).strip()
    if not given:
        return default
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not 0 < value <= YEAR_SECONDS:  # false for NaN
        raise ImproperlyConfigured(f"{name} must be a number of seconds above 0, not {_shown(name)}.")
    return value


def choice(name: str, default: str, choices: Sequence[str]) -> str:
    """Raises: ImproperlyConfigured for another word."""
    given = text(name, default)
    if given not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {_shown(name)}.")
    return given


def json_object(name: str) -> dict[str, Any]:
    """Raises: ImproperlyConfigured. The value is not shown: it may hold a routing secret."""
    try:
        value = json.loads(text(name, "{}"))
    except (ValueError, RecursionError):
        raise ImproperlyConfigured(f"{name} must be a JSON object, and is not JSON.") from None
    if not isinstance(value, dict):
        raise ImproperlyConfigured(f"{name} must be a JSON object.")
    return value


def contracts(name: str, default: str) -> dict[str, int]:
    """`file_followup@2, close_ticket@1` → {"file_followup": 2, "close_ticket": 1}. Raises: ImproperlyConfigured."""
    chosen: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text(name, default).split(","))):
        tool, _, version = part.partition("@")
        if not tool or not version.isascii() or not version.isdigit() or len(version) > 4 or tool in chosen:
            raise ImproperlyConfigured(f"{name} must name tools like file_followup@1, each once, not {_shown(name)}.")
        chosen[tool] = int(version)
    return chosen


def time_zone(name: str, default: str) -> str:
    """Raises: ImproperlyConfigured for a zone that this machine does not know."""
    given = text(name, default)
    try:
        zoneinfo.ZoneInfo(given)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ImproperlyConfigured(f"{name} must name a time zone like Europe/Berlin, not {_shown(name)}.") from None
    return given


#: With its usual port. `smtps` is STARTTLS to django-environ, as `smtp+tls` is.
_MAIL_PORTS = {"smtp": 25, "smtps": 587, "smtp+tls": 587, "smtp+ssl": 465}


def mail(name: str, folder: str) -> dict[str, Any]:
    """Django's EMAIL_… settings from `smtp+tls://user:password@mail.example:587`; without it files in `folder`.

    Raises: ImproperlyConfigured. The value is not shown: it may hold a password.
    """
    given = text(name)
    if not given:
        return {"EMAIL_BACKEND": "django.core.mail.backends.filebased.EmailBackend", "EMAIL_FILE_PATH": folder}
    scheme = given.partition("://")[0]
    try:
        named: dict[str, Any] = environ.Env.email_url_config(given)
        sound = scheme in _MAIL_PORTS and named["EMAIL_HOST"]
    except (ValueError, KeyError, ImproperlyConfigured):
        sound = False
    if not sound:
        raise ImproperlyConfigured(f"{name} must look like smtp+tls://user:password@mail.example:587, and does not.")
    return {setting: value for setting, value in named.items() if value} | {
        "EMAIL_PORT": named["EMAIL_PORT"] or _MAIL_PORTS[scheme]
    }


def load_settings() -> None:
    """Read the settings now, or end the process with the sentence and status 1: for commands, server and launcher.

    Django itself would go on without settings for `help`, and show a traceback for the rest.
    """
    from django.conf import settings

    try:
        _ = settings.INSTALLED_APPS
    except ImproperlyConfigured as error:
        sys.exit(str(error))


def _shown(name: str) -> str:
    return ascii(text(name))[:60]
