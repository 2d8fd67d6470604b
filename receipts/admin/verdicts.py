"""What a replay would be, or why not, in the console's words."""

from __future__ import annotations

from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from receipts.admin import show
from receipts.contracts import Tool
from receipts.errors import BY_CODE
from receipts.explanations import explain
from receipts.models import Receipt
from receipts.replay import Mode, Verdict

#: What the target says now. The table of reasons speaks of the time while a draft was written.
_TARGET = {
    "ticket_closed": "The ticket is closed.",
    "ticket_gone": "The ticket is no longer there.",
    "policy_assignee": "The assignee in the kept arguments is not an active member of support now.",
    "policy_due_on": "The day in the kept arguments is over.",
    "model_output_invalid": "The kept arguments do not fit this contract's schema.",
}


def label(mode: Mode | None, tool: Tool | None) -> str:
    """What a replay would run on."""
    if mode is Mode.SAME_ARGUMENTS:
        return "Same arguments, without the model"
    if tool is not None and tool.derive is not None:
        return "Arguments derived anew from the ticket, without the model"
    return "Draft again with the sealed input"


def way(found: Verdict) -> str:
    """What choosing this mode means, or why it is not to be had."""
    if found.refusal is not None:
        return f"Not possible: {words(found.refusal.code, found.refusal.reason)}"
    if found.mode is Mode.SAME_ARGUMENTS:
        return "The arguments that were kept, judged again as things are now. No model call."
    if found.tool is not None and found.tool.derive is not None:
        return "As the ticket is now. No model call."
    return "The original input, to the model again: what it writes may differ."


def title(code: str | None) -> str:
    """“Already applied”; the code itself where this version does not know it."""
    known = BY_CODE.get(code or "")
    return known.title if known else str(code)


def words(code: str | None, reason: str | None) -> str:
    """Why, in a sentence."""
    if reason in _TARGET and code == "target_refuses":
        return _TARGET[reason]
    return explain(code or "", reason).sentence


def next_step(code: str | None) -> str:
    known = BY_CODE.get(code or "")
    return known.next_step if known else ""


def about(receipt_id: Any) -> SafeString | str:
    """The receipt to look at, with what it is now."""
    found = Receipt.objects.select_related("user").filter(pk=receipt_id).first() if receipt_id else None
    if found is None:
        return ""
    link = show.link(Receipt, found.pk, found.number)
    if found.replay_reason is None:
        return format_html("{} {} by {}.", link, show.status(found), found.user.username)
    return format_html(
        "{} {}: replayed by {}, {}, because “{}”.",
        link,
        show.status(found),
        found.user.username,
        show.moment(found.created_at),
        show.visible(found.replay_reason),
    )
