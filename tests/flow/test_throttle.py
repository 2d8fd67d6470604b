"""The turn at the throttle: counting and opening are one step for each person."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from receipts import throttle
from receipts.errors import Throttled
from receipts.models import Receipt
from receipts_project.accounts.models import User
from tests import factories
from tests.factories import alice, bob, desk

__all__ = ["alice", "bob", "desk"]


def test_forty_presses_at_once_are_as_many_as_the_rate_allows(alice: User, settings: Any) -> None:
    settings.THROTTLE_PRESSES = "5/min"
    together = threading.Barrier(40)

    def press(_: int) -> str:
        together.wait(20)
        try:
            with throttle.turn(alice.pk):
                factories.pending(alice)
            return "opened"
        except Throttled:
            return "throttled"
        finally:
            connection.close()

    with ThreadPoolExecutor(40) as pool:
        ended = list(pool.map(press, range(40)))

    assert ended.count("opened") == Receipt.objects.count() == 5
    assert len(throttle._turns) == 0, "no lock outlives its presses"


def test_a_press_counts_only_once_the_one_before_has_opened(alice: User, settings: Any) -> None:
    settings.THROTTLE_PRESSES = "1/min"

    def press() -> str:
        try:
            with throttle.turn(alice.pk):
                return "went through"
        except Throttled:
            return "throttled"
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with throttle.turn(alice.pk):
            other = pool.submit(press)
            with pytest.raises(TimeoutError):
                other.result(0.5)
            factories.pending(alice)
        assert other.result(20) == "throttled"


def test_people_do_not_wait_for_each_other(alice: User, bob: User, settings: Any) -> None:
    settings.THROTTLE_PRESSES = "1/min"
    with throttle.turn(alice.pk), throttle.turn(bob.pk):
        pass


def test_what_the_ledger_answers_is_excused_and_asked_for_only_when_the_rate_is_used_up(
    alice: User, settings: Any
) -> None:
    settings.THROTTLE_PRESSES = "1/min"
    asked: list[bool] = []
    with throttle.turn(alice.pk, answerable=lambda: asked.append(True)):
        factories.pending(alice)
    assert asked == []
    with throttle.turn(alice.pk, answerable=lambda: True):
        pass
    with pytest.raises(Throttled), throttle.turn(alice.pk, answerable=lambda: asked.append(True)):
        pass
    assert asked == [True]


def test_a_press_that_breaks_leaves_the_turn_to_the_next(alice: User, settings: Any) -> None:
    settings.THROTTLE_PRESSES = "5/min"
    with pytest.raises(ZeroDivisionError), throttle.turn(alice.pk):
        raise ZeroDivisionError
    with throttle.turn(alice.pk):
        pass


@pytest.mark.django_db
def test_without_a_rate_nothing_is_counted(settings: Any, django_assert_num_queries: Any) -> None:
    settings.THROTTLE_PRESSES = "none"
    with django_assert_num_queries(0), throttle.turn("anybody"):
        pass
