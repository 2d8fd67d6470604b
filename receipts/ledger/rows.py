"""Receipts as rows: how one is read back, and found."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from django.db import DatabaseError, connection

from receipts.contracts import Context, Tool
from receipts.lifecycle import LIVE, Status
from receipts.models import Attempt, Receipt
from receipts.statements import fetch_row

_FIELDS = list(Receipt._meta.concrete_fields)
_ATTNAMES = [f.attname for f in _FIELDS]
COLUMNS = ", ".join(f'"{f.column}"' for f in _FIELDS)


def columns_of(table: str) -> str:
    return ", ".join(f'{table}."{f.column}"' for f in _FIELDS)


_JSON_COLUMN = _ATTNAMES.index("arguments_json")

# A row is found by its primary key, always. Spelled plainly, the condition lets the planner walk the small index of
# pending receipts instead, and between two vacuums that holds an entry for every receipt there has been.
PENDING = "(status = 'pending') IS TRUE"


def receipt_of(row: Sequence[Any] | None) -> Receipt | None:
    if row is None:
        return None
    values = list(row)
    # jsonb arrives as text on Django's connections
    values[_JSON_COLUMN] = json.loads(values[_JSON_COLUMN])
    return Receipt.from_db(connection.alias, _ATTNAMES, values)


def one(sql: str, parameters: dict[str, Any]) -> Receipt | None:
    return receipt_of(fetch_row(sql, parameters))


def must_be_its_own_transaction() -> None:
    """Commit 1 has to be visible to others before the provider is called, so it cannot hide in a transaction."""
    if connection.in_atomic_block:
        raise RuntimeError("the ledger commits for itself: call it outside transaction.atomic")


def find(user_id: uuid.UUID, idempotency_key: str) -> Receipt | None:
    """The receipt of a person's key."""
    return one(
        f"SELECT {COLUMNS} FROM tool_receipts WHERE idempotency_key = %(key)s AND user_id = %(user)s",  # noqa: S608
        {"key": idempotency_key, "user": user_id},
    )


def read(receipt_id: uuid.UUID) -> Receipt | None:
    """The row as it is now."""
    return one(f"SELECT {COLUMNS} FROM tool_receipts WHERE id = %(id)s", {"id": receipt_id})  # noqa: S608


def overdue(receipt: Receipt) -> bool:
    """Whether a pending receipt's time is over, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s <= clock_timestamp()", [receipt.deadline_at])
        return receipt.status == Status.PENDING and bool(cursor.fetchone()[0])


def holds(receipt: Receipt) -> bool:
    """Whether this attempt still owns its row, by the database's clock: asked before something leaves the database."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT FROM tool_receipts WHERE id = %s AND attempt = %s AND {PENDING}"
            " AND deadline_at > clock_timestamp()",
            [receipt.id, receipt.attempt],
        )
        return cursor.fetchone() is not None


def overdue_ids(limit: int) -> list[uuid.UUID]:
    """Pending receipts past their deadline, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM tool_receipts WHERE status = 'pending' AND deadline_at <= clock_timestamp()"
            " ORDER BY deadline_at LIMIT %s",
            [limit],
        )
        return [row[0] for row in cursor.fetchall()]


def context(tool: Tool, subject: str) -> Context | None:
    """What the tool's context is read from, now; None: there is no such subject."""
    if not tool.subject_form.fullmatch(subject):
        return None
    row = fetch_row(tool.read.sql, {"subject": subject})
    return None if row is None else tool.read.build(subject, row[0])


def live_in_lineage(root_id: uuid.UUID, but: uuid.UUID) -> tuple[uuid.UUID, str] | None:
    """(id, status) of the other receipt of a lineage that is pending or applied, if there is one."""
    found = Receipt.objects.filter(root_id=root_id, status__in=LIVE).exclude(pk=but)
    return found.values_list("pk", "status").first()


def last_attempt(receipt: Receipt) -> Attempt | None:
    """The row of the receipt's current attempt; None while it runs."""
    return Attempt.objects.filter(receipt_id=receipt.id, attempt=receipt.attempt).first()


def constraint_of(error: DatabaseError) -> str | None:
    diagnosis = getattr(error.__cause__, "diag", None)
    return getattr(diagnosis, "constraint_name", None)
