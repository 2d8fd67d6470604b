"""The errors: one tree for codes, one table for reasons.

A *code* is what the wire calls `code` and the row `error_code`: it fixes the HTTP status. A *reason* is the finer
cause below a code (`reason`, `error_reason`). Each has a sentence for the person who pressed, an owner (whose turn
it is) and a next step. Statuses and the quoted sentences: the filing contract; reasons: what real providers do.

No ORM and no HTTP here: the wire layer reads the numbers, the ledger reads the names, the pages read the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar


class Owner(StrEnum):
    """Whose turn it is."""

    YOU = "you"
    MODEL = "the model"
    SYSTEM = "the system"
    OPERATOR = "an operator"


class ReceiptsError(Exception):
    """A refusal or failure with a name.

    Attributes:
        code: the wire's `code`, the row's `error_code`.
        http_status: the status owed for it.
        retryable: may the same key be sent again and run?
        detail: one sentence for the person; exactly this text on the wire.
        owner, next_step: whose turn it is, and what to do.
        reason: a key of `REASONS`, or None.
        receipt_id: the receipt that the answer is about, if one exists.
        retry_after: seconds (int ≥ 1) after which asking again makes sense, or None.
        fields: for `invalid_request`: field name → what is wrong with it.
    """

    code: ClassVar[str]
    http_status: ClassVar[int]
    default_retryable: ClassVar[bool] = False
    title: ClassVar[str]
    default_detail: ClassVar[str]
    owner: ClassVar[Owner]
    next_step: ClassVar[str]

    def __init__(
        self,
        detail: str | None = None,
        *,
        reason: str | None = None,
        retryable: bool | None = None,
        receipt_id: str | None = None,
        retry_after: int | None = None,
        fields: dict[str, str] | None = None,
    ) -> None:
        if reason is not None and reason not in REASONS:
            raise ValueError(f"unknown reason {reason!r}")
        self.detail = detail or self.default_detail
        self.reason = reason
        if retryable is None:
            known = REASONS[reason].retryable if reason else None
            retryable = self.default_retryable if known is None else known
        self.retryable = retryable
        self.receipt_id = receipt_id
        self.retry_after = retry_after
        self.fields = fields or {}
        super().__init__(f"{self.code}{f' ({reason})' if reason else ''}: {self.detail}")


# ── refused before any receipt ───────────────────────────────────────────────────────────────────────────────────


class NotAuthenticated(ReceiptsError):
    code, http_status, title = "not_authenticated", 401, "Not signed in"
    default_detail = "You are not signed in, or your sign-in has expired."
    owner, next_step = Owner.YOU, "Sign in, or send a valid token, and try again."


class PermissionDenied(ReceiptsError):
    code, http_status, title = "permission_denied", 403, "Not allowed"
    default_detail = "Your role does not allow this."
    owner, next_step = Owner.OPERATOR, "Ask an administrator for the role that includes it."


class NotFound(ReceiptsError):
    code, http_status, title = "not_found", 404, "Not found"
    default_detail = "There is nothing here that you can see."
    owner, next_step = Owner.YOU, "Check the address."


class MethodNotAllowed(ReceiptsError):
    code, http_status, title = "method_not_allowed", 405, "Method not allowed"
    default_detail = "This address does not answer that method."
    owner, next_step = Owner.YOU, "See the API's documentation for the methods of this address."


class NotAcceptable(ReceiptsError):
    code, http_status, title = "not_acceptable", 406, "Not acceptable"
    default_detail = "None of the formats in the Accept header can be produced here."
    owner, next_step = Owner.YOU, "Ask for application/json."


class UnsupportedMediaType(ReceiptsError):
    code, http_status, title = "unsupported_media_type", 415, "Unsupported media type"
    default_detail = "The body is not in a format that is understood here."
    owner, next_step = Owner.YOU, "Send the body as application/json."


class Throttled(ReceiptsError):
    code, http_status, default_retryable, title = "throttled", 429, True, "Too many presses"
    default_detail = "You have pressed too often in the last minute. Nothing was drafted or filed."
    owner, next_step = Owner.YOU, "Wait a moment, then press again; the same key stays usable."


class IdempotencyKeyRequired(ReceiptsError):
    code, http_status, title = "idempotency_key_required", 400, "Idempotency-Key required"
    default_detail = "The header Idempotency-Key is missing."
    owner, next_step = Owner.YOU, "Send a fresh unique key, a UUID for instance, and repeat it on every retry."


class IdempotencyKeyInvalid(ReceiptsError):
    code, http_status, title = "idempotency_key_invalid", 400, "Idempotency-Key invalid"
    default_detail = (
        "The Idempotency-Key must be 8 to 255 of A-Z a-z 0-9 . _ : ~ - and not begin with a reserved prefix."
    )
    owner, next_step = Owner.YOU, "Send a well-formed key, a UUID for instance."


class InvalidRequest(ReceiptsError):
    code, http_status, title = "invalid_request", 400, "Invalid request"
    default_detail = "The request is not valid. Nothing was drafted or filed."
    owner, next_step = Owner.YOU, "Correct the named field and send it again."


class TicketMismatch(ReceiptsError):
    code, http_status, title = "ticket_mismatch", 422, "Ticket mismatch"
    default_detail = "ticket_id mismatch"
    owner, next_step = Owner.YOU, "Send the ticket_id of the address, or leave it out."


class Overloaded(ReceiptsError):
    code, http_status, default_retryable, title = "overloaded", 503, True, "Too many drafts in flight"
    default_detail = "Too many drafts are being written right now. Nothing was drafted or filed."
    owner, next_step = Owner.SYSTEM, "Press again in a few seconds; the same key stays usable."


class DatabaseUnavailable(ReceiptsError):
    code, http_status, default_retryable, title = "database_unavailable", 503, True, "Ledger unreachable"
    default_detail = "The ledger cannot be reached, so it cannot say yet what became of this."
    owner, next_step = Owner.OPERATOR, "Send the same key again in a moment: the row will tell."


class InternalError(ReceiptsError):
    code, http_status, default_retryable, title = "internal_error", 500, True, "Fault in this product"
    default_detail = "Something in this product broke. Nothing was filed by this attempt."
    owner, next_step = Owner.OPERATOR, "Press again; if it happens twice, give the receipt to an operator."


class ServerFault(ReceiptsError):
    code, http_status, default_retryable, title = "server_fault", 500, True, "Fault in this product"
    default_detail = "Something in this product broke. If a receipt was opened, it tells what became of it."
    owner, next_step = (
        Owner.OPERATOR,
        "Send the same key again: the row will tell. If it happens twice, tell an operator.",
    )


# ── answered from the ledger ─────────────────────────────────────────────────────────────────────────────────────


class IdempotencyInFlight(ReceiptsError):
    code, http_status, default_retryable, title = "idempotency_in_flight", 409, True, "Already being worked on"
    default_detail = "This press is already being worked on."
    owner, next_step = Owner.SYSTEM, "Wait for it: the receipt says when it is settled."


class IdempotencyKeyReused(ReceiptsError):
    code, http_status, title = "idempotency_key_reused", 422, "Idempotency-Key reused"
    default_detail = "This Idempotency-Key was used for another request."
    owner, next_step = Owner.YOU, "Use a new key for a new request."


class ContractGone(ReceiptsError):
    code, http_status, title = "contract_gone", 409, "Contract gone"
    default_detail = "This version of the product no longer holds the contract that the receipt was opened with."
    owner, next_step = Owner.YOU, "Press anew with a new key, under the contract of today."


class InputExpired(ReceiptsError):
    code, http_status, title = "input_expired", 409, "Input expired"
    default_detail = "The notes of this receipt are no longer kept, so it cannot run again by itself."
    owner, next_step = Owner.YOU, "Press anew with the notes."


class AlreadySettled(ReceiptsError):
    code, http_status, title = "already_settled", 409, "Already settled"
    default_detail = "It was settled, or was leaving for the other side, before it could be cancelled."
    owner, next_step = Owner.YOU, "Look at the receipt: it says what came of it."


class Superseded(ReceiptsError):
    code, http_status, title = "superseded", 409, "Superseded"
    default_detail = "Another receipt of the same lineage is pending or applied; this one stays as it is."
    owner, next_step = Owner.YOU, "Look at the receipt named here: it speaks for this request now."


# ── replay refused, before any row ───────────────────────────────────────────────────────────────────────────────


class AppliedInLineage(ReceiptsError):
    code, http_status, title = "applied_in_lineage", 409, "Already applied"
    default_detail = "This was applied already, by this receipt or by another one of its lineage. Nothing was run."
    owner, next_step = Owner.YOU, "Look at the receipt named here: it made the change."


class InFlight(ReceiptsError):
    code, http_status, title = "in_flight", 409, "Being worked on"
    default_detail = "This receipt, or another one of its lineage, is being worked on. Nothing was run."
    owner, next_step = Owner.SYSTEM, "Wait until it is settled, then look again."


class NotReplayable(ReceiptsError):
    code, http_status, title = "not_replayable", 409, "Not replayable"
    default_detail = "What this tool does cannot be repeated safely, or nobody knows whether it happened."
    owner, next_step = Owner.OPERATOR, "Find out on the other side what happened; press anew if it did not."


class NoArguments(ReceiptsError):
    code, http_status, title = "no_arguments", 409, "No arguments kept"
    default_detail = "No arguments of this receipt passed the gates, so there are none to run again without the model."
    owner, next_step = Owner.YOU, "Replay it with a new draft instead."


class TargetRefuses(ReceiptsError):
    code, http_status, title = "target_refuses", 409, "The ticket refuses"
    default_detail = "The ticket as it is now does not take this. Nothing was run."
    owner, next_step = Owner.YOU, "Look at the ticket; put right what the reason names, then replay."


class StaleReplayNo(ReceiptsError):
    code, http_status, title = "stale_replay_no", 409, "Replayed meanwhile"
    default_detail = "Somebody has replayed this receipt since you looked. Nothing was run."
    owner, next_step = Owner.YOU, "Look at the replay named here before you replay again."


# ── settled on the receipt ───────────────────────────────────────────────────────────────────────────────────────


class FillFailed(ReceiptsError):
    code, http_status, default_retryable, title = "fill_failed", 502, True, "Argument fill failed"
    default_detail = "argument fill failed"
    owner, next_step = Owner.SYSTEM, "Press again, or file it by hand."


class FillInvalid(ReceiptsError):
    code, http_status, title = "fill_invalid", 422, "Draft not acceptable"
    default_detail = "the model's answer is not acceptable"
    owner, next_step = Owner.MODEL, "Change the notes and press again with a new key."


class ArgMismatch(ReceiptsError):
    code, http_status, title = "arg_mismatch", 422, "Retarget refused"
    default_detail = "model attempted to retarget ticket"
    owner, next_step = Owner.MODEL, "Check the notes for text that names another ticket; then press anew."


class DeadlineExceeded(ReceiptsError):
    code, http_status, default_retryable, title = "deadline_exceeded", 504, True, "Deadline exceeded"
    default_detail = "The draft was not complete in time. Nothing was filed, and late words will not be."
    owner, next_step = Owner.SYSTEM, "Press again."


class TicketConflict(ReceiptsError):
    code, http_status, title = "ticket_conflict", 409, "The ticket refuses"
    default_detail = "The ticket was closed or removed while the draft was being written. Nothing was filed."
    owner, next_step = Owner.YOU, "Look at the ticket; reopen it if the follow-up is still wanted, and press anew."


class ApplyFailed(ReceiptsError):
    code, http_status, default_retryable, title = "apply_failed", 503, True, "Could not be filed"
    default_detail = "The draft was fine but the change could not be made. Nothing was filed."
    owner, next_step = Owner.SYSTEM, "Press again."


class DeliveryFailed(ReceiptsError):
    code, http_status, title = "delivery_failed", 502, "Not handed over"
    default_detail = "It could not be handed over. Nothing has left."
    owner, next_step = Owner.OPERATOR, "Put right what the reason names, then have it sent anew."


class OutcomeUnknown(ReceiptsError):
    code, http_status, title = "outcome_unknown", 504, "Outcome unknown"
    default_detail = "It was being handed over when the connection or the process broke: it may have left, or not."
    owner, next_step = (
        Owner.OPERATOR,
        "Look for it on the other side. It is never sent again by itself, and cannot be replayed.",
    )


class Abandoned(ReceiptsError):
    code, http_status, default_retryable, title = "abandoned", 504, True, "Abandoned"
    default_detail = "The process that worked on this ended before it could file. Nothing was filed."
    owner, next_step = Owner.SYSTEM, "Press again."


class Cancelled(ReceiptsError):
    code, http_status, default_retryable, title = "cancelled", 409, True, "Cancelled"
    default_detail = "This was cancelled before it was filed."
    owner, next_step = Owner.YOU, "Press again when you want it filed."


@dataclass(frozen=True, kw_only=True)
class Reason:
    """The finer cause below a code."""

    sentence: str
    """What happened, for the person who pressed."""
    owner: Owner
    """Whose turn it is."""
    next_step: str
    """What to do now."""
    retryable: bool | None = field(default=None)
    """May the same key run again? None: as its code says."""


_WAIT = "Press again in a moment."
_NEW = "Change the notes and press again."
_TELL = "Tell an operator: pressing again will not help until it is put right."

REASONS: dict[str, Reason] = {
    # provider: no complete answer (fill_failed)
    "provider_unconfigured": Reason(
        sentence="No model provider is set up.", owner=Owner.OPERATOR, next_step=_TELL, retryable=False
    ),
    "provider_unreachable": Reason(
        sentence="The model provider could not be reached.", owner=Owner.SYSTEM, next_step=_WAIT, retryable=True
    ),
    "provider_redirect": Reason(
        sentence="The model provider answered with a redirect, which is never followed.",
        owner=Owner.OPERATOR, next_step=_TELL, retryable=False,
    ),
    "provider_auth": Reason(
        sentence="The model provider refused our credentials.", owner=Owner.OPERATOR, next_step=_TELL, retryable=False
    ),
    "provider_quota": Reason(
        sentence="The quota at the model provider is used up.", owner=Owner.OPERATOR, next_step=_TELL, retryable=False
    ),
    "provider_rate_limited": Reason(
        sentence="The model provider is limiting our rate.", owner=Owner.SYSTEM, next_step=_WAIT, retryable=True
    ),
    "provider_not_found": Reason(
        sentence="The model provider does not know this address or model.",
        owner=Owner.OPERATOR, next_step=_TELL, retryable=False,
    ),
    "provider_rejected_request": Reason(
        sentence="The model provider rejected the request.", owner=Owner.OPERATOR, next_step=_TELL, retryable=False
    ),
    "provider_unavailable": Reason(
        sentence="The model provider is unavailable.", owner=Owner.SYSTEM, next_step=_WAIT, retryable=True
    ),
    "provider_error_in_200": Reason(
        sentence="The model provider reported an error of its own.", owner=Owner.SYSTEM, next_step=_WAIT, retryable=True
    ),
    "provider_protocol": Reason(
        sentence="The answer of the model provider could not be understood.",
        owner=Owner.OPERATOR, next_step=_WAIT, retryable=True,
    ),
    "provider_truncated": Reason(
        sentence="The answer of the model provider broke off.", owner=Owner.SYSTEM, next_step=_WAIT, retryable=True
    ),
    "provider_timeout": Reason(
        sentence="The model provider did not answer in time.", owner=Owner.SYSTEM, next_step=_WAIT, retryable=True
    ),
    "provider_too_large": Reason(
        sentence="The answer of the model provider was too large.", owner=Owner.MODEL, next_step=_NEW, retryable=False
    ),
    "model_truncated": Reason(
        sentence="The model stopped before its answer was complete.", owner=Owner.MODEL, next_step=_WAIT, retryable=True
    ),
    "model_output_empty": Reason(
        sentence="The model answered with nothing.", owner=Owner.MODEL, next_step=_WAIT, retryable=True
    ),
    # model: complete but not acceptable (fill_invalid)
    "model_output_not_json": Reason(
        sentence="The model's answer is not one JSON object.", owner=Owner.MODEL, next_step=_NEW
    ),
    "model_output_invalid": Reason(
        sentence="The model's answer does not fit the frozen schema.", owner=Owner.MODEL, next_step=_NEW
    ),
    "model_output_unsafe_text": Reason(
        sentence="The model's answer holds characters that must not be stored, or is blank.",
        owner=Owner.MODEL, next_step=_NEW,
    ),
    "model_refused": Reason(sentence="The model refused.", owner=Owner.MODEL, next_step=_NEW),
    "model_content_filtered": Reason(
        sentence="The provider's content filter stopped the answer.", owner=Owner.MODEL, next_step=_NEW
    ),
    "model_unexpected_tool": Reason(
        sentence="The model tried to use a tool that this action does not offer.", owner=Owner.MODEL, next_step=_NEW
    ),
    "policy_assignee": Reason(
        sentence="The assignee that the model chose is not an active member of support.",
        owner=Owner.MODEL, next_step="Name an active colleague in the notes and press again.",
    ),
    "policy_subject": Reason(
        sentence="The subject holds an encoded word, which mail programs show as something else.",
        owner=Owner.MODEL,
        next_step=_NEW,
    ),
    "policy_due_on": Reason(
        sentence="The day by which it is to be done is over, or no day at all.",
        owner=Owner.MODEL, next_step="Name the day in the notes, as 2027-03-31 for instance, and press again.",
    ),
    # time (deadline_exceeded, abandoned)
    "fill_budget": Reason(
        sentence="The model was still writing when its time was over.", owner=Owner.SYSTEM, next_step=_WAIT
    ),
    "attempt_deadline": Reason(
        sentence="The attempt reached its deadline before the change was made.", owner=Owner.SYSTEM, next_step=_WAIT
    ),
    "process_died": Reason(
        sentence="The process that worked on it ended.", owner=Owner.SYSTEM, next_step=_WAIT
    ),
    "never_started": Reason(
        sentence="It waited in the queue longer than it may.", owner=Owner.SYSTEM, next_step=_WAIT
    ),
    # the change (apply_failed, ticket_conflict)
    "lock_timeout": Reason(
        sentence="The ticket was locked by something else for too long.", owner=Owner.SYSTEM, next_step=_WAIT
    ),
    "statement_timeout": Reason(
        sentence="The database took too long to make the change.", owner=Owner.SYSTEM, next_step=_WAIT
    ),
    "database_error": Reason(
        sentence="The database refused the change.", owner=Owner.OPERATOR, next_step=_WAIT
    ),
    "ticket_closed": Reason(
        sentence="The ticket was closed while the draft was being written.",
        owner=Owner.YOU, next_step="Reopen the ticket if the follow-up is still wanted, and press anew.",
    ),
    "ticket_gone": Reason(
        sentence="The ticket was removed while the draft was being written.",
        owner=Owner.YOU, next_step="Check the address of the ticket.",
    ),
    "contact_rejected": Reason(
        sentence="The requester's address is not one that mail may be sent to.",
        owner=Owner.YOU, next_step="Check the contact address: it says why. Reach the requester otherwise.",
    ),
    # a replay that waited for its turn (permission_denied)
    "role_taken": Reason(
        sentence="Whoever started it may no longer replay: their role was taken before its turn. Nothing was run.",
        owner=Owner.OPERATOR, next_step="Have somebody replay it who may.", retryable=False,
    ),
    # a delivery (delivery_failed): certain that nothing left
    "outbox_unreadable": Reason(
        sentence="The message could not be read from the outbox.", owner=Owner.OPERATOR, next_step=_WAIT, retryable=True
    ),
    "mail_unreachable": Reason(
        sentence="The mail server could not be reached, so nothing was sent.", owner=Owner.SYSTEM,
        next_step="It is tried again; if it stays so, tell an operator.", retryable=True,
    ),
    "mail_refused": Reason(
        sentence="The mail server did not take the message, so nothing was sent.", owner=Owner.OPERATOR,
        next_step="Look at the mail server's log and the address, put it right, and write the message anew.",
    ),
    "mail_unsound": Reason(
        sentence="The message cannot be written as mail, so nothing was sent.", owner=Owner.OPERATOR,
        next_step="Check DEFAULT_FROM_EMAIL and the requester's address; then write the message anew.",
    ),
    "message_gone": Reason(
        sentence="The message is no longer in the outbox, so nothing was sent.",
        owner=Owner.OPERATOR, next_step="Find out who removed it; the outbox is never to be edited.",
    ),
}  # fmt: skip


def _tree(root: type[ReceiptsError]) -> Iterator[type[ReceiptsError]]:
    for cls in root.__subclasses__():
        yield cls
        yield from _tree(cls)


#: code → class, for reading a stored row back into its sentence.
BY_CODE: dict[str, type[ReceiptsError]] = {cls.code: cls for cls in _tree(ReceiptsError)}


def from_row(code: str, reason: str | None, **about: Any) -> ReceiptsError:
    """The error that a settled row stores, with the sentence of today's table.

    Raises: KeyError for a code this version does not know.
    """
    return BY_CODE[code](reason=reason if reason in REASONS else None, **about)
