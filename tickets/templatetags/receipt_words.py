"""How templates say receipts and times."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import template
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from receipts.explanations import Explanation, explain, sentence_case
from receipts.ids import short_name
from receipts.lifecycle import Status
from receipts.models import Receipt
from tickets import words
from tickets.by_hand import PREFIX
from tickets.press_forms import BY_TOOL

register = template.Library()

register.filter("receipt_number", short_name)
register.filter("sentence", sentence_case)
register.filter("person", words.person)


@register.simple_tag
def standing_of(receipt: Receipt, now: dt.datetime) -> words.Standing:
    """`{% standing_of receipt now as standing %}`"""
    return words.standing(receipt, now)


@register.simple_tag
def draft_label(receipt: Receipt) -> str:
    """What stands over the fields of a press."""
    said = words.of_tool(receipt.tool_name).on(receipt.subject)
    return said["label_done" if receipt.status == Status.APPLIED else "label_draft"]


@register.simple_tag
def seen_by(receipt: Receipt) -> str:
    """Who will see the result, in a few words."""
    return words.of_tool(receipt.tool_name).seen_by


@register.filter
def written(tool: str) -> str:
    """The form in which a person could write what this tool's model drafts; empty where there is none."""
    press = BY_TOOL.get(tool)
    return press.what if press and press.label else ""


@register.filter
def typed_by_hand(request: HttpRequest) -> list[tuple[str, str, str]]:
    """(name, label, value) of what a form for filing by hand had sent, to be sent once more."""
    sent = [(name, name.removeprefix(PREFIX)) for name in request.POST if name.startswith(PREFIX)]
    return [(name, words.FIELDS.get(argument, argument), request.POST[name]) for name, argument in sent]


@register.filter
def shown_arguments(receipt: Receipt | None) -> list[tuple[str, str, Any]]:
    """(name, label, value) of a receipt's arguments, without what the route decides and without what is empty; of a
    check what it decided, since its argument is private."""
    given = receipt.arguments_json if receipt else {}
    if receipt and receipt.result_ref in words.DECISIONS:
        given = {"decision": words.DECISIONS[receipt.result_ref]}
    return [(name, words.FIELDS.get(name, name), given[name]) for name in given if name != "ticket_id" and given[name]]


@register.filter
def press_form(forms: dict[str, Any], what: str) -> Any:
    """`{{ forms|press_form:"contact-checks" }}`: a dash cannot stand in a template's variable."""
    return forms[what]


@register.simple_tag
def why(receipt: Receipt) -> Explanation | None:
    """`{% why receipt as explanation %}`; None unless it failed."""
    return explain(receipt.error_code, receipt.error_reason) if receipt.error_code else None


@register.simple_tag
def moment(at: dt.datetime | None, style: str = "full") -> SafeString:
    """A `<time>`: in the server's zone with its name, which the script of the page turns into the reader's.

    Styles: `full` (30 Nov 2025, 14:03 UTC), `second` (with seconds), `clock` (14:03 UTC).
    """
    if at is None:
        return SafeString("—")
    local = timezone.localtime(at)
    text = {
        "full": f"{local:%-d %b %Y, %H:%M %Z}",
        "second": f"{local:%-d %b %Y, %H:%M:%S %Z}",
        "clock": f"{local:%H:%M %Z}",
    }
    return format_html('<time datetime="{}" data-style="{}">{}</time>', at.isoformat(), style, text[style])


#: (seconds of the unit, its letter), the coarsest first.
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


@register.simple_tag
def ago(at: dt.datetime, now: dt.datetime) -> SafeString:
    """A short age in a `<time>`: `3 h`, `2 d`, `now`."""
    seconds = (now - at).total_seconds()
    age = next((f"{int(seconds // unit)} {letter}" for unit, letter in UNITS if seconds >= unit), "now")
    local = timezone.localtime(at)
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), f"{local:%-d %b %Y, %H:%M %Z}", age)


@register.filter
def initials(name: str) -> str:
    """`Ada Okafor` → `AO`."""
    parts = name.split()
    return "".join(part[0] for part in (parts[:1] + parts[-1:] if len(parts) > 1 else parts)).upper()


@register.filter
def tint(handle: str) -> int:
    """0, 1 or 2: the same for the same handle everywhere."""
    return sum(map(ord, handle)) * len(handle) % 3


@register.filter
def duration(milliseconds: int | None) -> str:
    """`1843` → `1.8 s`, `12` → `12 ms`."""
    if milliseconds is None:
        return "—"
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
