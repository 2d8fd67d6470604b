"""A list of receipts as a stream of bytes: exactly the rows of a query, as one moment saw them.

Who exports is in the ledger before the first byte leaves (`begun`, in its own commit), because a process that is
killed writes no event afterwards. The end is written by the transaction that reads (`complete`, with the number of
rows), and only after its commit does the last line leave. Whatever breaks before, a client that hangs up above all,
leaves a stream without its last line, and the event `cut`.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from django.contrib.auth import get_user_model
from django.db import DatabaseError, connection, transaction
from django.db.models import QuerySet

from receipts import ledger
from receipts.errors import Overloaded
from receipts.export.formats import Format
from receipts.models import Receipt, Verb
from receipts.redaction import redact_text
from receipts.told import attach_decisions, instant, represent, representable

log = logging.getLogger(__name__)

#: Rows read, shown and sent at once, 1 MB at most: a fetch, and a query for their attempts.
CHUNK = 500
#: Exports of one process at a time: each holds a connection of its pool, and a thread.
AT_ONCE = 2
#: A reader has to take each chunk within this, and all of them within that: a snapshot that stays open keeps the
#: database from clearing what it could still see.
CHUNK_SECONDS, EXPORT_SECONDS = 60, 900.0

_SNAPSHOT = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; "
    f"SET LOCAL idle_in_transaction_session_timeout = '{CHUNK_SECONDS}s'"
)

_places = threading.BoundedSemaphore(AT_ONCE)


def begin_snapshot() -> dt.datetime:
    """First in a transaction: everything that it reads is of this moment, which is given back."""
    with connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT)
        cursor.execute("SELECT clock_timestamp()")
        moment: dt.datetime = cursor.fetchone()[0]
        return moment


class _People:
    """Who pressed, read once a person: joined to each row they would be a quarter of the work."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def attach(self, receipts: list[Receipt]) -> None:
        named = {key for receipt in receipts for key in (receipt.user_id, receipt.on_behalf_of_id)}
        if new := named - self._known.keys() - {None}:
            self._known |= get_user_model().objects.in_bulk(new)
        for receipt in receipts:
            receipt.user = self._known[receipt.user_id]
            if receipt.on_behalf_of_id is not None:
                receipt.on_behalf_of = self._known[receipt.on_behalf_of_id]


class ReceiptExport:
    """The bytes of an export. Iterate once; whoever took it calls `close`, whatever became of the reader.

    A class, because a generator that the client left before its first byte would never run its `finally`.

    Args:
        rows: the receipts, filtered and ordered.
        form: the format.
        user: who exports.
        chosen: the filter in the words of whoever chose it; redacted here.

    Raises:
        Overloaded: too many are under way in this process; nothing was recorded.
    """

    def __init__(self, rows: QuerySet[Receipt], form: Format, *, user: Any, chosen: dict[str, str]) -> None:
        if not _places.acquire(blocking=False):
            raise Overloaded("Too many exports are under way here. Nothing was exported.", retry_after=5)
        self._open, self._ended, self._sent = True, False, 0
        self._form, self._user = form, user
        self._rows = representable(rows).select_related(None)
        self._detail = {
            "export": str(uuid.uuid4()),
            "format": form.name,
            "filter": {name: redact_text(value) for name, value in chosen.items()},
        }
        try:
            self._record("begun")
        except BaseException:
            self._give_back()
            raise
        self._bytes = self._read()

    def __iter__(self) -> Iterator[bytes]:
        return self._bytes

    def close(self) -> None:
        """End it where it is. Called by the server."""
        if not self._open:
            return
        try:
            with suppress(DatabaseError):  # the connection broke: what was read is not held any more
                self._bytes.close()
            if not self._ended:
                self._record("cut", rows=self._sent)
        except DatabaseError:
            log.exception("an export was cut, and its event could not be written")
        finally:
            self._give_back()

    def _read(self) -> Generator[bytes]:
        give_up_at = time.monotonic() + EXPORT_SECONDS
        with transaction.atomic(durable=True):
            moment = begin_snapshot()
            yield self._form.head()
            # one statement behind one cursor: a filter that asks for the time asks once
            left, people = self._rows.iterator(chunk_size=CHUNK), _People()
            while chunk := list(islice(left, CHUNK)):
                people.attach(chunk)
                attach_decisions(chunk)
                data = self._form.rows(represent(receipt) for receipt in chunk)
                self._sent += len(chunk)
                yield data
                if time.monotonic() > give_up_at:
                    raise TimeoutError(f"an export took more than {EXPORT_SECONDS:.0f} s")
            self._record("complete", rows=self._sent)
        self._ended = True
        yield self._form.foot(
            {
                "rows": self._sent,
                "filter": self._detail["filter"],
                "zone": "UTC",
                "complete": True,
                "exported_at": instant(moment),
                "by": self._user.get_username(),
            }
        )

    def _record(self, stage: str, **more: Any) -> None:
        detail = {**self._detail, "stage": stage, **more}
        ledger.record(ledger.Event(verb=Verb.EXPORT, actor_id=self._user.pk, detail=detail))

    def _give_back(self) -> None:
        self._open = False
        _places.release()
