"""Arguments that no model wrote: the route's own, or a person's who files by hand."""

from __future__ import annotations

from receipts.contracts import Arguments, Context, Tool
from receipts.fill.facts import Filled
from receipts.fill.gates import check_policy, check_retarget, check_schema, check_text
from receipts.fill.verdict import Refusal


def judge_given(arguments: Arguments, tool: Tool, context: Context) -> Filled:
    """The same gates as a model's answer, from retarget on. The route's field may be left out: the route owns it."""
    arguments = {tool.route_field: context.subject, **arguments}
    try:
        check_retarget(arguments, tool, context)
        check_schema(arguments, tool)
        check_text(arguments, tool, context)
        check_policy(arguments, tool, context)
    except Refusal as refusal:
        return Filled(arguments=None, error=refusal.error, facts=None)
    return Filled(arguments=arguments, error=None, facts=None)
