"""What a stored code and reason mean, in words: the one reading of the error tables for pages, console and script."""

from __future__ import annotations

from dataclasses import dataclass

from receipts.errors import BY_CODE, REASONS, Owner


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why it was not filed, whose turn it is, and what to do now."""

    sentence: str
    owner: str
    next_step: str


def explain(code: str, reason: str | None) -> Explanation:
    """The sentences that the error tables hold for a code and its finer reason.

    A row may be older or newer than this version and name what the tables do not know; then it says just that.
    """
    finer = REASONS.get(reason or "")
    if finer:
        return Explanation(sentence=finer.sentence, owner=finer.owner, next_step=finer.next_step)
    error = BY_CODE.get(code)
    if error is None:
        return Explanation(
            sentence=f"The reason is stored as “{code}”, which this version does not know.",
            owner=Owner.OPERATOR,
            next_step="Give the receipt to an operator.",
        )
    return Explanation(sentence=sentence_case(error.default_detail), owner=error.owner, next_step=error.next_step)


def sentence_case(detail: str) -> str:
    """`argument fill failed` → `Argument fill failed.` The wire quotes some details without capital and stop."""
    return detail[:1].upper() + detail[1:] + ("" if detail.endswith((".", "!", "?")) else ".")
