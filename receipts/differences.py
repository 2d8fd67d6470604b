"""What differs between two versions of a tool, in words: whoever chooses the newer one has to see what that means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from receipts.contracts import Tool


def differences(before: Tool, after: Tool) -> list[str]:
    """Field by field, then what is not in the schema. Empty: the two say the same."""
    return [*_of_fields(before.schema, after.schema), *_beside_the_schema(before, after)]


def _of_fields(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    had, has = before.get("properties", {}), after.get("properties", {})
    required, requires = set(before.get("required", ())), set(after.get("required", ()))
    for name in has:
        if name not in had:
            yield f"{name} is new, and {'has to be there' if name in requires else 'may be left out'}"
            continue
        if (name in required) != (name in requires):
            yield f"{name} {'has to be there now' if name in requires else 'may be left out now'}"
        yield from _of_rules(name, had[name], has[name])
    for name in had:
        if name not in has:
            yield f"{name} is gone"


def _of_rules(name: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for rule in dict.fromkeys([*before, *after]):
        if before.get(rule) != after.get(rule):
            yield f"{name}: {rule} was {_shown(before.get(rule))}, is {_shown(after.get(rule))}"


def _shown(rule: Any) -> str:
    return "not set" if rule is None else json.dumps(rule, ensure_ascii=False)


def _beside_the_schema(before: Tool, after: Tool) -> Iterator[str]:
    if before.instruction != after.instruction:
        yield "the model is told something else to do"
    if before.effect != after.effect:
        yield f"the effect was {before.effect}, is {after.effect}"
    if before.replay_rule != after.replay_rule:
        yield f"the replay rule was {before.replay_rule}, is {after.replay_rule}"
