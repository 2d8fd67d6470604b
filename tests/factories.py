"""Rows for tests that read: made through the ledger, as every row is, so they need a transactional database."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from receipts import ledger
from receipts.errors import ReceiptsError
from receipts.models import Receipt, Trigger
from receipts_project.accounts.models import User
from receipts_project.accounts.roles import AUDITORS, LEADS, OPERATORS
from tickets.models import Member, Ticket
from tickets.tools import FILE_FOLLOWUP

_numbers = itertools.count(1)

#: What an accepted draft leaves behind.
ARGUMENTS = {"ticket_id": "TCK-1008", "summary": "Call the customer about the SSO login.", "assignee": "ada"}
DECISION = ledger.Decision(
    record={"proposed": ARGUMENTS, "gate": None, "model": "test-model", "provider_host": "provider.test"},
    arguments=ARGUMENTS,
    model="test-model",
    provider_host="provider.test",
    finish_reason="stop",
    prompt_tokens=7,
    completion_tokens=5,
    fill_ms=120,
)


@pytest.fixture
def desk(transactional_db: None) -> None:
    """Members and tickets, as the demo names them."""
    for handle in ("ada", "grace", "alan"):
        Member.objects.create(handle=handle, name=handle.title())
    for number, status in ((1008, "open"), (1009, "open"), (1010, "closed")):
        make_ticket(f"TCK-{number}", status=status)


@pytest.fixture
def alice(desk: None) -> User:
    """A support lead."""
    return person("alice", LEADS)


@pytest.fixture
def bob(desk: None) -> User:
    """Another lead."""
    return person("bob", LEADS)


@pytest.fixture
def charlie(desk: None) -> User:
    """Signed in, without a role."""
    return person("charlie")


@pytest.fixture
def auditor(desk: None) -> User:
    return person("ines", AUDITORS)


@pytest.fixture
def operator(desk: None) -> User:
    return person("kofi", OPERATORS)


def person(name: str, *roles: str, **fields: Any) -> User:
    user = User.objects.create_user(name, **fields)
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


def make_ticket(ticket_id: str, **fields: Any) -> Ticket:
    now = timezone.now()
    given = {
        "subject": "SSO login fails",
        "requester_name": "Rita",
        "requester_email": "rita@example.com",
        "created_at": now,
        "updated_at": now,
    }
    return Ticket.objects.create(id=ticket_id, **(given | fields))


def pending(user: User, *, ticket: str = "TCK-1008", seconds: float = 30.0, **fields: Any) -> Receipt:
    """A receipt whose attempt has begun. With `seconds` below zero it is overdue already."""
    number = next(_numbers)
    given = {
        "idempotency_key": f"test-key-{number:06}",
        "fingerprint": number.to_bytes(32, "big"),
        "tool": FILE_FOLLOWUP,
        "subject": ticket,
        "input_hash": f"{number:016x}",
        "workflow": "file_followup",
        "trigger": Trigger.PRESS.value,
        "manifest": {"app_version": "test"},
        "sealed": b"sealed",
        "sealed_days": 30,
    }
    opening = ledger.Opening(user_id=user.pk, seconds=seconds, **(given | fields))
    _context, receipt = ledger.open_receipt(opening)
    assert receipt is not None
    return receipt


def failed(user: User, error: ReceiptsError, *, answered: bool = False, **fields: Any) -> Receipt:
    """A receipt that failed with this error; `answered`: by a model whose answer was refused."""
    decision = replace(DECISION, arguments=None) if answered else None
    settled = ledger.settle_failed(pending(user, **fields), error, replayable=True, decision=decision)
    assert settled is not None
    return settled


def applied(user: User, *, ticket: str = "TCK-1008", **fields: Any) -> Receipt:
    """A receipt that filed a follow-up."""
    receipt = pending(user, ticket=ticket, **fields)
    context = ledger.context(FILE_FOLLOWUP, ticket)
    assert context is not None
    return ledger.apply(
        receipt,
        FILE_FOLLOWUP,
        ARGUMENTS | {"ticket_id": ticket},
        context,
        decision=DECISION,
        lock_timeout_ms=2000,
        statement_timeout_ms=5000,
    )
