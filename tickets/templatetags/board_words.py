"""How templates say the board."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

register = template.Library()


@register.filter
def at(choices: Mapping[Any, Any], value: Any) -> Any:
    """`{{ options.statuses|at:ticket.status }}`"""
    return choices[value]
