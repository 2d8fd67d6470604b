"""Start-up checks: registry, frozen schemas, the database's constraint and the settings agree, or nothing starts.

`receipts.E001` schema drifted · `E002` declared twice · `E003` schema not usable · `E004` allow-list differs from the
constraint · `E005` provider URL · `E006` other setting · `W001` URL looks incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Advice
from django.db import connection
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from receipts.contracts import Registry, registry
from receipts.models import Receipt
from receipts.throttle import Rate

CONSTRAINT = "receipt_tool_allowed"


def contract_errors(tools: Registry) -> list[CheckMessage]:
    """E001–E003 for every tool that is declared."""
    found: list[CheckMessage] = [
        Error(f"{tool.contract} is declared twice.", hint="A changed tool is a new version.", id="receipts.E002")
        for tool in tools.duplicates
    ]
    for tool in tools:
        try:
            digest = tool.digest()
        except OSError:
            found.append(Error(f"The schema of {tool.contract} cannot be read.", id="receipts.E003"))
            continue
        if digest != tool.schema_sha256:
            found.append(
                Error(
                    f"The frozen schema of {tool.contract} was changed: its sha256 is {digest}.",
                    hint="Undo the change, or declare a new version beside it. Receipts rely on the old one.",
                    id="receipts.E001",
                )
            )
        found.extend(_unusable(tool.contract, tool.schema, tool.route_field))
    return found


def _unusable(contract: str, schema: Any, route_field: str) -> Iterable[CheckMessage]:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield Error(f"The schema of {contract} is not JSON Schema 2020-12: {error.message}", id="receipts.E003")
        return
    if schema.get("type") != "object" or schema.get("additionalProperties") is not False:
        yield Error(f"The schema of {contract} must be a closed object.", id="receipts.E003")
    if route_field not in schema.get("required", ()):
        yield Error(f"The schema of {contract} must require {route_field}, which the route owns.", id="receipts.E003")


@register(Tags.models)
def check_contracts(**_: Any) -> list[CheckMessage]:
    found = contract_errors(registry)
    allowed = set(declared_allow_list())
    if allowed != set(registry.names()):
        found.append(
            Error(
                f"The registry holds {sorted(registry.names())}, the constraint {CONSTRAINT} allows {sorted(allowed)}.",
                hint="Change the constraint in receipts/models.py and run makemigrations.",
                id="receipts.E004",
            )
        )
    return found


def declared_allow_list() -> Iterable[str]:
    """The tool names that the model's constraint allows."""
    for constraint in Receipt._meta.constraints:
        if constraint.name == CONSTRAINT:
            for child in constraint.condition.children:  # type: ignore[attr-defined]
                if isinstance(child, tuple):
                    yield from child[1]


@register(Tags.database)
def check_database_allow_list(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """E004 against the constraint that the database really holds: `check --database default`, before the server."""
    if not databases:
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s", [CONSTRAINT])
        row = cursor.fetchone()
    if row is None:  # not migrated yet
        return []
    allowed = set(re.findall(r"'([^']*)'", row[0]))
    if allowed == set(registry.names()):
        return []
    return [
        Error(
            f"The registry holds {sorted(registry.names())}, the database allows {sorted(allowed)}.",
            hint="Run migrate with this version of the product.",
            id="receipts.E004",
        )
    ]


@register
def check_settings(**_: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    url = settings.COMPLETIONS_URL
    if url:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            found.append(Error("COMPLETIONS_URL is not an http(s) address.", id="receipts.E005"))
        elif parts.username or parts.password:
            found.append(
                Error("COMPLETIONS_URL holds credentials.", hint="Use COMPLETIONS_API_KEY.", id="receipts.E005")
            )
        elif not parts.path.rstrip("/").endswith("/completions"):
            found.append(
                Advice(
                    "COMPLETIONS_URL is posted to exactly as it is, and it does not end in /chat/completions.",
                    hint="Give the full address of the endpoint.",
                    id="receipts.W001",
                )
            )
    for name, allowed in _CHOICES.items():
        if getattr(settings, name) not in allowed:
            found.append(Error(f"{name} must be one of {', '.join(allowed)}.", id="receipts.E006"))
    if not isinstance(settings.COMPLETIONS_EXTRA, dict):
        found.append(Error("COMPLETIONS_EXTRA must be a JSON object.", id="receipts.E006"))
    try:
        Rate.parse(settings.THROTTLE_PRESSES)
    except ValueError as error:
        found.append(Error(f"THROTTLE_PRESSES: {error}", id="receipts.E006"))
    if settings.FILL_BUDGET_SECONDS >= settings.ATTEMPT_DEADLINE_SECONDS:
        found.append(Error("FILL_BUDGET_SECONDS must be less than ATTEMPT_DEADLINE_SECONDS.", id="receipts.E006"))
    return found


_CHOICES = {
    "COMPLETIONS_AUTH": ("auto", "bearer", "api-key", "none"),
    "COMPLETIONS_MODE": ("auto", "json_schema", "tool", "json_object", "prompt"),
}
