"""One receipt's life in its order: opened, each attempt's beginning and end, what people did, its replays."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from receipts.admin import show
from receipts.models import Attempt, AuditEvent, Receipt

#: Rows of each kind that are shown, the oldest first.
SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class Moment:
    at: dt.datetime
    what: str
    tone: str = ""
    who: str = ""
    words: str = ""
    link: SafeString | str = ""

    @property
    def when(self) -> str:
        return show.moment(self.at)


def of(receipt: Receipt) -> SafeString:
    """As a list, by time; what the row says wins over what nobody wrote down."""
    moments = sorted((*_row(receipt), *_attempts(receipt), *_events(receipt), *_replays(receipt)), key=lambda m: m.at)
    return render_to_string("admin/receipts/_timeline.html", {"moments": moments})


def _row(receipt: Receipt) -> Iterator[Moment]:
    yield Moment(
        at=receipt.created_at,
        what="opened" if receipt.replay_of_id is None else f"opened, replay {receipt.replay_no}",
        tone="pending",
        who=receipt.user.username,
    )
    if receipt.status == "pending":
        if receipt.started_at:
            yield Moment(at=receipt.started_at, what=f"attempt {receipt.attempt} began", who=receipt.actor.username)
        yield Moment(
            at=receipt.deadline_at,
            what="is overdue since" if receipt.overdue else "has until",
            tone="overdue" if receipt.overdue else "pending",
            words=show.what_happened(receipt),
        )
    if receipt.next_attempt_at:
        yield Moment(at=receipt.next_attempt_at, what="the system tries again", tone="retryable")


def _attempts(receipt: Receipt) -> Iterator[Moment]:
    for attempt in Attempt.objects.filter(receipt=receipt).select_related("actor").order_by("attempt")[:SHOWN]:
        if attempt.started_at:
            yield Moment(at=attempt.started_at, what=f"attempt {attempt.attempt} began", who=attempt.actor.username)
        gate = (attempt.model_decision or {}).get("gate")
        said = show.sentence(attempt.error_code, attempt.error_reason) if attempt.error_code else _result(attempt)
        yield Moment(
            at=attempt.finished_at,
            what=f"attempt {attempt.attempt} ended: {attempt.status}",
            tone=attempt.status,
            who=attempt.actor.username,
            words=f"{said} Stopped at the gate “{gate}”." if gate else said,
            link=show.link(Attempt, attempt.pk, "its record"),
        )


def _result(attempt: Attempt) -> str:
    reference = (attempt.tool_result or {}).get("result_ref")
    return f"Filed as {reference}." if reference else ""


def _events(receipt: Receipt) -> Iterator[Moment]:
    for event in AuditEvent.objects.filter(receipt=receipt).select_related("actor").order_by("id")[:SHOWN]:
        reason = event.detail.get("reason") or event.detail.get("action")
        yield Moment(
            at=event.at,
            what=event.get_verb_display(),
            tone="event",
            who=event.actor.username if event.actor else "the system",
            words=show.visible(str(reason)) if reason else "",
            link=show.link(AuditEvent, event.pk, "its event"),
        )


def _replays(receipt: Receipt) -> Iterator[Moment]:
    for replay in Receipt.objects.filter(replay_of=receipt).select_related("user").order_by("replay_no")[:SHOWN]:
        yield Moment(
            at=replay.created_at,
            what=f"replayed as a new receipt, now {replay.status}",
            tone=str(replay.status),
            who=replay.user.username,
            words=show.visible(replay.replay_reason or ""),
            link=show.receipt(replay),
        )
