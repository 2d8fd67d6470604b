"""Filing by hand: a form built from the contract's schema, and what is wrong with it, by the contract's own validator.

What passes here goes the way of every press: `arguments` in the place of `notes`, the same gates, a receipt, no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from jsonschema import ValidationError

from receipts import ledger
from receipts.contracts import Arguments, Context, Tool, registry
from receipts.errors import InvalidRequest, NotFound
from receipts.explanations import explain
from receipts.fill.gates import check_policy, check_text
from receipts.fill.verdict import Refusal
from tickets import words
from tickets.models import Member
from tickets.press_forms import Press

#: In a form's data: `arg_summary`.
PREFIX = "arg_"
#: A text that may be longer than this gets several lines.
ONE_LINE = 200


@dataclass(frozen=True, kw_only=True)
class Field:
    """One argument of the contract, as a field of the form."""

    name: str
    label: str
    kind: str
    """`choice`, `day`, `line` or `text`."""
    help: str
    """What the schema asks of it, in words."""
    optional: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    value: str = ""
    error: str = ""


def tool_of(press: Press) -> Tool:
    return registry.current(press.tool, settings.CONTRACTS)


def fields(press: Press, given: Mapping[str, str], wrong: Mapping[str, str]) -> list[Field]:
    """The form's fields; `given`: what stands in them, `wrong`: what is wrong with that, both by argument."""
    tool = tool_of(press)
    return [
        _field(name, schema, given.get(name, ""), wrong.get(name, ""))
        for name, schema in tool.schema["properties"].items()
        if name != tool.route_field
    ]


def _field(name: str, schema: dict[str, Any], value: str, error: str) -> Field:
    members = Member.objects.filter(active=True).order_by("name") if name == "assignee" else ()
    return Field(
        name=name,
        label=words.FIELDS.get(name, name),
        kind=_kind(name, schema),
        help=_help(name, schema),
        optional=_optional(schema),
        choices=tuple((member.handle, f"{member.name} ({member.handle})") for member in members),
        value=value,
        error=error,
    )


def _kind(name: str, schema: dict[str, Any]) -> str:
    if name == "assignee":
        return "choice"
    if name.endswith("_on"):  # this domain's names for days
        return "day"
    return "line" if schema.get("maxLength", ONE_LINE + 1) <= ONE_LINE else "text"


def _help(name: str, schema: dict[str, Any]) -> str:
    if _kind(name, schema) == "day":
        return "May stay empty." if _optional(schema) else ""
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    return f"{least:,} to {most:,} characters." if most else ""


def _optional(schema: dict[str, Any]) -> bool:
    return "null" in schema.get("type", ())


# ── reading and judging ──────────────────────────────────────────────────────────────────────────────────────────


def read(press: Press, data: Mapping[str, Any]) -> dict[str, str]:
    """What was typed, by argument; line ends as the API has them."""
    return {
        field.name: str(data.get(PREFIX + field.name, "")).replace("\r\n", "\n").replace("\r", "\n")
        for field in fields(press, {}, {})
    }


def arguments(press: Press, typed: Mapping[str, str]) -> Arguments:
    """An empty field is no argument; where the contract takes null, it is that."""
    given: Arguments = {}
    for field in fields(press, {}, {}):
        if typed[field.name]:
            given[field.name] = typed[field.name]
        elif field.optional:
            given[field.name] = None
    return given


def wrong(press: Press, ticket_id: str, given: Arguments) -> dict[str, str]:
    """Argument → what is wrong with it, by the validator and gates that the press itself meets. Raises: NotFound."""
    tool = tool_of(press)
    context = ledger.context(tool, ticket_id)
    if context is None:
        raise NotFound
    whole = {tool.route_field: ticket_id, **given}
    found: dict[str, str] = {}
    for error in tool.validator.iter_errors(whole):
        for name, sentence in _said(error, whole):
            found.setdefault(name, sentence)
    return found or _refused(tool, context, whole)


def refusal(wrong: dict[str, str]) -> InvalidRequest:
    """Before any receipt. Each sentence stands beside its field."""
    return InvalidRequest("Some fields have to be corrected. Nothing was filed.", fields=wrong)


def _said(error: ValidationError, whole: Arguments) -> Iterator[tuple[str, str]]:
    asked: Any = error.validator_value
    if error.validator == "required":
        yield from ((name, "Is missing.") for name in asked if name not in whole)
        return
    name = str(next(iter(error.absolute_path), ""))
    length = len(error.instance) if isinstance(error.instance, str) else 0
    match error.validator:
        case "minLength":
            yield name, f"Has {length:,} characters; at least {asked:,} are needed."
        case "maxLength":
            yield name, f"Has {length:,} characters; at most {asked:,} fit."
        case "pattern" if name.endswith("_on"):
            yield name, "Is no day. Write it as 2027-03-31."
        case "pattern":
            schema: Any = error.schema
            yield name, f"Does not have the form that is asked for: {schema.get('description', asked)}."
        case _:
            yield name, "Does not fit the contract."


def _refused(tool: Tool, context: Context, whole: Arguments) -> dict[str, str]:
    try:
        check_text(whole, tool, context)
        check_policy(whole, tool, context)
    except Refusal as refusal:
        reason = refusal.error.reason or ""
        name = refusal.path.rpartition(".")[2] if refusal.path else reason.removeprefix("policy_")
        return {name: words.by_hand(reason, explain("", reason)).sentence}
    return {}
