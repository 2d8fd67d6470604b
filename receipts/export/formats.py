"""CSV and JSONL: receipts as told, as bytes. The last line alone says that an export is complete.

JSONL is exact. CSV is for people with a spreadsheet: what such a program would run as a formula is made text, and its
last line begins with `# export`, which no receipt does (the first column is an id). A spreadsheet shows it as one more
row, all text and in the first two columns, so that no sum and no average counts it; pandas, R and DuckDB skip it
when told that `#` begins a comment.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

Shown = dict[str, Any]
"""A receipt as `told.represent` shows it."""

#: What a spreadsheet takes for the begin of a formula (OWASP, "CSV Injection"), the full-width forms too.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class Format(Protocol):
    """How rows become bytes."""

    name: str
    media_type: str

    def head(self) -> bytes:
        """Before the first row."""

    def rows(self, shown: Iterable[Shown]) -> bytes:
        """Some rows, each a line of its own, in their order."""

    def foot(self, facts: Shown) -> bytes:
        """The last line: what was exported, and that this is all of it."""


class Jsonl:
    """A JSON object a line: the Receipt JSON of the API; last `{"export": {…}}`.

    ASCII, because some readers break lines at U+2028, too.
    """

    name, media_type = "jsonl", "application/x-ndjson"

    def head(self) -> bytes:
        return b""

    def rows(self, shown: Iterable[Shown]) -> bytes:
        return "".join([_json(row) + "\n" for row in shown]).encode()

    def foot(self, facts: Shown) -> bytes:
        return (_json({"export": facts}) + "\n").encode()


def _of(part: str, name: str) -> Callable[[Shown], Any]:
    return lambda shown: (shown[part] or {}).get(name)


def _own(name: str) -> Callable[[Shown], Any]:
    return lambda shown: shown[name]


_OWN = (
    "receipt_id", "run_id", "replay_of", "tool", "contract", "contract_sha256", "ticket_id", "status", "outcome",
    "error_code", "error_reason", "result_ref", "input_hash", "user", "on_behalf_of", "created_at", "deadline_at",
    "settled_at", "applied_at", "http_status", "attempt", "overdue", "replayable", "replay_refusal", "context_moved",
    "arguments",
)  # fmt: skip
_DECISION = ("gate", "model", "provider_host", "finish_reason", "mode", "calls", "fill_ms", "usage", "proposed")
_RESULT = ("effect", "error", "output")

#: Column → its value. The names are those of the Receipt JSON; decision and result stand apart, by name.
COLUMNS: dict[str, Callable[[Shown], Any]] = {
    **{name: _own(name) for name in _OWN},
    **{f"model_decision.{name}": _of("model_decision", name) for name in _DECISION},
    **{f"tool_result.{name}": _of("tool_result", name) for name in _RESULT},
}


class Csv:
    """RFC 4180 in UTF-8 with a header; objects are JSON in one cell."""

    name, media_type = "csv", "text/csv; charset=utf-8"

    def head(self) -> bytes:
        return _lines([list(COLUMNS)])

    def rows(self, shown: Iterable[Shown]) -> bytes:
        values = COLUMNS.values()
        return _lines([cell(value(row)) for value in values] for row in shown)

    def foot(self, facts: Shown) -> bytes:
        """As wide as the other rows, since strict readers want that."""
        return _lines([["# export", json.dumps(facts, ensure_ascii=False), *[""] * (len(COLUMNS) - 2)]])


FORMATS: dict[str, Format] = {form.name: form for form in (Csv(), Jsonl())}


def cell(value: Any) -> Any:
    """A value as a cell. Numbers stay numbers, negative ones too; a text is never a formula.

    A text that looks like a number is a text: it was one (a key, a name), and a spreadsheet would round it.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(FORMULA) else text


def _lines(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


_json = json.JSONEncoder().encode
