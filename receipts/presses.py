"""What a person sends with a press: the body, validated; and its fingerprint."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from receipts.contracts import Arguments, Tool
from receipts.errors import InvalidRequest, TicketMismatch
from receipts.fill.text import sanitise

#: Characters (code points) of notes; longer ones are a document, not a note.
NOTES_MAX = 8_000
#: Bytes of arguments that somebody gives instead of notes, as compact JSON: far above what any contract takes.
ARGUMENTS_MAX = 32_000


@dataclass(frozen=True, kw_only=True)
class Input:
    """What an attempt works from: one of the two, or nothing where the tool derives its arguments.

    The ticket is the route's, so it is not here. Kept sealed, as `as_json` gives it.
    """

    notes: str | None = None
    """A model fills the arguments from these."""
    arguments: Arguments | None = None
    """Given: no model is asked."""

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value is not None}

    @property
    def text(self) -> str:
        """What stands for it in `input_hash`: the notes, or the arguments as canonical JSON."""
        if self.notes is not None:
            return self.notes
        return "" if self.arguments is None else _canonical(self.arguments)

    @classmethod
    def of(cls, unsealed: Mapping[str, Any]) -> Input:
        """What a retry works from: the notes if there were any, since a retry asks the model anew."""
        notes = unsealed.get("notes")
        return cls(notes=notes) if notes is not None else cls(arguments=unsealed.get("arguments"))


def validate(body: Any, *, subject: str, tool: Tool) -> Input:
    """The body of a press on `subject`, as JSON or form gave it: notes, or the arguments themselves, or neither for a
    tool that derives them.

    Line ends become `\\n`, so that the same notes from a form and from a script are the same request.

    Raises: InvalidRequest naming the field; TicketMismatch when `ticket_id` is there and is another.
    """
    fields = ("ticket_id",) if tool.derive else ("notes", "arguments", "ticket_id")
    if not isinstance(body, Mapping):
        raise InvalidRequest("The body must be a JSON object.", fields={"body": "must be a JSON object"})
    if unknown := unknown_fields(body, fields):
        name, what = next(iter(unknown.items()))
        raise InvalidRequest(f"Unknown field {name}.", fields={name: what})
    claimed = body.get("ticket_id")
    if "ticket_id" in body and not isinstance(claimed, str):
        raise InvalidRequest("ticket_id must be a text.", fields={"ticket_id": "must be a text"})
    given = _given(body) if not tool.derive else Input()
    if claimed is not None and claimed != subject:
        raise TicketMismatch
    return given


def harmless(name: str) -> str:
    """A name that somebody sent, as far as it may be shown."""
    return ascii(name)[1:-1][:40]


def unknown_fields(body: Mapping[str, Any], fields: Collection[str]) -> dict[str, str]:
    """What of a body is none of its fields, with what to say of it."""
    return {harmless(name): "is not a field of this request" for name in body if name not in fields}


def refuse_unknown(body: Mapping[str, Any], fields: Collection[str]) -> None:
    """Raises: InvalidRequest naming them: a choice that is not understood must not be left out silently."""
    if unknown := unknown_fields(body, fields):
        raise InvalidRequest(fields=unknown)


def _given(body: Mapping[str, Any]) -> Input:
    if body.get("arguments") is None:
        return Input(notes=_notes(body.get("notes")))
    if body.get("notes") is not None:
        raise _about("arguments", "cannot stand beside notes: send one of the two")
    return Input(arguments=_arguments(body["arguments"]))


def _arguments(value: Any) -> Arguments:
    """Whether they are what the contract takes, the gates say; here only what no row could hold."""
    if not isinstance(value, dict):
        raise _about("arguments", "must be a JSON object")
    try:
        size = len(_canonical(value).encode())
    except (ValueError, RecursionError):  # NaN, half of a surrogate pair, nesting without end
        raise _about("arguments", "hold what JSON cannot carry") from None
    if size > ARGUMENTS_MAX:
        raise _about("arguments", f"take {size:,} bytes; at most {ARGUMENTS_MAX:,} fit")
    return value


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _notes(value: Any) -> str:
    if value is None:
        raise _about("notes", "are missing")
    if not isinstance(value, str):
        raise _about("notes", "must be a text")
    notes = value.replace("\r\n", "\n").replace("\r", "\n")
    if len(notes) > NOTES_MAX:
        raise _about("notes", f"have {len(notes):,} characters; at most {NOTES_MAX:,} fit")
    if "\x00" in notes:
        raise _about("notes", "hold a NUL character")
    if any("\ud800" <= c <= "\udfff" for c in notes):
        raise _about("notes", "hold half of a surrogate pair")
    if not sanitise(notes).strip():  # what the model would be shown of them
        raise _about("notes", "are blank")
    return notes


def _about(field: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"The {field} {problem}. Nothing was drafted or filed.", fields={field: problem})


def fingerprint(*, route: str, subject: str, given: Input) -> bytes:
    """32 bytes: HMAC-SHA-256 over route, ticket and the canonical validated body.

    Keyed, because notes are short enough to be guessed against a plain hash.
    """
    canonical = json.dumps(
        {"route": route, "subject": subject, "body": given.as_json()}, sort_keys=True, separators=(",", ":")
    )
    return hmac.digest(settings.FINGERPRINT_KEY.encode(), canonical.encode(), hashlib.sha256)
