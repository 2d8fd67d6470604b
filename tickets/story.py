"""Why did this happen: one receipt, told from its rows. Reads only."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from receipts import circuit
from receipts.errors import ArgMismatch, FillInvalid
from receipts.explanations import Explanation, explain
from receipts.lifecycle import Outcome
from receipts.models import Attempt, AuditEvent, Circuit, Receipt, Verb
from tickets.models import Followup
from tickets.words import DECISION_REASONS, DECISIONS, Standing, by_hand, of_tool, person, standing

#: Audit events that belong to the story of a press. Who looked at it is the audit console's matter.
TOLD = (Verb.RETRY, Verb.REPLAY, Verb.CANCEL, Verb.HOLD, Verb.RETARGET_REFUSED)

#: Who decides each argument of a tool: shown beside its value.
AUTHORS = {"ticket_id": "the route"}

#: Tools whose arguments no person and no model chooses.
BY_ROUTE = ("check_contact_email", "deliver_email")

#: What a tool's output is called where it is shown.
OUTPUTS = {
    "decision": "Decision",
    "reason": "Because of",
    "review_until": "Look again by",
    "list_version": "Judged by",
    "handed_to": "Handed to",
}


#: Replays that a receipt's page names: each took somebody's reason.
REPLAYS_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One line of the time line."""

    at: dt.datetime
    what: str
    who: str = ""
    tone: str = ""
    """A standing's name, for the mark beside it; empty for a plain one."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """For an answer of the model provider."""

    since: dt.datetime
    sentence: str
    """What its last call came to."""
    again_at: dt.datetime | None
    """When one attempt tries again; None: about now."""


@dataclass(frozen=True, kw_only=True)
class Story:
    receipt: Receipt
    standing: Standing
    explanation: Explanation | None
    """Only of a failed receipt."""
    attempts: list[Attempt]
    followup: Followup | None
    timeline: list[Moment] = field(default_factory=list)
    replays: list[tuple[Receipt, Standing]] = field(default_factory=list)
    """What operators replayed it as, the newest first, and how each stands. It itself stays as it is."""
    waits_for: Wait | None = None
    """The provider does not answer, and nobody watches this: it is held back."""

    @property
    def last_attempt(self) -> Attempt | None:
        """The current attempt's own row, once it has ended."""
        ended = [attempt for attempt in self.attempts if attempt.attempt == self.receipt.attempt]
        return ended[0] if ended else None

    @property
    def decision(self) -> dict[str, Any] | None:
        return self.last_attempt.model_decision if self.last_attempt else None

    @property
    def proposed(self) -> dict[str, Any] | None:
        """What the model proposed, when that is a set of named values."""
        proposed = (self.decision or {}).get("proposed")
        return proposed if isinstance(proposed, dict) else None

    @property
    def raw_proposal(self) -> str | None:
        """What the model said instead of named values."""
        proposed = (self.decision or {}).get("proposed")
        return None if proposed is None or isinstance(proposed, dict) else str(proposed)

    @property
    def output(self) -> dict[str, Any]:
        """What the tool found or did beyond its reference."""
        return (self.last_attempt.tool_result.get("output") or {}) if self.last_attempt else {}

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """The output in words."""
        said = {"decision": DECISIONS, "reason": DECISION_REASONS}
        return [(OUTPUTS.get(name, name), said.get(name, {}).get(value, value)) for name, value in self.output.items()]

    @property
    def arguments(self) -> list[tuple[str, Any, str]]:
        """(argument, value, who decided it) of the validated arguments."""
        if self.decision:
            author = "the model"
        elif self.by_route:
            author = "the route"
        else:
            author = "the receipt that it replays" if self.receipt.replay_of_id else "a person, by hand"
        return [(name, value, AUTHORS.get(name, author)) for name, value in self.receipt.arguments_json.items()]

    @property
    def by_route(self) -> bool:
        """No person and no model chose the arguments."""
        return self.receipt.tool_name in BY_ROUTE

    @property
    def by_hand(self) -> bool:
        """A person wrote the arguments."""
        return written_by_hand(self.receipt, self.last_attempt)


def written_by_hand(receipt: Receipt, attempt: Attempt | None) -> bool:
    """Whether a person wrote what this settled receipt came to. A model leaves its decision on the attempt, whatever
    became of it; where arguments passed or failed the gates without one, they were given."""
    if attempt is None or attempt.model_decision or receipt.tool_name in BY_ROUTE or receipt.replay_of_id:
        return False
    return bool(receipt.arguments_json) or receipt.error_code in (FillInvalid.code, ArgMismatch.code)


def why_failed(receipt: Receipt, attempt: Attempt | None) -> Explanation | None:
    """None unless it failed."""
    return _why(receipt, attempt, receipt.error_code, receipt.error_reason) if receipt.error_code else None


def _why(receipt: Receipt, attempt: Attempt | None, code: str, reason: str | None) -> Explanation:
    said = explain(code, reason)
    return by_hand(reason or code, said) if written_by_hand(receipt, attempt) else said


@dataclass(frozen=True, kw_only=True)
class LatestPress:
    """A person's latest press on a ticket, as its page shows it before any script runs."""

    receipt: Receipt
    standing: Standing
    explanation: Explanation | None
    by_hand: bool
    elapsed: float
    """Seconds since its attempt began; by our clock, the browser's may be wrong."""


def latest_press(receipt: Receipt | None, now: dt.datetime) -> LatestPress | None:
    if receipt is None:
        return None
    attempt = Attempt.objects.filter(receipt=receipt, attempt=receipt.attempt).first()
    return LatestPress(
        receipt=receipt,
        standing=standing(receipt, now),
        explanation=why_failed(receipt, attempt),
        by_hand=written_by_hand(receipt, attempt),
        elapsed=max(0.0, (now - (receipt.started_at or receipt.created_at)).total_seconds()),
    )


def tell(receipt: Receipt, now: dt.datetime) -> Story:
    """Gather what is known of a receipt. Needs `receipt.user` and `receipt.on_behalf_of`."""
    attempts = list(Attempt.objects.filter(receipt=receipt).select_related("actor").order_by("attempt"))
    events = AuditEvent.objects.filter(receipt=receipt, verb__in=TOLD).select_related("actor").order_by("at", "id")
    latest = next((attempt for attempt in attempts if attempt.attempt == receipt.attempt), None)
    return Story(
        receipt=receipt,
        standing=standing(receipt, now),
        explanation=why_failed(receipt, latest),
        attempts=attempts,
        followup=Followup.objects.filter(receipt=receipt).first(),
        timeline=_timeline(receipt, attempts, list(events)),
        replays=[(replay, standing(replay, now)) for replay in _replays(receipt)],
        waits_for=wait_for(circuit.waiting(receipt, now), now),
    )


def _replays(receipt: Receipt) -> list[Receipt]:
    return list(Receipt.objects.filter(replay_of=receipt).select_related("user").order_by("-replay_no")[:REPLAYS_SHOWN])


def wait_for(held_by: Circuit | None, now: dt.datetime) -> Wait | None:
    """The open circuit in words that stand beside what it holds back."""
    if held_by is None or held_by.open_since is None or held_by.open_until is None:
        return None
    return Wait(
        since=held_by.open_since,
        sentence=explain("", held_by.last_reason).sentence,
        again_at=held_by.open_until if held_by.open_until > now else None,
    )


def _timeline(receipt: Receipt, attempts: list[Attempt], events: list[AuditEvent]) -> list[Moment]:
    moments = [Moment(at=receipt.created_at, what=_opened(receipt), who=person(receipt.user))]
    # a deed has the very instant of what it caused, and is told first
    moments += [
        Moment(at=event.at, what=_deed(event), who=person(event.actor) if event.actor else "the system")
        for event in events
    ]
    for attempt in attempts:
        moments += _attempt(receipt, attempt)
    if receipt.started_at and receipt.settled_at is None:
        moments.append(Moment(at=receipt.started_at, what=f"Attempt {receipt.attempt} began", tone="drafting"))
    return sorted(moments, key=lambda moment: moment.at)


def _opened(receipt: Receipt) -> str:
    if receipt.replay_of_id:
        return f"Replay {receipt.replay_no} was opened, as a new run"
    if receipt.tool_name == "deliver_email":
        return "Asked for by the message in the outbox, in the same commit; the receipt was written as pending"
    return "Pressed; the receipt was written as pending"


def _attempt(receipt: Receipt, attempt: Attempt) -> list[Moment]:
    began = []
    if attempt.started_at:
        began = [Moment(at=attempt.started_at, what=f"Attempt {attempt.attempt} began", who=person(attempt.actor))]
    if attempt.status == Outcome.OK:
        ended = Moment(
            at=attempt.finished_at,
            what=f"{of_tool(receipt.tool_name).done}, and stamped: {attempt.tool_result.get('result_ref')}",
            tone="filed",
        )
    else:
        why = _why(receipt, attempt, attempt.error_code or "", attempt.error_reason)
        ended = Moment(
            at=attempt.finished_at, what=f"Attempt {attempt.attempt} ended. {why.sentence}", tone="not_filed"
        )
    return [*began, ended]


def _deed(event: AuditEvent) -> str:
    deed = Verb(event.verb).label[:1].upper() + Verb(event.verb).label[1:]
    if event.verb == Verb.HOLD:
        return f"{deed}. {explain('', event.detail.get('reason')).sentence}"
    return deed
