"""What a person sends with a press: the body, validated; and its fingerprint."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from receipts.errors import InvalidRequest, TicketMismatch
from receipts.fill.text import sanitise

#: Characters (code points) of notes; longer ones are a document, not a note.
NOTES_MAX = 8_000
_FIELDS = ("notes", "ticket_id")


@dataclass(frozen=True, kw_only=True)
class Body:
    """A validated body. The ticket is the route's, so it is not here."""

    notes: str


def validate(body: Any, *, subject: str) -> Body:
    """The body of a press on `subject`, as JSON or form gave it.

    Line ends become `\\n`, so that the same notes from a form and from a script are the same request.

    Raises: InvalidRequest naming the field; TicketMismatch when `ticket_id` is there and is another.
    """
    if not isinstance(body, Mapping):
        raise InvalidRequest("The body must be a JSON object.", fields={"body": "must be a JSON object"})
    unknown = [name for name in body if name not in _FIELDS]
    if unknown:
        # a name somebody sent is shown only as far as it is harmless
        name = ascii(unknown[0])[1:-1][:40]
        raise InvalidRequest(f"Unknown field {name}.", fields={name: "is not a field of this request"})
    claimed = body.get("ticket_id")
    if "ticket_id" in body and not isinstance(claimed, str):
        raise InvalidRequest("ticket_id must be a text.", fields={"ticket_id": "must be a text"})
    notes = _notes(body.get("notes"))
    if claimed is not None and claimed != subject:
        raise TicketMismatch
    return Body(notes=notes)


def _notes(value: Any) -> str:
    if value is None:
        raise _about_notes("are missing")
    if not isinstance(value, str):
        raise _about_notes("must be a text")
    notes = value.replace("\r\n", "\n").replace("\r", "\n")
    if len(notes) > NOTES_MAX:
        raise _about_notes(f"have {len(notes):,} characters; at most {NOTES_MAX:,} fit")
    if "\x00" in notes:
        raise _about_notes("hold a NUL character")
    if any("\ud800" <= c <= "\udfff" for c in notes):
        raise _about_notes("hold half of a surrogate pair")
    if not sanitise(notes).strip():  # what the model would be shown of them
        raise _about_notes("are blank")
    return notes


def _about_notes(problem: str) -> InvalidRequest:
    return InvalidRequest(f"The notes {problem}. Nothing was drafted or filed.", fields={"notes": problem})


def fingerprint(*, route: str, subject: str, body: Body) -> bytes:
    """32 bytes: HMAC-SHA-256 over route, ticket and the canonical validated body.

    Keyed, because notes are short enough to be guessed against a plain hash.
    """
    canonical = json.dumps(
        {"route": route, "subject": subject, "body": {"notes": body.notes}}, sort_keys=True, separators=(",", ":")
    )
    return hmac.digest(settings.FINGERPRINT_KEY.encode(), canonical.encode(), hashlib.sha256)
