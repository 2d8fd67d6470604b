"""What stops a fill: one exception that carries the gate's name and the error owed for it.

Refusals never carry a value of the model's or a body of the provider's: only names, codes and paths.
"""

from __future__ import annotations

from receipts.errors import ArgMismatch, FillFailed, FillInvalid, ReceiptsError


class Refusal(Exception):
    """Raised inside the seam; `fill()` turns it into a `Filled`.

    Attributes:
        gate: the gate that refused: `transport`, `status`, `caps`, `utf8`, `framing`, `envelope`, `error`,
            `finish_reason`, `refusal`, `source`, `json`, `retarget`, `schema`, `text`, `policy`.
        error: what is owed: code, reason, retryable, retry_after.
        path: for `schema`, `text` and `policy`: the validator and the JSON path; never a value.
    """

    def __init__(self, gate: str, error: ReceiptsError, path: str | None = None) -> None:
        super().__init__(f"{gate}: {error.reason or error.code}")
        self.gate = gate
        self.error = error
        self.path = path


class FormatRefused(Refusal):
    """The provider refused the output format by name: the next mode of the ladder may be tried once."""


class NothingArrived(Refusal):
    """The call failed before any byte of an answer: it may be made once more."""


def failed(gate: str, reason: str, *, retryable: bool | None = None, retry_after: int | None = None) -> Refusal:
    """No complete answer: 502 `fill_failed`; retryable as the reason says, unless told otherwise."""
    return Refusal(gate, FillFailed(reason=reason, retryable=retryable, retry_after=retry_after))


def invalid(gate: str, reason: str, path: str | None = None) -> Refusal:
    """A complete answer that is not acceptable: 422 `fill_invalid`, permanent."""
    return Refusal(gate, FillInvalid(reason=reason, retryable=False), path)


def retargeted() -> Refusal:
    """The answer names another subject than the route's: 422 `arg_mismatch`, permanent."""
    return Refusal("retarget", ArgMismatch(retryable=False))
