"""A bulk replay at work: frozen ids, one replay after the other, a few in flight, and an end for each item.

The item is stamped in the transaction that opens its new receipt, so wherever a worker dies, the next one finds out
from the rows what is left: no item twice, none forgotten.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import InterfaceError, OperationalError, connection, transaction
from psycopg_pool import PoolTimeout

from receipts import clock, ledger, permissions
from receipts.bulk_plans import Plan
from receipts.errors import DatabaseUnavailable, InternalError, InvalidRequest, PermissionDenied, ReceiptsError
from receipts.jobs import enqueue_bulk_replay, is_bulk_replay_enqueued
from receipts.ledger.runs import RETRYING
from receipts.lifecycle import Status
from receipts.models import BulkReplay, BulkReplayItem, ItemState, Receipt, Verb
from receipts.replay import Mode, read_reason, replay
from receipts.statements import fetch_row

log = logging.getLogger(__name__)

#: Bulk replays that one look takes on: each is a person's deed.
UNFINISHED_MAX = 50


class _NotItsTurn(Exception):
    """The item was stopped, or another worker has it; what was being opened for it is rolled back."""


# ── start and stop ───────────────────────────────────────────────────────────────────────────────────────────────


def start(*, user: Any, plan: Plan, reason: Any) -> BulkReplay:
    """Freeze a plan and have a worker carry it out: the rows, the event and the job are one commit.

    The same plan again is answered with what it became. Raises: PermissionDenied, InvalidRequest, DatabaseUnavailable.
    """
    permissions.require(user, permissions.REPLAY)
    reason = read_reason(read_reason(reason))  # as it is kept, it has to pass with every item
    if not plan.running:
        raise InvalidRequest(
            "Nothing in this plan can be replayed. Nothing was run.", fields={"plan": "leaves out every receipt"}
        )
    if len(plan.items) > settings.BULK_REPLAY_MAX:
        raise InvalidRequest(fields={"plan": f"holds more than {settings.BULK_REPLAY_MAX:,} receipts"})
    with transaction.atomic(durable=True):
        bulk, created = BulkReplay.objects.get_or_create(
            pk=plan.id,
            defaults={"actor": user, "reason": reason, "filter": plan.filter, "created_at": clock.now()},
        )
        if created:
            BulkReplayItem.objects.bulk_create(_items(bulk, plan))
            detail = {"bulk_replay": str(bulk.pk), "reason": reason, "receipts": len(plan.running)}
            ledger.record(ledger.Event(verb=Verb.BULK_REPLAY, actor_id=user.pk, detail=detail))
            enqueue_bulk_replay(bulk.pk)
    return bulk


def _items(bulk: BulkReplay, plan: Plan) -> list[BulkReplayItem]:
    return [
        BulkReplayItem(
            bulk=bulk,
            receipt_id=item.receipt_id,
            position=position,
            verdict=item.verdict,
            expected_replay_no=item.replay_no,
            state=ItemState.PLANNED if item.runs else ItemState.EXCLUDED,
            refusal_code=None if item.runs else item.verdict,
            refusal_reason=item.reason,
            look_at_id=item.look_at,
        )
        for position, item in enumerate(plan.items, start=1)
    ]


def find(bulk_id: uuid.UUID) -> BulkReplay | None:
    """With the people who started and stopped it."""
    return BulkReplay.objects.select_related("actor", "stop_requested_by").filter(pk=bulk_id).first()


def stop(*, user: Any, bulk: BulkReplay) -> int | None:
    """Let nothing more begin; what has begun goes on to its end. How many items were stopped; None: it was over.

    Raises: PermissionDenied.
    """
    permissions.require(user, permissions.REPLAY)
    with transaction.atomic(durable=True):
        going = BulkReplay.objects.filter(pk=bulk.pk, finished_at__isnull=True, stop_requested_at__isnull=True)
        if not going.update(stop_requested_at=clock.now(), stop_requested_by=user):
            return None
        stopped: int = _planned(bulk.pk).update(state=ItemState.STOPPED)
        detail = {"bulk_replay": str(bulk.pk), "stopped": stopped}
        ledger.record(ledger.Event(verb=Verb.BULK_STOP, actor_id=user.pk, detail=detail))
    return stopped


# ── carrying it out ──────────────────────────────────────────────────────────────────────────────────────────────


def carry_on(bulk_id: uuid.UUID) -> bool:
    """One turn: open the replays of the next items, the oldest first, as far as those in flight leave room.

    Whether there is anything left to open or to wait for. Raises: DatabaseUnavailable and the like; the job comes back.
    """
    bulk = BulkReplay.objects.filter(pk=bulk_id, finished_at__isnull=True).first()
    if bulk is None:
        return False
    BulkReplay.objects.filter(pk=bulk_id, started_at__isnull=True).update(started_at=clock.now())
    room = settings.BULK_REPLAY_IN_FLIGHT - _in_flight(bulk_id)
    for item in _planned(bulk_id).order_by("position")[: max(0, room)]:
        _carry_out(bulk, item)
    return not finish(bulk_id) and (_planned(bulk_id).exists() or _in_flight(bulk_id) > 0)


def _carry_out(bulk: BulkReplay, item: BulkReplayItem) -> None:
    """Open one item's replay, or say why not. No item's trouble is another one's."""
    user = get_user_model().objects.get(pk=bulk.actor_id)  # as they are now: roles are taken while a bulk replay runs
    if not user.has_perm(permissions.REPLAY):
        _refuse_rest(bulk)
        return
    receipt = ledger.read(item.receipt_id)
    assert receipt is not None  # noqa: S101 - receipts are never removed
    try:
        replay(
            user=user,
            receipt=receipt,
            reason=bulk.reason,
            mode=Mode(item.verdict),
            expected_no=item.expected_replay_no,
            queued=True,
            in_bulk=True,
            beside=partial(_stamp, item),
        )
    except _NotItsTurn:
        log.info("bulk replay %s: item %d was stopped, or another worker's", bulk.pk, item.position)
    except (DatabaseUnavailable, InterfaceError, PoolTimeout):
        raise  # nothing is wrong with the item, and the next would fare no better
    except OperationalError as error:  # a lock that was not to be had in time: it waits for the next turn
        log.warning("bulk replay %s: item %d: %s", bulk.pk, item.position, type(error).__name__)
    except ReceiptsError as refusal:
        _refuse(item, refusal)
    except Exception:
        log.exception("bulk replay %s: receipt %s", bulk.pk, item.receipt_id)
        _refuse(item, InternalError())


def _stamp(item: BulkReplayItem, new: Receipt) -> None:
    """In the new receipt's own transaction. Raises: _NotItsTurn, which undoes it."""
    ours = BulkReplayItem.objects.filter(pk=item.pk, state=ItemState.PLANNED)
    if not ours.update(state=ItemState.REPLAYED, new_receipt=new):
        raise _NotItsTurn


def _refuse(item: BulkReplayItem, refusal: ReceiptsError) -> None:
    other = refusal.receipt_id if refusal.receipt_id != str(item.receipt_id) else None
    BulkReplayItem.objects.filter(pk=item.pk, state=ItemState.PLANNED).update(
        state=ItemState.REFUSED, refusal_code=refusal.code, refusal_reason=refusal.reason, look_at=other
    )


def _refuse_rest(bulk: BulkReplay) -> None:
    """Whoever started it may no longer replay: what has not begun is refused, on record once."""
    with transaction.atomic(durable=True):
        denied = PermissionDenied(reason="role_taken")
        refused = _planned(bulk.pk).update(
            state=ItemState.REFUSED, refusal_code=denied.code, refusal_reason=denied.reason
        )
        if refused:
            about = {"bulk_replay": str(bulk.pk), "receipts": refused}
            ledger.record(permissions.refused(bulk.actor_id, "bulk replay", **about))


def _planned(bulk_id: uuid.UUID) -> Any:
    return BulkReplayItem.objects.filter(bulk=bulk_id, state=ItemState.PLANNED)


def _in_flight(bulk_id: uuid.UUID) -> int:
    return BulkReplayItem.objects.filter(bulk=bulk_id, new_receipt__status=Status.PENDING).count()


_FINISH = f"""
UPDATE bulk_replays SET finished_at = clock_timestamp()
WHERE id = %(id)s::uuid AND finished_at IS NULL
  AND NOT EXISTS (SELECT FROM bulk_replay_items WHERE bulk_id = %(id)s::uuid AND state = 'planned')
  AND NOT EXISTS (
    SELECT FROM bulk_replay_items i JOIN tool_receipts r ON r.id = i.new_receipt_id
    WHERE i.bulk_id = %(id)s::uuid AND (r.status = 'pending' OR {RETRYING}))
RETURNING id
"""  # noqa: S608


def finish(bulk_id: uuid.UUID) -> bool:
    """Stamp its end, if every item has one and every replay is settled for good. False: not yet, or not first."""
    return fetch_row(_FINISH, _about(bulk_id)) is not None


def _about(bulk_id: uuid.UUID) -> dict[str, Any]:
    return {"id": bulk_id, "retried": settings.RETRY_WITHIN_SECONDS}


def look_after() -> None:
    """End those that are done; have one continued whose job was lost. For the tick of any worker."""
    for bulk in BulkReplay.objects.filter(finished_at__isnull=True).order_by("created_at")[:UNFINISHED_MAX]:
        if finish(bulk.pk) or not _planned(bulk.pk).exists() or is_bulk_replay_enqueued(bulk.pk):
            continue
        log.warning("bulk replay %s is continued", bulk.pk)
        enqueue_bulk_replay(bulk.pk)


# ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What has happened so far, counted from the rows."""

    waiting: int
    """Planned, and not begun."""
    pending: int
    """Replayed: the new receipt is queued or being worked on."""
    retrying: int
    """Replayed and failed; the system continues it by itself."""
    applied: int
    failed: int
    refused: int
    stopped: int
    excluded: int
    """Left out by the plan."""

    @property
    def replayed(self) -> int:
        return self.pending + self.retrying + self.applied + self.failed

    @property
    def chosen(self) -> int:
        """What the plan set out to replay."""
        return self.replayed + self.waiting + self.refused + self.stopped

    @property
    def ended(self) -> int:
        return self.chosen - self.waiting - self.pending - self.retrying


_TALLY = f"""
SELECT CASE WHEN i.state <> 'replayed' THEN i.state WHEN {RETRYING} THEN 'retrying' ELSE r.status END, count(*)
FROM bulk_replay_items i LEFT JOIN tool_receipts r ON r.id = i.new_receipt_id
WHERE i.bulk_id = %(id)s GROUP BY 1
"""  # noqa: S608


def tally(bulk_id: uuid.UUID) -> Tally:
    """One grouped query."""
    with connection.cursor() as cursor:
        cursor.execute(_TALLY, _about(bulk_id))
        counted: dict[str, int] = dict(cursor.fetchall())
    counted["waiting"] = counted.pop("planned", 0)
    return Tally(**{name: counted.get(name, 0) for name in Tally.__dataclass_fields__})
