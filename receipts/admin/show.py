"""How the console shows things: badges, sentences, links, JSON. All text is escaped; nothing is inline."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from receipts.explanations import explain
from receipts.models import Receipt

EMPTY = "–"


def moment(at: dt.datetime | None) -> str:
    """To the millisecond and in UTC: receipts are compared with logs of other machines."""
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC" if at else EMPTY


def second(at: dt.datetime | None) -> str:
    """To the second and in UTC, which the column's head says: for lists."""
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S}" if at else EMPTY


def badge(word: str | None, tone: str | None = None) -> SafeString | str:
    """A word with its colour; the word carries the meaning, the colour repeats it."""
    return format_html('<span class="badge {}">{}</span>', tone or word, word) if word else EMPTY


def status(receipt: Receipt) -> SafeString | str:
    """Where a receipt stands, by its row and the clock."""
    if receipt.overdue:
        return badge("pending, overdue", "overdue")
    if receipt.outcome == "retryable":
        return badge("failed, retryable", "retryable")
    return badge(receipt.status)


def receipt(row: Receipt) -> SafeString | str:
    """Its number, as a link."""
    return link(Receipt, row.pk, row.number)


def what_happened(receipt: Receipt) -> str:
    """In a sentence, whatever became of it."""
    if receipt.error_code is not None:
        return sentence(receipt.error_code, receipt.error_reason)
    if receipt.result_ref:
        return f"Filed as {receipt.result_ref}."
    if receipt.overdue:
        return "Its time is over; the next sweep settles it."
    return "Waits to be begun." if receipt.queued else "Is being worked on."


def sentence(code: str | None, reason: str | None) -> str:
    """What happened, in the words that the leads' pages use too."""
    return explain(code, reason).sentence if code else EMPTY


def next_step(code: str | None, reason: str | None) -> str:
    """Whose turn it is, and what to do."""
    if code is None:
        return EMPTY
    known = explain(code, reason)
    return f"{known.owner.capitalize()}: {known.next_step}"


def link(model: type[Model], key: Any, text: str | None = None) -> SafeString | str:
    """To the console's page of a row."""
    if key is None:
        return EMPTY
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[key])
    return format_html('<a href="{}">{}</a>', address, text or str(key))


def as_json(value: Any) -> SafeString | str:
    """Indented JSON. Controls and bidi marks, which a refused draft may hold, are shown as escapes."""
    if value is None:
        return EMPTY
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    return format_html('<pre class="json">{}</pre>', visible(text))


def visible(text: str) -> str:
    """The text with every character that does not print, line breaks apart, written as an escape."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in text)
