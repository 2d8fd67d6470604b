"""Notes that are not filed yet: kept for the person who types them, one text for each form of a ticket's page.

Two tabs may hold the same form. Each says which version it has seen, and a text is replaced only by a tab that has
seen it: the other one is told, and both texts stay.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils import timezone

from receipts import presses
from receipts.errors import InvalidRequest
from receipts.lifecycle import Status
from receipts.models import Receipt
from receipts.presses import NOTES_MAX
from receipts.statements import fetch_row
from tickets.models import NotesDraft
from tickets.press_forms import PRESSES

#: Days after the last change. Older ones are as good as forgotten by the one who typed them.
KEPT_DAYS = 30


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One form's text as the server has it."""

    text: str = ""
    version: int = 0
    """0: there is none."""
    saved_at: dt.datetime | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "version": self.version,
            "saved_at": self.saved_at.isoformat() if self.saved_at else None,
        }


class ChangedElsewhere(Exception):
    """Another tab or device has saved another text since. `kept`: that text; it stays."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        super().__init__("changed elsewhere")


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


def kept_on(ticket_id: str, person: Any) -> dict[str, Kept]:
    """A person's texts on a ticket, by form. What has been filed meanwhile is forgotten first."""
    drafts = NotesDraft.objects.filter(ticket_id=ticket_id, person=person)
    return {draft.what: _kept(draft) for draft in drafts if not _forget_if_filed(draft)}


def kept(ticket_id: str, what: str, person: Any) -> Kept:
    return kept_on(ticket_id, person).get(what, Kept())


def _kept(draft: NotesDraft) -> Kept:
    return Kept(text=draft.text, version=draft.version, saved_at=draft.saved_at)


# ── saving ───────────────────────────────────────────────────────────────────────────────────────────────────────

# One statement, so that of two tabs exactly one finds the version it has seen. The same text again changes nothing.
_SAVE = """
INSERT INTO notes_drafts (person_id, ticket_id, what, text, version, saved_at)
VALUES (%(person)s, %(ticket)s, %(what)s, %(text)s, nextval('notes_draft_version'), clock_timestamp())
ON CONFLICT (person_id, ticket_id, what) DO UPDATE
SET text = excluded.text, saved_at = excluded.saved_at,
    version = CASE WHEN notes_drafts.text = excluded.text THEN notes_drafts.version ELSE excluded.version END
WHERE notes_drafts.version = %(seen)s OR notes_drafts.text = excluded.text
RETURNING version, saved_at
"""


def save(*, ticket_id: str, what: str, person: Any, text: str, seen: int) -> Kept:
    """Keep a text; the empty one removes what is kept. `seen`: the version that this text grew from, 0 for none.

    Raises: ChangedElsewhere; InvalidRequest for a text that no press could send either.
    """
    text = _sound(text)
    if not text:
        return _remove(ticket_id, what, person, seen)
    row = fetch_row(_SAVE, {"person": person.pk, "ticket": ticket_id, "what": what, "text": text, "seen": seen})
    if row is None:
        other = kept(ticket_id, what, person)
        if other.text:
            raise ChangedElsewhere(other)
        # gone meanwhile, or filed: there is nothing left to overwrite
        return save(ticket_id=ticket_id, what=what, person=person, text=text, seen=seen)
    return Kept(text=text, version=row[0], saved_at=row[1])


def _remove(ticket_id: str, what: str, person: Any, seen: int) -> Kept:
    drafts = NotesDraft.objects.filter(ticket_id=ticket_id, what=what, person=person)
    if not drafts.filter(version=seen).delete()[0]:
        other = drafts.first()
        if other is not None:
            raise ChangedElsewhere(_kept(other))
    return Kept()


def _sound(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    problem = ""
    if len(text) > NOTES_MAX:
        problem = f"have {len(text):,} characters; at most {NOTES_MAX:,} fit"
    elif "\x00" in text:
        problem = "hold a NUL character"
    elif any("\ud800" <= c <= "\udfff" for c in text):
        problem = "hold half of a surrogate pair"
    if problem:
        raise InvalidRequest(f"The notes {problem}. They were not saved.", fields={"text": problem})
    return text


# ── forgetting ───────────────────────────────────────────────────────────────────────────────────────────────────


def _forget_if_filed(draft: NotesDraft) -> bool:
    """Whether a receipt says that these very notes were filed after they were saved; then they are gone.

    Read from the rows, so that it holds whoever watched the press: its tab may be closed by now.
    """
    press = PRESSES[draft.what]
    fingerprint = presses.fingerprint(route=press.tool, subject=draft.ticket_id, given=presses.Input(notes=draft.text))
    filed = Receipt.objects.filter(
        user_id=draft.person_id,
        subject=draft.ticket_id,
        tool_name=press.tool,
        status=Status.APPLIED,
        settled_at__gte=draft.saved_at,
        request_fingerprint=fingerprint,
    )
    if not filed.exists():
        return False
    NotesDraft.objects.filter(pk=draft.pk, version=draft.version).delete()
    return True


def purge() -> int:
    """Delete texts that are old, or filed. How many."""
    old = timezone.now() - dt.timedelta(days=KEPT_DAYS)
    gone = NotesDraft.objects.filter(saved_at__lt=old).delete()[0]
    filed_since = Receipt.objects.filter(
        user_id=OuterRef("person_id"), subject=OuterRef("ticket_id"), status=Status.APPLIED,
        settled_at__gte=OuterRef("saved_at"),
    )  # fmt: skip
    return gone + sum(map(_forget_if_filed, NotesDraft.objects.filter(Exists(filed_since)).iterator()))
