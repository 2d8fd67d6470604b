"""`verify_ledger` holds for an honest ledger, and names what somebody with the owner's rights tampered with."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from receipts.models import Receipt
from tests.flow.conftest import Presser
from tests.flow.provider import Provider


@pytest.fixture
def ledger(press: Presser, desk: Provider) -> Receipt:
    """One applied, one failed."""
    applied = press.settled()
    desk.fails(500)
    press.settled()
    return applied


def test_holds_for_an_honest_ledger(ledger: Receipt, capsys: Any) -> None:
    call_command("verify_ledger")

    assert "BROKEN" not in capsys.readouterr().out


TAMPERED = {
    "the guards stand": (
        "ALTER TABLE attempts ENABLE TRIGGER refuse_change",
        "ALTER TABLE attempts ENABLE ALWAYS TRIGGER refuse_change",
    ),
    "every attempt that ended": (
        "UPDATE attempts SET attempt = 7 WHERE status = 'ok'",
        "UPDATE attempts SET attempt = 1 WHERE status = 'ok'",
    ),
    "what its last attempt says": (
        "UPDATE attempts SET http_status = 999 WHERE status = 'ok'",
        "UPDATE attempts SET http_status = 201 WHERE status = 'ok'",
    ),
    "one to one": (
        "UPDATE followups SET id = 'FUP-' || id",
        "UPDATE followups SET id = substr(id, 5)",
    ),
    "frozen schema's digest": (
        "UPDATE tool_receipts SET contract_sha256 = 'x' || contract_sha256",
        "UPDATE tool_receipts SET contract_sha256 = substr(contract_sha256, 2)",
    ),
}


@pytest.mark.parametrize("rule", list(TAMPERED))
def test_names_what_was_tampered_with(ledger: Receipt, rule: str, capsys: Any) -> None:
    tamper, mend = TAMPERED[rule]
    as_owner(tamper)
    try:
        with pytest.raises(CommandError):
            call_command("verify_ledger")
    finally:
        as_owner(mend)

    broken = [line for line in capsys.readouterr().out.splitlines() if "BROKEN" in line]
    assert any(rule in line for line in broken)


def as_owner(statement: str) -> None:
    """What only the tables' owner can do: switch the guards off for a moment."""
    guarded = statement.startswith(("UPDATE attempts", "UPDATE tool_receipts"))
    table = statement.split()[1]
    with connection.cursor() as cursor:
        if guarded:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        cursor.execute(statement)
        if guarded:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
            for trigger in ("refuse_delete", "refuse_truncate"):
                cursor.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}")
            guard = "guard_transition" if table == "tool_receipts" else "refuse_change"
            cursor.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {guard}")
