"""How an attempt ends: the change made and stamped in one commit, or the failure stamped. The row says which.

What leaves the database is handed over before the stamp, at most once; where its outcome cannot be known, the row says
so.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from functools import cached_property

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from receipts import fill, ledger, unwatched
from receipts.contracts import (
    Applied,
    Arguments,
    Context,
    Effect,
    FollowOn,
    Handover,
    NotHandedOver,
    Tool,
    ToolRefusal,
    registry,
)
from receipts.decisions import decision_of
from receipts.errors import (
    Abandoned,
    ApplyFailed,
    ArgMismatch,
    ContractGone,
    DeadlineExceeded,
    DeliveryFailed,
    FillInvalid,
    InternalError,
    OutcomeUnknown,
    ReceiptsError,
    TicketConflict,
)
from receipts.jobs import enqueue_attempt
from receipts.lifecycle import Outcome, Status, outcome
from receipts.manifest import tool_of
from receipts.models import Receipt, Run, Verb
from receipts.openings import opening_of
from receipts.presses import Input
from receipts.sealing import sealer
from receipts.told import DECISION

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """An attempt whose arguments have been judged, on its way to its row."""

    receipt: Receipt
    tool: Tool
    context: Context
    given: Input
    filled: fill.Filled | ReceiptsError
    begun: float
    """Monotonic seconds when the attempt began."""

    @property
    def arguments(self) -> Arguments | None:
        """What passed the gates, exact; None where it did not come so far."""
        return None if isinstance(self.filled, ReceiptsError) else self.filled.arguments

    @cached_property
    def decision(self) -> ledger.Decision:
        return decision_of(self.filled)

    # ── outside the database ─────────────────────────────────────────────────────────────────────────────────────

    def hand_over(self, handover: Handover) -> Applied | ReceiptsError:
        """Make a change outside, if the row is still ours: what came of it, or why nothing left, or that nobody knows.

        No transaction is open, and none may be when the other side is spoken to.
        """
        try:
            if self.arguments is None or self._left_ms() <= 0 or not ledger.holds(self.receipt):
                return DeadlineExceeded(reason="attempt_deadline")
        except (DatabaseError, InterfaceError) as error:
            return self._apply_failed(error)
        try:
            return handover.hand_over(self.arguments, self.receipt)
        except NotHandedOver as certain:
            return DeliveryFailed(reason=certain.reason, retryable=certain.retryable)
        except Exception as error:  # whatever it was, it may have left
            log.exception("the outcome of receipt %s is not known: %s", self.receipt.pk, type(error).__name__)
            return OutcomeUnknown()

    # ── commit 2 ─────────────────────────────────────────────────────────────────────────────────────────────────

    def settle(self, handed: Applied | ReceiptsError | None = None) -> Receipt | None:
        """Make the change and stamp it, or stamp the failure. The row as it is afterwards, whoever wrote it.

        `handed`: what came of the change outside, for a Handover.
        """
        done = self._end(handed)
        if isinstance(done, Receipt):
            return self._told(done)
        decision = self.decision
        if self.arguments is not None:
            # exact arguments are kept, sealed, where a replay without the model may need them
            decision = replace(decision, sealed=self._sealed())
        settled = ledger.settle_failed(
            self.receipt,
            done,
            decision=decision,
            replayable=self.tool.replayable(outcome(Status.FAILED, done.retryable) or Outcome.FAILED),
            event=self._event(done),
            **unwatched.again(self.receipt, done),
        )
        if settled is None:  # fenced: the row belongs to another attempt, or was settled from outside
            return ledger.read(self.receipt.pk)
        settled.retry_after = done.retry_after
        return self._told(settled)

    def _end(self, handed: Applied | ReceiptsError | None) -> Receipt | ReceiptsError:
        """The applied row, or the error to settle with; then nothing of this attempt is in the database."""
        if isinstance(self.filled, ReceiptsError):
            return self.filled
        if self.filled.arguments is None:
            return self.filled.error or InternalError()
        if isinstance(handed, ReceiptsError):
            return handed
        done = self._apply(self.filled.arguments, handed)
        # what has left stays gone: a stamp that failed or came too late takes nothing back
        return OutcomeUnknown() if handed is not None and isinstance(done, ReceiptsError) else done

    def _apply(self, arguments: Arguments, handed: Applied | None) -> Receipt | ReceiptsError:
        left_ms = self._left_ms()
        if left_ms <= 0:
            return DeadlineExceeded(reason="attempt_deadline")
        decision = self.decision
        if self.tool.effect is Effect.READ:  # a read may run again after it was applied
            decision = replace(decision, sealed=self._sealed())
        try:
            return ledger.apply(
                self.receipt,
                self.tool,
                arguments,
                self.context,
                decision=decision,
                lock_timeout_ms=settings.APPLY_LOCK_TIMEOUT_MS,
                statement_timeout_ms=min(settings.APPLY_STATEMENT_TIMEOUT_MS, left_ms),
                handed=handed,
                follow=follow,
            )
        except ledger.Fenced:
            return DeadlineExceeded(reason="attempt_deadline")
        except ToolRefusal as refusal:
            policy = refusal.reason.startswith("policy_")
            return FillInvalid(reason=refusal.reason) if policy else TicketConflict(reason=refusal.reason)
        except (DatabaseError, InterfaceError) as error:
            return self._apply_failed(error)
        except Exception:
            log.exception("the tool %s broke at receipt %s", self.tool.contract, self.receipt.pk)
            return InternalError()

    def _apply_failed(self, error: Exception) -> ApplyFailed:
        """After a broken COMMIT the change may be there: settling waits for the row's lock and finds it applied."""
        sqlstate = getattr(error.__cause__, "sqlstate", None)
        log.warning("apply of receipt %s failed: %s %s", self.receipt.pk, type(error).__name__, sqlstate or "")
        connection.close()
        reasons = {"55P03": "lock_timeout", "57014": "statement_timeout"}
        return ApplyFailed(reason=reasons.get(sqlstate or "", "database_error"))

    def _left_ms(self) -> int:
        return int((settings.ATTEMPT_DEADLINE_SECONDS - (time.monotonic() - self.begun)) * 1000)

    def _sealed(self) -> bytes:
        return sealer().seal(self.given.as_json() | {"arguments": self.arguments})

    def _event(self, error: ReceiptsError) -> ledger.Event | None:
        """A model that names another ticket is a security event."""
        if not isinstance(error, ArgMismatch):
            return None
        return ledger.Event(verb=Verb.RETARGET_REFUSED, actor_id=None, detail={"attempt": self.receipt.attempt})

    def _told(self, settled: Receipt) -> Receipt:
        """Carry over what this process knows, so that answering needs no further query."""
        setattr(settled, DECISION, self.decision.record)
        if "user" in self.receipt._state.fields_cache:
            settled.user = self.receipt.user
        return settled


def follow(applied: Receipt, asked: FollowOn) -> None:
    """Open the receipt that a change asks for: queued, its job beside it, for the same person, under the same run."""
    ledger.open_follow_on(
        opening_of(
            tool=registry.current(asked.tool, settings.CONTRACTS),
            subject=asked.subject,
            given=Input(arguments=asked.arguments),
            user_id=applied.user_id,
            key=asked.key,
            trigger=Run.objects.values_list("trigger", flat=True).get(pk=applied.run_id),
            queued=True,
            on_behalf_of_id=applied.on_behalf_of_id,
            parent_run_id=applied.run_id,
        ),
        enqueue_attempt,
    )


def lost(receipt: Receipt) -> tuple[ReceiptsError, bool]:
    """What is known of a pending attempt whose time is over: (the error, whether its contract lets it be replayed).

    A change that leaves the database may have left.
    """
    begun = receipt.started_at is not None
    try:
        tool = tool_of(receipt)
    except ContractGone:
        outside = receipt.effect == Effect.OUTBOX
        return (OutcomeUnknown() if begun and outside else _abandoned(begun)), False
    if begun and isinstance(tool.apply, Handover):
        return OutcomeUnknown(), False
    return _abandoned(begun), tool.replayable(Outcome.RETRYABLE)


def _abandoned(begun: bool) -> Abandoned:
    return Abandoned(reason="process_died" if begun else "never_started")
