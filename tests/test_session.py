"""The limits that every session of the product begins with."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from receipts_project.postgresql.session import session_options
from tests.flow.invariants import nothing_sits_in_a_transaction
from tests.flow.web import dsn
from tests.test_launch import manage
from tickets.models import Ticket


def shown(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return cursor.fetchone()[0]


def test_a_pooled_connection_has_them(db):
    assert shown("lock_timeout") == "2s"
    assert shown("idle_in_transaction_session_timeout") == "10s"


def test_the_database_url_is_heard_last():
    options = session_options("-c lock_timeout=9000 -c work_mem=8MB", lock_timeout_ms=2000, arguments=["manage.py"])
    assert options.index("lock_timeout=2000") < options.index("lock_timeout=9000")
    assert "work_mem=8MB" in options


def test_migrations_wait_for_their_locks():
    options = session_options("", lock_timeout_ms=2000, arguments=["manage.py", "migrate", "--no-input"])
    assert options == "-c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c jit=off"


@pytest.mark.processes
def test_the_options_of_a_database_url_are_kept(transactional_db, tmp_path: Path):
    connection.ensure_connection()
    code = (
        "from django.db import connection as c; q = c.cursor(); [print(q.execute(f'SHOW {n}').fetchone()[0]) for n in "
    )
    code += "('lock_timeout', 'work_mem', 'idle_in_transaction_session_timeout')]"
    url = dsn() + "&options=-c%20work_mem%3D8MB"
    asked = manage("shell", "-v", "0", "-c", code, DATABASE_URL=url, DATA_DIR=tmp_path)
    assert asked.stdout.split() == ["2s", "8MB", "10s"], asked.stderr


def test_a_frozen_session_is_ended_and_its_locks_with_it(transactional_db, settings):
    """As an instance that was stopped inside a transaction; the test cannot wait 10 s, so it shortens them."""
    Ticket.objects.create(id="TCK-1", subject="x", created_at="2026-01-01T00:00Z", updated_at="2026-01-01T00:00Z")
    options = session_options(
        "-c idle_in_transaction_session_timeout=500", lock_timeout_ms=2000, arguments=["gunicorn"]
    )
    with psycopg.connect(dsn(), options=options) as frozen:
        frozen.execute("SELECT 1 FROM tickets WHERE id = 'TCK-1' FOR UPDATE")
        began = time.monotonic()
        assert Ticket.objects.filter(id="TCK-1").update(subject="y") == 1
        assert time.monotonic() - began < 2
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            frozen.execute("SELECT 1")


def test_no_statement_waits_longer_than_two_seconds_for_a_lock(transactional_db):
    Ticket.objects.create(id="TCK-1", subject="x", created_at="2026-01-01T00:00Z", updated_at="2026-01-01T00:00Z")
    with psycopg.connect(dsn()) as holder:
        holder.execute("SELECT 1 FROM tickets WHERE id = 'TCK-1' FOR UPDATE")
        began = time.monotonic()
        with pytest.raises(Exception, match="lock timeout"):
            Ticket.objects.filter(id="TCK-1").update(subject="y")
        assert 1.8 < time.monotonic() - began < 4


class TestI4:
    """The suite's own invariant: passing through a transaction is allowed, staying in one is not."""

    def test_a_session_that_stays_is_found(self, transactional_db):
        with psycopg.connect(dsn()) as sitter:
            sitter.execute("SELECT 1")
            with pytest.raises(AssertionError, match="I4"):
                nothing_sits_in_a_transaction()

    def test_a_session_that_passes_is_none(self, transactional_db):
        with psycopg.connect(dsn()) as passer:
            passer.execute("SELECT 1")

            threading.Timer(0.3, passer.commit).start()
            nothing_sits_in_a_transaction()
