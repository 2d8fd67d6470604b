"""The circuit of a model provider: while it does not answer, one probe and not a thousand calls.

Only what nobody watches asks `may_begin` and waits (`receipts.queued`). A press that somebody waits for always goes to
the provider; what it learns there counts here too. The row in `circuits` is what all processes know together, by the
database's clock, and each change of it is a compare-and-set but the closing: an answer is an answer:

    no row ─ CIRCUIT_FAILURES in a row ─▶ open until … ─ its time is over ─▶ one probe ─ answered ─▶ no row
                                           ▲                                    │
                                           └────── longer, failed again ────────┘

A press that is answered costs no statement, unless this process knows of a row that speaks against the provider.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import time
import uuid
from dataclasses import dataclass

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from receipts import clock, manifest
from receipts.errors import ContractGone, ReceiptsError
from receipts.lifecycle import Status
from receipts.models import Circuit, Receipt
from receipts.statements import fetch_row

log = logging.getLogger(__name__)

#: The next attempt would end no better, whatever its notes say.
SPEAKS_AGAINST = frozenset(
    {
        # nobody is there, or the connection dies before a whole answer
        "provider_unreachable",
        "provider_unavailable",
        "provider_timeout",
        "provider_truncated",
        # It lives and says "not now". An unwatched attempt that goes on anyway only uses itself up; where some calls
        # still get through, each of them ends the row of failures.
        "provider_rate_limited",
        # It lives and will not work for us until an operator acts. These ends are permanent: without the circuit,
        # an expired key would end everything that is queued, and not one probe at a time.
        "provider_auth",
        "provider_quota",
        "provider_not_found",
        "provider_redirect",
    }
)  # The rest may lie with one request (rejected, too large, filtered) or is an answer that came, however bad.

#: Failures further apart are not "in a row": between them nobody asked.
IN_A_ROW_SECONDS = 180.0
#: How long a process takes a provider for sound without looking again.
SOUND_SECONDS = 1.0

# What this process knows. Single operations on built-in types, so threads need no lock; a forked process that inherits
# a suspicion pays one statement for it.
_sound_until: dict[str, float] = {}
"""Provider → monotonic seconds: there was no row."""
_suspected: set[str] = set()
"""Providers with a row, written or seen here: an answer has something to delete."""
_probes: dict[uuid.UUID, dt.datetime] = {}
"""Receipt → the lease with which its attempt here is the probe."""


@dataclass(frozen=True, kw_only=True)
class Hold:
    """An unwatched attempt does not begin now."""

    provider: str
    reason: str
    """Of the last failure."""
    until: dt.datetime
    """When to ask again. By chance a little later than the circuit's own time: a thousand held jobs spread out."""


# ── before an attempt ────────────────────────────────────────────────────────────────────────────────────────────

_LOOK = """
SELECT open_since IS NOT NULL, open_until <= now AND (probe_until IS NULL OR probe_until <= now),
       greatest(open_until, now), last_reason
FROM circuits, (SELECT clock_timestamp() AS now) AS clock WHERE provider = %(provider)s::text
"""

_BECOME_PROBE = """
UPDATE circuits SET probe_until = clock_timestamp() + make_interval(secs => %(seconds)s::float8)
WHERE provider = %(provider)s::text AND open_until <= clock_timestamp()
  AND (probe_until IS NULL OR probe_until <= clock_timestamp())
RETURNING probe_until
"""


def may_begin(receipt_id: uuid.UUID, provider: str) -> Hold | None:
    """None: an attempt that nobody watches may begin now, perhaps as the probe. Else until when it has to wait.

    Whoever becomes the probe has to begin the attempt, or `give_back`.
    """
    if not provider:  # permanent for a press; what can wait waits until somebody sets one up
        until = clock.now() + dt.timedelta(seconds=settings.CIRCUIT_MAX_SECONDS)
        return Hold(provider=provider, reason="provider_unconfigured", until=until)
    if _sound_until.get(provider, 0.0) > time.monotonic():
        return None
    row = fetch_row(_LOOK, {"provider": provider})
    if row is None:
        if provider not in _suspected:  # else a failure is just being counted here
            _sound_until[provider] = time.monotonic() + SOUND_SECONDS
        return None
    _suspected.add(provider)
    is_open, is_due, until, reason = row
    if not is_open or (is_due and _become_probe(receipt_id, provider)):
        return None
    later = settings.CIRCUIT_SECONDS * random.uniform(0.1, 1.0)  # noqa: S311 - jitter, no secret
    return Hold(provider=provider, reason=reason, until=until + dt.timedelta(seconds=later))


def _become_probe(receipt_id: uuid.UUID, provider: str) -> bool:
    """False: another one is it. A lease as long as an attempt: a probe that dies does not hold up the rest for ever."""
    row = fetch_row(_BECOME_PROBE, {"provider": provider, "seconds": settings.ATTEMPT_DEADLINE_SECONDS})
    if row is None:
        return False
    _probes[receipt_id] = row[0]
    return True


def is_probe(receipt_id: uuid.UUID) -> bool:
    """Whether this process's attempt of that receipt is the probe."""
    return receipt_id in _probes


def give_back(receipt_id: uuid.UUID, provider: str) -> None:
    """The attempt did not begin after all: if it was to be the probe, the next one may."""
    lease = _probes.pop(receipt_id, None)
    if lease is not None:
        fetch_row(
            "UPDATE circuits SET probe_until = NULL WHERE provider = %(provider)s::text"
            " AND probe_until = %(lease)s::timestamptz RETURNING 1",
            {"provider": provider, "lease": lease},
        )


# ── after an attempt ─────────────────────────────────────────────────────────────────────────────────────────────

_COUNT = """
INSERT INTO circuits AS known (provider, failures, last_failure_at, last_reason)
VALUES (%(provider)s::text, 1, clock_timestamp(), %(reason)s::text)
ON CONFLICT (provider) DO UPDATE
SET failures = CASE WHEN known.open_since IS NOT NULL
                      OR known.last_failure_at > clock_timestamp() - make_interval(secs => %(in_a_row)s::float8)
                    THEN known.failures + 1 ELSE 1 END,
    last_failure_at = clock_timestamp(), last_reason = EXCLUDED.last_reason
RETURNING open_since IS NULL AND failures >= %(most)s::int
"""

_OPEN = """
UPDATE circuits SET open_since = now, open_until = now + make_interval(secs => %(seconds)s::float8)
FROM (SELECT clock_timestamp() AS now) AS clock
WHERE provider = %(provider)s::text AND open_since IS NULL AND failures >= %(most)s::int
RETURNING open_until
"""

# As long again as it has been open, and the first time on top: probes that follow each other at once double it.
_OPEN_AGAIN = """
UPDATE circuits
SET failures = failures + 1, last_failure_at = now, last_reason = %(reason)s::text, probe_until = NULL,
    open_until = now + greatest(
      make_interval(secs => %(asked_for)s::float8),
      least(make_interval(secs => %(longest)s::float8), now - open_since + make_interval(secs => %(first)s::float8)))
FROM (SELECT clock_timestamp() AS now) AS clock
WHERE provider = %(provider)s::text AND probe_until = %(lease)s::timestamptz
RETURNING open_until
"""

_CLOSE = "DELETE FROM circuits WHERE provider = %(provider)s::text RETURNING open_since"


def is_news(provider: str, error: ReceiptsError | None) -> bool:
    """Whether this end of a call has to be `heard`: of most answers nobody needs to know. No statement."""
    return provider in _suspected or _speaks_against(error)


def heard(provider: str, error: ReceiptsError | None, receipt_id: uuid.UUID | None = None) -> None:
    """How a call to the provider ended, watched or not: count a failure, or close the circuit. Does not raise."""
    try:
        if error is not None and _speaks_against(error):
            _failed(provider, error, receipt_id)
        else:
            _answered(provider, receipt_id)
    except (DatabaseError, InterfaceError) as broken:  # the attempt still has to be settled
        log.warning("the circuit of %s could not be written: %s", provider, type(broken).__name__)


def _speaks_against(error: ReceiptsError | None) -> bool:
    return error is not None and error.reason in SPEAKS_AGAINST


def _failed(provider: str, error: ReceiptsError, receipt_id: uuid.UUID | None) -> None:
    _suspected.add(provider)
    lease = _probes.pop(receipt_id, None) if receipt_id else None
    if lease is not None and _open_again(provider, error, lease):
        return
    row = fetch_row(
        _COUNT,
        {
            "provider": provider,
            "reason": error.reason,
            "in_a_row": IN_A_ROW_SECONDS,
            "most": settings.CIRCUIT_FAILURES,
        },
    )
    _sound_until.pop(provider, None)
    if row is not None and row[0]:
        _open(provider, error)


def _open(provider: str, error: ReceiptsError) -> None:
    row = fetch_row(
        _OPEN,
        {
            "provider": provider,
            "most": settings.CIRCUIT_FAILURES,
            "seconds": max(settings.CIRCUIT_SECONDS, error.retry_after or 0),
        },
    )
    if row is not None:  # else another worker got there first
        log.warning(
            "%s failed %d times in a row (%s): attempts that nobody watches wait until %s",
            *(provider, settings.CIRCUIT_FAILURES, error.reason, f"{row[0]:%H:%M:%S %Z}"),
        )


def _open_again(provider: str, error: ReceiptsError, lease: dt.datetime) -> bool:
    """False: the lease had run out, and the circuit is no longer this probe's."""
    row = fetch_row(
        _OPEN_AGAIN,
        {
            "provider": provider,
            "reason": error.reason,
            "lease": lease,
            "first": settings.CIRCUIT_SECONDS,
            "longest": settings.CIRCUIT_MAX_SECONDS,
            "asked_for": error.retry_after or 0,
        },
    )
    if row is not None:
        log.warning("%s failed its probe (%s): next one at %s", provider, error.reason, f"{row[0]:%H:%M:%S %Z}")
    return row is not None


def _answered(provider: str, receipt_id: uuid.UUID | None) -> None:
    if receipt_id is not None:
        _probes.pop(receipt_id, None)
    if provider not in _suspected:
        return
    _suspected.discard(provider)  # first: a failure meanwhile is suspected anew
    row = fetch_row(_CLOSE, {"provider": provider})
    if row is not None and row[0] is not None:
        log.info("%s answers again: what has waited since %s goes on", provider, f"{row[0]:%H:%M:%S %Z}")


# ── for people ───────────────────────────────────────────────────────────────────────────────────────────────────


def of(provider: str) -> Circuit | None:
    """The provider's circuit while it is open."""
    return Circuit.objects.filter(provider=provider, open_since__isnull=False).first()


def waiting(receipt: Receipt, now: dt.datetime) -> Circuit | None:
    """The open circuit that a receipt waits for: a queued one, or one that the system will continue by itself."""
    if receipt.status == Status.FAILED:
        waits = receipt.next_attempt_at is not None and now < retried_until(receipt)
    else:
        waits = receipt.queued and not receipt.is_overdue(now)
    return of(manifest.provider().host) if waits and _asks_model(receipt) else None


def _asks_model(receipt: Receipt) -> bool:
    try:
        return manifest.tool_of(receipt).derive is None
    except ContractGone:
        return False


def retried_until(receipt: Receipt) -> dt.datetime:
    """The system continues a receipt by itself within this time."""
    return receipt.created_at + dt.timedelta(seconds=settings.RETRY_WITHIN_SECONDS)
