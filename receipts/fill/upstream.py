"""What an error of the provider's means: by HTTP status, or by the error object inside a 200.

The provider's words are read for a few known marks and thrown away: a body may echo part of the key or of
the notes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from receipts.fill.strictjson import NotStrictJson, parse
from receipts.fill.verdict import FormatRefused, Refusal, failed, invalid

#: Statuses whose body is read: only there does it change the meaning.
BODY_MATTERS = frozenset({400, 422, 429, 501})
#: A provider that wants more than this is out of quota, not merely busy. Also the most we pass on. Seconds.
LONGEST_WAIT = 60

_FORMAT_WORDS = re.compile(r"response_format|json_schema|strict|schema|grammar|tool_choice", re.IGNORECASE)
_QUOTA_WORDS = re.compile(r"insufficient_quota|\blimit\W{1,3}0\b", re.IGNORECASE)
_RETRY_DELAY = re.compile(r'"retryDelay"\s*:\s*"(\d{1,6}(?:\.\d{1,9})?)s"')

_BY_STATUS = {
    401: "provider_auth",
    402: "provider_quota",
    403: "provider_auth",
    404: "provider_not_found",
    408: "provider_unavailable",
    409: "provider_unavailable",
    425: "provider_unavailable",
    429: "provider_rate_limited",
}
#: Words that error objects carry in `code`, `type` or `status` where no number says it.
_BY_WORD = {
    "insufficient_quota": "provider_quota",
    "billing_hard_limit_reached": "provider_quota",
    "rate_limit_exceeded": "provider_rate_limited",
    "rate_limit_error": "provider_rate_limited",
    "resource_exhausted": "provider_rate_limited",
    "invalid_api_key": "provider_auth",
    "authentication_error": "provider_auth",
    "permission_error": "provider_auth",
    "permission_denied": "provider_auth",
    "unauthenticated": "provider_auth",
    "model_not_found": "provider_not_found",
    "not_found_error": "provider_not_found",
    "invalid_request_error": "provider_rejected_request",
    "invalid_argument": "provider_rejected_request",
    "context_length_exceeded": "provider_rejected_request",
    "overloaded_error": "provider_unavailable",
    "server_error": "provider_unavailable",
    "unavailable": "provider_unavailable",
}
_FILTER_WORDS = frozenset({"content_filter", "responsibleaipolicyviolation"})


def refusal_of_status(status: int, headers: Mapping[str, str], body: str) -> Refusal:
    """The refusal for an answer whose HTTP status is not 2xx; `body` is "" where it was not read."""
    if 300 <= status < 400:
        return failed("status", "provider_redirect")
    if status in (400, 422) and _FILTER_WORDS & set(_words(_error_object(body))):
        return invalid("status", "model_content_filtered")
    if status in (400, 422, 501) and _FORMAT_WORDS.search(body):
        rejected = failed("status", "provider_rejected_request")
        return FormatRefused(rejected.gate, rejected.error)
    return _refusal("status", reason_of_status(status), retry_after_seconds(headers, body), body)


def reason_of_status(status: int) -> str:
    """The reason for an HTTP status that is an error."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if 400 <= status < 500:
        return "provider_rejected_request"
    return "provider_unavailable" if 500 <= status < 600 else "provider_protocol"


def refusal_of_error(error: Any) -> Refusal:
    """The refusal for an error object (or string) inside a 200 or an event. An inner number 100-599 wins."""
    words = _words(error)
    if _FILTER_WORDS & set(words):
        return invalid("error", "model_content_filtered")
    if "insufficient_quota" in words:
        return failed("error", "provider_quota")
    for word in words:
        if word.isascii() and word.isdecimal() and len(word) == 3 and 400 <= int(word) <= 599:
            return _refusal("error", reason_of_status(int(word)), None, "")
    reasons = [_BY_WORD[word] for word in words if word in _BY_WORD]
    return failed("error", reasons[0] if reasons else "provider_error_in_200")


def _refusal(gate: str, reason: str, wait: float | None, body: str) -> Refusal:
    if reason == "provider_rate_limited" and (_QUOTA_WORDS.search(body) or (wait is not None and wait > LONGEST_WAIT)):
        return failed(gate, "provider_quota")
    waitable = reason in ("provider_rate_limited", "provider_unavailable") and wait is not None
    after = max(1, math.ceil(wait)) if waitable and wait is not None and wait <= LONGEST_WAIT else None
    return failed(gate, reason, retry_after=after)


def _error_object(body: str) -> Any:
    """The `error` of a body: an object, a string, or inside a list of one; None where there is none."""
    try:
        document = parse(body)
    except NotStrictJson:
        return None
    if isinstance(document, list) and document:
        document = document[0]
    return document.get("error") if isinstance(document, dict) else None


def _words(error: Any) -> list[str]:
    """The lower-cased codes that an error object carries, most telling first."""
    if not isinstance(error, dict):
        return []
    inner = error.get("innererror")
    found = [error.get("code"), error.get("status"), error.get("type")]
    found += [inner.get("code")] if isinstance(inner, dict) else []
    return [str(word).lower() for word in found if isinstance(word, str | int) and not isinstance(word, bool)]


def retry_after_seconds(headers: Mapping[str, str], body: str = "") -> float | None:
    """Seconds the provider asks us to wait: `retry-after-ms`, `retry-after` or Gemini's `retryDelay`.

    Zero, negative, not finite and malformed values are None: nobody may make us wait by accident.
    """
    in_ms = _number(headers.get("retry-after-ms"))
    named = headers.get("retry-after")
    found = in_ms / 1000 if in_ms is not None else _number(named)
    if found is None and named:
        found = _until(named)
    if found is None and (delay := _RETRY_DELAY.search(body)):
        found = float(delay[1])
    return found if found is not None and math.isfinite(found) and found > 0 else None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime.now(UTC)).total_seconds()
