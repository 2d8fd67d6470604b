"""From a complete answer to validated arguments: the gates, in their order, each with its own reason.

Nothing is repaired, picked out of prose or asked again: a complete answer is judged once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from receipts.contracts import Context, Tool
from receipts.errors import REASONS
from receipts.fill.answer import COMPLETE, Answer
from receipts.fill.facts import Facts
from receipts.fill.strictjson import NotStrictJson, parse
from receipts.fill.text import problem
from receipts.fill.verdict import failed, invalid, retargeted

_TRUNCATED = frozenset({"length", "max_tokens"})
_FILTERED = frozenset({"content_filter", "safety"})
_REFUSED = frozenset({"refusal"})
_BLANK = " \t\r\n"
_BOM = "\ufeff"
#: The whole text is one fence; a second one inside would not be JSON anyway.
_FENCE = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)


def judge(answer: Answer, tool: Tool, context: Context, facts: Facts) -> dict[str, Any]:
    """The arguments, exactly as the model sent them. Writes what it learns to `facts`.

    Raises: Refusal by the first gate that does not pass.
    """
    check_finish(answer)
    if answer.refused:
        raise invalid("refusal", "model_refused")
    text = one_source(answer, tool, facts)
    arguments = read_object(text, facts)
    check_retarget(arguments, tool, context)
    check_schema(arguments, tool)
    check_text(arguments, tool, context)
    check_policy(arguments, tool, context)
    return arguments


def check_finish(answer: Answer) -> None:
    """Raises: Refusal unless the answer ended as a complete one."""
    reason = answer.finish_reason
    if answer.empty_choices:
        raise failed("source", "model_output_empty")
    if reason in _TRUNCATED:
        # Also when it parses: what was cut off cannot be known.
        raise failed("finish_reason", "model_truncated")
    if reason in _FILTERED:
        raise invalid("finish_reason", "model_content_filtered")
    if reason in _REFUSED:
        raise invalid("refusal", "model_refused")
    if reason is not None and reason not in COMPLETE:
        raise failed("finish_reason", "provider_error_in_200")


def one_source(answer: Answer, tool: Tool, facts: Facts) -> str:
    """The text of the arguments: the content, or the one call of our own tool.

    Raises: Refusal `model_output_empty`, `model_unexpected_tool`, or `model_output_invalid` for a call
    without arguments or with arguments that are no string.
    """
    content = answer.content
    has_content = bool(content.strip(_BLANK + _BOM))
    if not answer.calls:
        if not has_content:
            raise failed("source", "model_output_empty")
        facts.source = "content"
        return content
    call = answer.calls[0]
    if has_content or len(answer.calls) > 1 or call.name != tool.wire_name:
        raise invalid("source", "model_unexpected_tool")
    facts.source = "tool_call"
    arguments = "".join(call.arguments)
    if not call.is_text or not arguments.strip(_BLANK):
        raise invalid("source", "model_output_invalid", "type at $")
    return arguments


def read_object(text: str, facts: Facts) -> dict[str, Any]:
    """The one JSON object that `text` is, after one byte order mark and one whole-text fence.

    Raises: Refusal `model_output_not_json`.
    """
    if text.startswith(_BOM):
        facts.note("bom")
        text = text[1:]
    bare = text.strip(_BLANK)
    if not text.startswith(bare):
        facts.note("leading_whitespace")
    fenced = _FENCE.fullmatch(bare)
    if fenced:
        facts.note("fence")
        bare = fenced[1]
    try:
        value = parse(bare)
    except NotStrictJson:
        raise invalid("json", "model_output_not_json") from None
    if not isinstance(value, dict):
        raise invalid("json", "model_output_not_json")
    facts.proposed = value
    return value


def check_retarget(arguments: dict[str, Any], tool: Tool, context: Context) -> None:
    """A clean string in the route's field must be the route's own; anything else is left to later gates.

    Raises: Refusal `arg_mismatch`: a security event, never corrected.
    """
    target = arguments.get(tool.route_field)
    if isinstance(target, str) and target != context.subject and problem(target, one_line=True) is None:
        raise retargeted()


def check_schema(arguments: dict[str, Any], tool: Tool) -> None:
    """Raises: Refusal `model_output_invalid` with validator and path; the message would hold the model's value."""
    for error in tool.validator.iter_errors(arguments):
        # Only names that the contract declares: any other key is the model's own text.
        declared = set(error.absolute_schema_path)
        path = "".join(_step(step, step in declared) for step in error.absolute_path)
        raise invalid("schema", "model_output_invalid", f"{error.validator} at ${path}")


def _step(step: str | int, is_declared: bool) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if is_declared else ".*"


def check_text(arguments: dict[str, Any], tool: Tool, context: Context) -> None:
    """Raises: Refusal `model_output_unsafe_text` for any string or key that must not be stored or shows nothing."""
    lines = {tool.route_field, *context.choices}
    declared = tool.schema.get("properties", {})
    for name, value in arguments.items():
        path = f"$.{name}" if name in declared else "$.*"
        for text in (name, *_strings(value)):
            found = problem(text, one_line=name in lines)
            if found:
                raise invalid("text", "model_output_unsafe_text", f"{found} at {path}")


def check_policy(arguments: dict[str, Any], tool: Tool, context: Context) -> None:
    """Raises: Refusal when an argument with choices is none of them, exactly, or by the tool's own policy.

    `policy_assignee` for the assignee.
    """
    for name, allowed in context.choices.items():
        if name in arguments and arguments[name] not in allowed:
            reason = f"policy_{name}"
            known = reason if reason in REASONS else "model_output_invalid"
            raise invalid("policy", known, f"choices at $.{name}")
    refused = tool.policy(arguments) if tool.policy else None
    if refused:
        raise invalid("policy", refused)


def _strings(value: Any) -> Iterator[str]:
    """Every string and every key inside a parsed value."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, list):
            waiting += found
        elif isinstance(found, dict):
            waiting += [*found, *found.values()]
