"""The state machine of a receipt, on one screen. No ORM, no HTTP.

    pending ──settle──▶ applied            (for good)
       │  ▲
       │  └───reopen───┐
       └──settle──▶ failed  (retryable: may reopen as the next attempt; else for good)

The CHECK constraints, the trigger's test, the admin's badge and the README's diagram come from here.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    PENDING = "pending"
    APPLIED = "applied"
    FAILED = "failed"


class Outcome(StrEnum):
    """What an attempt came to, as the run receipt says it."""

    OK = "ok"
    RETRYABLE = "retryable"
    FAILED = "failed"


#: (from, to) → what the step is called. A step that is not here does not exist.
TRANSITIONS: dict[tuple[Status, Status], str] = {
    (Status.PENDING, Status.APPLIED): "settle",
    (Status.PENDING, Status.FAILED): "settle",
    (Status.FAILED, Status.PENDING): "reopen",
}

#: A write lineage holds at most one receipt in these states (the constraint one_live_write_per_lineage).
LIVE = (Status.PENDING, Status.APPLIED)


def outcome(status: Status | str, retryable: bool | None) -> Outcome | None:
    """The outcome that a status and its error amount to; None while pending."""
    match Status(status):
        case Status.PENDING:
            return None
        case Status.APPLIED:
            return Outcome.OK
        case Status.FAILED:
            return Outcome.RETRYABLE if retryable else Outcome.FAILED
