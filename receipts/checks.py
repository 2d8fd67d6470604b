"""Start-up checks: registry, frozen schemas, the database's constraint and the settings agree, or nothing starts.

`receipts.E001` schema drifted · `E002` declared twice · `E003` schema not usable · `E004` allow-list differs from the
constraint · `E005` provider · `E006` other setting · `E007` workflow · `W001` URL looks incomplete.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register, run_checks
from django.core.checks import Warning as Advice
from django.db import connection
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from receipts import schedules, workflows
from receipts.contracts import Registry, registry
from receipts.manifest import provider
from receipts.models import Receipt
from receipts.sealing import Sealer
from receipts.throttle import Rate

LEDGER = "ledger"
CONSTRAINT = "receipt_tool_allowed"
#: What a request to the provider is made of; COMPLETIONS_EXTRA adds to it and never replaces it.
OURS = {"messages", "model", "response_format", "stream", "tool_choice", "tools"}


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


@register(LEDGER)
def check_database_allow_list(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """E004 against the constraint that the database really holds: `check --tag ledger --database default`.

    Under a tag of its own: `migrate` runs the checks of Tags.database before it migrates, and would then refuse the
    very migration that widens the list.
    """
    if not databases:
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s", [CONSTRAINT])
        row = cursor.fetchone()
    if row is None:  # not migrated yet
        return []
    allowed = set(re.findall(r"'([^']*)'", row[0]))
    if allowed.issuperset(registry.names()):  # a newer version may have widened it: this one still serves what it holds
        return []
    return [
        Error(
            f"The registry holds {sorted(registry.names())}, the database allows {sorted(allowed)}.",
            hint="Run migrate with this version of the product.",
            id="receipts.E004",
        )
    ]


#: The form of a workflow's name: it begins idempotency keys, and stands in addresses.
_WORKFLOW_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def workflow_errors(declared: workflows.Registry, tools: Registry) -> Iterable[CheckMessage]:
    """E007 for every workflow that is declared."""
    for workflow in declared.duplicates:
        yield Error(f"The workflow {workflow.name} is declared twice.", id="receipts.E007")
    for workflow in declared:
        if not _WORKFLOW_NAME.fullmatch(workflow.name):
            yield Error(
                f"“{workflow.name}” is no name for a workflow.", hint="It is like nightly_report.", id="receipts.E007"
            )
        if workflow.name in tools.names():
            yield Error(f"The workflow {workflow.name} has the name of a tool.", id="receipts.E007")
        if workflow.tool not in tools.names():
            yield Error(f"The workflow {workflow.name} calls {workflow.tool}, which is no tool.", id="receipts.E007")
        if problem := schedules.problem(workflow.cron, workflow.time_zone):
            yield Error(f"The workflow {workflow.name}: {problem}", id="receipts.E007")


@register
def check_workflows(**_: Any) -> list[CheckMessage]:
    return list(workflow_errors(workflows.registry, registry))


@register
def check_settings(**_: Any) -> list[CheckMessage]:
    return [*_provider_errors(), *_setting_errors()]


def _provider_errors() -> Iterable[CheckMessage]:
    """E005 in the words of whoever would have to call it; without a URL the rest is judged as if there were one."""
    named = provider()
    problem = (named if named.url else replace(named, url="http://unset.invalid/")).problem
    if problem:
        yield Error(problem, hint="See docs/providers.md.", id="receipts.E005")
    elif named.url and not urlsplit(named.url).path.rstrip("/").endswith("/completions"):
        yield Advice(
            "COMPLETIONS_URL is posted to exactly as it is, and it does not end in /chat/completions.",
            hint="Give the full address of the endpoint.",
            id="receipts.W001",
        )
    ours = sorted(OURS.intersection(named.extra))
    if ours:
        yield Error(
            f"COMPLETIONS_EXTRA must not hold {', '.join(ours)}: the product decides that itself.", id="receipts.E006"
        )


def _setting_errors() -> Iterable[CheckMessage]:
    try:
        Rate.parse(settings.THROTTLE_PRESSES)
    except ValueError as error:
        yield Error(f"THROTTLE_PRESSES: {error}", id="receipts.E006")
    if not settings.FILL_BUDGET_SECONDS < settings.ATTEMPT_DEADLINE_SECONDS:
        yield Error("FILL_BUDGET_SECONDS must be less than ATTEMPT_DEADLINE_SECONDS.", id="receipts.E006")
    for name, version in settings.CONTRACTS.items():
        if (name, version) not in {(tool.name, tool.version) for tool in registry}:
            yield Error(f"CONTRACTS names {name}@{version}, which is not declared.", id="receipts.E006")
    if settings.MAX_IN_FLIGHT < 1:
        yield Error("MAX_IN_FLIGHT must be at least 1.", id="receipts.E006")
    if settings.CIRCUIT_FAILURES < 1:
        yield Error("CIRCUIT_FAILURES must be at least 1.", id="receipts.E006")
    if not 0 < settings.CIRCUIT_SECONDS <= settings.CIRCUIT_MAX_SECONDS:
        yield Error("CIRCUIT_SECONDS must be above 0 and at most CIRCUIT_MAX_SECONDS.", id="receipts.E006")
    try:
        Sealer(settings.SEALED_INPUT_KEYS)
    except ValueError as error:
        yield Error(f"SEALED_INPUT_KEYS: {error}", id="receipts.E006")


def require_sound() -> None:
    """End the process with status 1 and the sentences of what is wrong. For whoever serves or works, before it does.

    Raises: SystemExit; OperationalError where the database does not answer.
    """
    found = [*run_checks(), *check_database_allow_list(databases=["default"])]
    wrong = [message for message in found if message.is_serious() and not message.is_silenced()]
    if wrong:
        sys.exit("\n".join(" ".join(filter(None, (message.msg, message.hint))) for message in wrong))
