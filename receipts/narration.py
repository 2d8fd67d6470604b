"""What a stream says about a receipt. The stream only reads: it never decides, and its end proves nothing.

Events: `receipt` (the row, first and last), `draft` (text so far, for display), `decision` (the validated proposal),
`end`. Each is `event:`, `id:` and one `data:` line of JSON. `: ping` keeps proxies and dead sockets honest.
"""

from __future__ import annotations

import itertools
import json
import queue
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from receipts import ledger
from receipts.errors import Overloaded
from receipts.lifecycle import Status
from receipts.models import Receipt
from receipts.runner import Inflight
from receipts.told import attach_decisions, represent

Event = tuple[str, dict[str, Any]]
"""Name and data."""
PING = b": ping\n\n"
#: How often the row is read where the attempt runs in another process.
POLL_SECONDS = 0.5

_FIELD = re.compile(r'"([a-z_]+)"\s*:\s*"((?:[^"\\]|\\.)*)("?)', re.DOTALL)


class _Streams:
    """Streams open in this process, counted: each holds a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0

    def take(self) -> None:
        """Raises: Overloaded when MAX_STREAMS are open."""
        with self._lock:
            if self._open >= settings.MAX_STREAMS:
                raise Overloaded("Too many event streams are open. Read the receipt itself.", retry_after=5)
            self._open += 1

    def give_back(self) -> None:
        with self._lock:
            self._open -= 1


streams = _Streams()


def narrate(receipt: Receipt, inflight: Inflight | None, *, drafts: bool) -> Iterator[bytes]:
    """The stream of one receipt, from where it stands to its settled row.

    `drafts`: whether this reader may see the model's raw words (the person who pressed); others hear of the row only.
    The database connection is given back before anything is waited for.
    """
    ids = itertools.count(1)

    def event(name: str, data: dict[str, Any]) -> bytes:
        line = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
        return f"event: {name}\nid: {next(ids)}\ndata: {line}\n\n".encode()

    row = _row(receipt)
    yield event(*row[0])
    connection.close()
    if receipt.status == Status.PENDING:
        progress = _follow(inflight, drafts) if inflight else _poll(receipt)
        for name, data in progress:
            yield PING if name == "ping" else event(name, data)
        try:
            receipt = ledger.read(receipt.pk) or receipt
            row = _row(receipt)
            yield event(*row[0])
        except DatabaseError:
            row = []  # the reader asks the row itself later; nothing is claimed here
        finally:
            connection.close()
    if inflight is None:  # else it was told as it came
        for name, data in row[1:]:
            yield event(name, data)
    yield event(*_end(receipt))


def _row(receipt: Receipt) -> list[Event]:
    """`receipt`, and `decision` where a settled row has one."""
    attach_decisions([receipt])
    shown = represent(receipt)
    proposed = (shown["model_decision"] or {}).get("proposed")
    return [("receipt", shown), *([("decision", {"proposed": proposed})] if proposed is not None else [])]


def _end(receipt: Receipt) -> Event:
    return "end", {"settled": receipt.status != Status.PENDING}


def _follow(inflight: Inflight, drafts: bool) -> Iterator[Event]:
    """Drafts and decision of an attempt in this process, until it ends."""
    bell = inflight.listen()
    told, decided = "", False
    try:
        while not inflight.future.done():
            if not _rings(bell):
                yield "ping", {}
                continue
            text, decision = inflight.so_far()
            if drafts and text != told:
                told = text
                yield "draft", {"text": text, "fields": fields_so_far(text)}
            if decision is not None and not decided:
                decided = True
                yield "decision", {"proposed": decision}
    finally:
        inflight.unlisten(bell)


def _rings(bell: queue.SimpleQueue[None]) -> bool:
    """Wait for the bell; several rings are one. False after the ping interval."""
    try:
        bell.get(timeout=settings.NARRATION_PING_SECONDS)
    except queue.Empty:
        return False
    while not bell.empty():
        bell.get()
    return True


def _poll(receipt: Receipt) -> Iterator[Event]:
    """Wait for a row that another process works on: until it is settled, overdue, or unreadable."""
    pinged = time.monotonic()
    while True:
        time.sleep(POLL_SECONDS)
        try:
            current = ledger.read(receipt.pk)
        except DatabaseError:
            return
        finally:
            connection.close()
        if current is None or current.status != Status.PENDING or current.overdue:
            return
        if time.monotonic() - pinged >= settings.NARRATION_PING_SECONDS:
            pinged = time.monotonic()
            yield "ping", {}


def fields_so_far(text: str) -> dict[str, str]:
    """The text fields that a half-written JSON object shows, for display: `{"summary": "Call the cust"}`.

    A guess at unfinished text, never an argument: arguments are parsed strictly, once the answer is complete.
    """
    fields: dict[str, str] = {}
    for name, raw, _closed in _FIELD.findall(text):
        try:
            fields[name] = json.loads(f'"{raw}"', strict=False)
        except ValueError:  # cut inside an escape
            continue
    return fields


def snapshot(receipt: Receipt) -> list[dict[str, Any]]:
    """The same as a list: what a stream opened now would say, without waiting."""
    return [{"event": name, "data": data} for name, data in (*_row(receipt), _end(receipt))]
