"""Where drafts come from: one endpoint and how to speak to it. Values in, no Django.

The caller reads the settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import SplitResult, urlsplit

AUTHS = ("auto", "bearer", "api-key", "none")
#: The ladder of `auto`, from the tightest promise about the answer's shape to none.
LADDER = ("json_schema", "tool", "json_object", "prompt")
MODES = ("auto", *LADDER)
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, kw_only=True)
class Provider:
    """An OpenAI-compatible chat completions endpoint."""

    url: str
    """Posted to exactly, query kept; nothing is appended."""
    api_key: str = field(default="", repr=False)
    """Sent to this origin only; never logged, never in repr."""
    auth: str = "auto"
    """`bearer`, `api-key`, `none`, or `auto`: bearer when a key is set, else none."""
    model: str = "gpt-4o-mini"
    """The model asked for."""
    mode: str = "auto"
    """One of `MODES`.

    `auto` begins at the top of `LADDER` and steps down when the provider refuses the format.
    """
    stream: bool = True
    """Ask for server-sent events. Either framing is understood whatever was asked."""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Merged into the request body: temperature, token caps, routing. Empty by default.

    Some refuse unknown fields.
    """

    @cached_property
    def _parts(self) -> SplitResult | None:
        try:
            parts = urlsplit(self.url)
            _ = parts.port  # the parser looks at the port only when asked
        except ValueError:
            return None
        return parts

    @property
    def host(self) -> str:
        """`api.example.com`, with the port where it is not the scheme's own; "" for a URL without host."""
        if self._parts is None or not self._parts.hostname:
            return ""
        name = f"[{self._parts.hostname}]" if ":" in self._parts.hostname else self._parts.hostname
        port = self._parts.port
        return name if port in (None, DEFAULT_PORTS.get(self._parts.scheme)) else f"{name}:{port}"

    @property
    def problem(self) -> str | None:
        """Why this cannot be called, as one sentence without the key; None when it can."""
        if not self.url:
            return "No completions URL is set."
        if self._parts is None or self._parts.scheme not in DEFAULT_PORTS or not self.host:
            return "The completions URL must be an absolute http or https URL."
        if not _is_host_name(self._parts.hostname or ""):
            return "The completions URL's host is not a host name."
        if self._parts.username is not None or self._parts.password is not None:
            # Clients turn it into a Basic header that replaces ours, and it ends up in logs.
            return "The completions URL must not hold a user name or password."
        if self.auth not in AUTHS:
            return f"The completions auth must be one of {', '.join(AUTHS)}."
        if self.mode not in MODES:
            return f"The completions mode must be one of {', '.join(MODES)}."
        if self.auth in ("bearer", "api-key") and not self.api_key:
            return f"The completions auth {self.auth} needs a key."
        if self.api_key and not re.fullmatch(r"[\x21-\x7e]+", self.api_key):
            return "The completions key holds characters that no header can carry."
        return None

    def auth_headers(self) -> dict[str, str]:
        """The one header that carries the key, or none."""
        if not self.api_key or self.auth == "none":
            return {}
        if self.auth == "api-key":
            return {"api-key": self.api_key}
        return {"Authorization": f"Bearer {self.api_key}"}


def _is_host_name(name: str) -> bool:
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return not re.search(r"[\s\x00-\x20]", name)
