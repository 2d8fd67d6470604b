"""Replay: an operator's deliberate new run from recorded context. The old receipt stays as it is.

`verdict` is the dry run behind every confirm page and writes nothing; `replay` asks the same questions again and then
the database, which has the last word: one live receipt a lineage, one replay a number. The button, the API and a bulk
replay all call it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from receipts import attempts, fill, ledger, permissions, throttle
from receipts.contracts import Context, Tool, registry
from receipts.errors import (
    AppliedInLineage,
    ContractGone,
    InFlight,
    InputExpired,
    InvalidRequest,
    NoArguments,
    NotReplayable,
    ReceiptsError,
    StaleReplayNo,
    TargetRefuses,
)
from receipts.flow import Filing
from receipts.jobs import enqueue_attempt
from receipts.lifecycle import Status
from receipts.models import Receipt, Trigger
from receipts.openings import opening_of
from receipts.presses import Input
from receipts.redaction import redact_text
from receipts.told import LINEAGE, replay_refusal

log = logging.getLogger(__name__)

#: Characters of a reason: a sentence or two, which an auditor reads years later.
REASON_MAX = 500


class Mode(StrEnum):
    """What a replay runs on."""

    SAME_ARGUMENTS = "same_arguments"
    """The validated arguments of the original, no model call."""
    DRAFT_AGAIN = "draft_again"
    """The original's notes, drafted anew."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a replay of one receipt would be, or why it would be refused, as things stand."""

    receipt: Receipt
    mode: Mode | None
    """None: refused before that was clear."""
    tool: Tool | None
    """The contract it would run under."""
    replay_no: int
    """The number it would have; sent back as `expected_replay_no`."""
    refusal: ReceiptsError | None
    given: Input | None = None
    """What it would run on. Private: never shown, never logged."""

    @property
    def newer(self) -> bool:
        """Whether it would run under another contract than the original's."""
        return self.tool is not None and self.tool.contract != self.receipt.contract


def verdict(receipt: Receipt, *, mode: Mode | None = None, contract: str | None = None) -> Verdict:
    """The dry run: writes nothing, asks no model. Refusals come in the order of DESIGN's names.

    `mode` None: the same arguments where they are kept, else a new draft. `contract` (`file_followup@2`) chooses
    another version of the same tool; None is the pinned one.
    """
    number = ledger.next_replay_no(receipt.pk)
    tool: Tool | None = None
    chosen: Mode | None = mode
    try:
        _refuse_by_lineage(receipt)
        tool = _contract(receipt, contract)
        chosen, given = _given(receipt, tool, mode)
        _refuse_by_target(receipt, tool, given)
    except ReceiptsError as refusal:
        return Verdict(receipt=receipt, mode=chosen, tool=tool, replay_no=number, refusal=refusal)
    return Verdict(receipt=receipt, mode=chosen, tool=tool, replay_no=number, refusal=None, given=given)


def read_reason(value: Any) -> str:
    """A reason as a person gave it, trimmed and redacted. Raises: InvalidRequest."""
    if not isinstance(value, str) or not (reason := fill.sanitise(value).strip()):
        raise InvalidRequest(
            "A replay needs a reason. Nothing was run.", fields={"reason": "is missing: say why, for those who read it"}
        )
    if len(reason) > REASON_MAX:
        raise InvalidRequest(fields={"reason": f"has {len(reason):,} characters; at most {REASON_MAX} fit"})
    return redact_text(reason)


def replay(
    *,
    user: Any,
    receipt: Receipt,
    reason: str,
    mode: Mode | None = None,
    contract: str | None = None,
    expected_no: int | None = None,
    queued: bool = False,
    beside: Callable[[Receipt], None] | None = None,
    in_bulk: bool = False,
) -> Filing:
    """Open a new run from what is recorded of a settled receipt, and begin its attempt, or queue it.

    `expected_no`: the number that the operator was shown. `beside` writes what belongs to the new receipt in the same
    transaction. `in_bulk`: the plan was counted as one press.

    Raises: PermissionDenied, InvalidRequest, Throttled, Overloaded; and before any row AppliedInLineage, InFlight,
        NotReplayable, InputExpired, NoArguments, ContractGone, TargetRefuses, StaleReplayNo, with the receipt to look
        at where there is one.
    """
    permissions.require(user, permissions.REPLAY, receipt)
    reason = read_reason(reason)
    if in_bulk:
        return _replay(user, receipt, reason, mode, contract, expected_no, queued, beside)
    with throttle.turn(user.pk):
        return _replay(user, receipt, reason, mode, contract, expected_no, queued, beside)


def _replay(
    user: Any,
    receipt: Receipt,
    reason: str,
    mode: Mode | None,
    contract: str | None,
    expected_no: int | None,
    queued: bool,
    beside: Callable[[Receipt], None] | None,
) -> Filing:
    found = verdict(receipt, mode=mode, contract=contract)
    if expected_no is not None and expected_no != found.replay_no:
        raise _stale(receipt)  # first, because it explains the rest
    if found.refusal is not None:
        raise found.refusal
    opening = _opening(user, found, queued)
    detail = {"mode": str(found.mode), "contract": opening.tool.contract}
    if queued:

        def job_and_more(opened: Receipt) -> None:
            if beside is not None:
                beside(opened)  # first: what belongs to a bulk replay queues behind what somebody asked for
            enqueue_attempt(opened)

        _context, opened = _opened(opening, receipt, reason, expected_no, detail, job_and_more)
        opened.user = user
        return Filing(receipt=opened, deduplicated=False)
    with attempts.place() as taken:
        begun = time.monotonic()
        context, opened = _opened(opening, receipt, reason, expected_no, detail, beside)
        opened.user = user
        assert found.given is not None  # noqa: S101 - no refusal
        inflight = taken.start(opened, context, found.given, begun)
        return Filing(receipt=opened, deduplicated=False, inflight=inflight)


def _opening(user: Any, found: Verdict, queued: bool) -> ledger.Opening:
    receipt, tool, given = found.receipt, found.tool, found.given
    assert tool is not None and given is not None  # noqa: S101, PT018 - no refusal
    return opening_of(
        tool=tool,
        subject=receipt.subject,
        given=given,
        user_id=user.pk,
        key="",  # the ledger makes it, with the number
        route=f"replay:{receipt.pk}",
        trigger=Trigger.REPLAY,
        queued=queued,
        also={"replay": {"of": str(receipt.pk), "mode": str(found.mode)}},
    )


def _opened(
    opening: ledger.Opening,
    receipt: Receipt,
    reason: str,
    expected_no: int | None,
    detail: dict[str, str],
    beside: Callable[[Receipt], None] | None,
) -> tuple[Context, Receipt]:
    """Raises: what the database refused by, in our names."""
    context, opened = ledger.open_replay(
        opening, original=receipt, reason=reason, expected_no=expected_no, detail=detail, beside=beside
    )
    if isinstance(opened, Receipt):
        assert context is not None  # noqa: S101 - read by the same statement
        log.info("receipt %s was replayed as %s, replay %s", receipt.pk, opened.pk, opened.replay_no)
        return context, opened
    if opened.constraint == "one_replay_per_number":
        raise _stale(receipt)
    now = ledger.read(receipt.pk)
    if now is not None:
        _refuse_by_lineage(now)
    raise TargetRefuses(reason="ticket_gone", receipt_id=str(receipt.pk))


# ── the questions ────────────────────────────────────────────────────────────────────────────────────────────────


def _refuse_by_lineage(receipt: Receipt) -> None:
    """Raises: InFlight, AppliedInLineage, NotReplayable, ContractGone, with the receipt that speaks for the lineage."""
    live = ledger.live_in_lineage(receipt.root_id, but=receipt.pk)
    if live is not None:
        receipt.__dict__[LINEAGE] = live[1]
    own = receipt.status in (Status.PENDING, Status.APPLIED)
    speaks = str(live[0]) if live is not None and not own else str(receipt.pk)
    match replay_refusal(receipt):
        case "in_flight":
            raise InFlight(receipt_id=speaks)
        case "applied_in_lineage":
            raise AppliedInLineage(receipt_id=speaks)
        case "contract_gone":
            raise ContractGone(receipt_id=str(receipt.pk))
        case "not_replayable":
            raise NotReplayable(receipt_id=str(receipt.pk))


def _contract(receipt: Receipt, contract: str | None) -> Tool:
    """The pinned version, which `replay_refusal` has found unchanged, or the one that was chosen.

    Raises: ContractGone, InvalidRequest.
    """
    name, _, version = (contract or receipt.contract).partition("@")
    if name != receipt.tool_name or not re.fullmatch(r"[0-9]{1,9}", version):
        raise InvalidRequest(fields={"contract": f"must be a version of {receipt.tool_name}, like {receipt.contract}"})
    try:
        return registry.get(name, int(version))
    except KeyError:
        raise ContractGone(receipt_id=str(receipt.pk)) from None


def _given(receipt: Receipt, tool: Tool, mode: Mode | None) -> tuple[Mode, Input]:
    """What is kept of the original's input, for this mode; a tool that derives its arguments may derive them anew.

    Raises: InputExpired, NoArguments.
    """
    kept: Mapping[str, Any] = attempts.unsealed(receipt)
    notes, arguments = kept.get("notes"), kept.get("arguments")
    if mode is None:
        mode = Mode.DRAFT_AGAIN if arguments is None else Mode.SAME_ARGUMENTS
    if mode is Mode.SAME_ARGUMENTS:
        if arguments is None:
            raise NoArguments(receipt_id=str(receipt.pk))
        return mode, Input(arguments=arguments)
    if tool.derive is not None:
        return mode, Input()
    if notes is None:
        raise InputExpired(receipt_id=str(receipt.pk))
    return mode, Input(notes=notes)


def _refuse_by_target(receipt: Receipt, tool: Tool, given: Input) -> None:
    """Raises: TargetRefuses where the ticket as it is now would not take it."""
    context = ledger.context(tool, receipt.subject)
    if context is None:
        raise TargetRefuses(reason="ticket_gone", receipt_id=str(receipt.pk))
    if context.refusal is not None:
        raise TargetRefuses(reason=context.refusal, receipt_id=str(receipt.pk))
    if given.arguments is not None:
        judged = fill.judge_given(given.arguments, tool, context)
        if judged.error is not None:
            raise TargetRefuses(reason=judged.error.reason, receipt_id=str(receipt.pk))


def _stale(receipt: Receipt) -> StaleReplayNo:
    newest = ledger.newest_replay(receipt.pk)
    return StaleReplayNo(receipt_id=str(newest) if newest else None)
