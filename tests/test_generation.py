"""Generated receipts: as the ledger would have them, and never among real ones."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Q

from receipts.lifecycle import Status
from receipts.models import Receipt, Run
from receipts.verification import verify
from receipts_project.accounts.models import User
from tests import factories
from tests.factories import alice, desk

__all__ = ["alice", "desk"]


@pytest.fixture
def generated(transactional_db: None) -> None:
    call_command("generate_receipts", 5000, verbosity=0)


def test_keeps_every_rule_but_that_the_changes_are_there(generated: None) -> None:
    broken = [rule for rule, finding in verify() if finding is not None]
    assert broken
    assert all("and its changes are one to one" in rule for rule in broken)


def test_holds_what_lists_are_filtered_by(generated: None) -> None:
    rows = Receipt.objects
    assert rows.filter(replay_of=None).count() == 5000
    for status in (Status.APPLIED, Status.FAILED):
        assert rows.filter(status=status).exists()
    assert rows.filter(Q(replay_of__isnull=False)).exists()
    assert rows.filter(attempt=2).exists()
    assert rows.values("tool_name").distinct().count() == 5
    nights = Run.objects.filter(trigger="schedule", parent=None)
    assert sum(night.planned or 0 for night in nights) == rows.filter(run__parent__isnull=False).count() > 0


def test_goes_on_where_only_generated_ones_are(generated: None) -> None:
    call_command("generate_receipts", 10, verbosity=0)
    assert Receipt.objects.filter(replay_of=None).count() == 5010


def test_refuses_among_real_ones_unless_forced(alice: User) -> None:
    factories.applied(alice)
    with pytest.raises(CommandError, match="holds real receipts"):
        call_command("generate_receipts", 10, verbosity=0)
    assert Receipt.objects.count() == 1
    call_command("generate_receipts", 10, force=True, verbosity=0)
    assert Receipt.objects.filter(replay_of=None).count() == 11
