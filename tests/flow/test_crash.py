"""A process dies at every point of a press; the ledger tells the truth and the same key gets the person on.

Points K0 to K8: before commit 1, during the fill, inside commit 2, during COMMIT, after COMMIT, while stamping a
failure, after it, after a takeover, frozen past the deadline.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import httpx
import pytest
from django.db import connection

from receipts.models import Attempt, Receipt
from receipts_project.accounts.models import User
from tests.flow.provider import GOOD, Provider
from tests.flow.test_file import overdue
from tests.flow.web import POINT, Web, eventually, held_at, waiting_at_the_point
from tickets.models import Followup

pytestmark = pytest.mark.processes
KEY = "follow-7f3a"


@pytest.fixture
def start(alice: User, desk: Provider) -> Iterator[Callable[..., Web]]:
    started: list[Web] = []

    def start(**environment: str) -> Web:
        started.append(Web(user=alice, provider_url=desk.url, **{"APPLY_LOCK_TIMEOUT_MS": "60000", **environment}))
        return started[-1]

    yield start
    desk.gate.set()
    for web in started:
        web.end()


def row() -> Receipt:
    return Receipt.objects.get(idempotency_key=KEY)


def died(future: Future[httpx.Response]) -> None:
    with pytest.raises(httpx.TransportError):
        future.result(30)


def files_on(web: Web, *, attempt: int) -> None:
    """The same key in another process: one follow-up, by that attempt."""
    answer = web.post(KEY)
    assert answer.status_code == 201, answer.text
    assert (answer.json()["attempt"], answer.json()["status"]) == (attempt, "applied")
    assert Followup.objects.count() == 1


def answers_on(web: Web, desk: Provider) -> None:
    """The same key in another process: answered from the ledger."""
    calls = desk.calls
    answer = web.post(KEY)
    assert answer.status_code == 200
    assert answer.headers["Idempotent-Replayed"] == "true"
    assert answer.json()["result_ref"] == Followup.objects.get().id
    assert desk.calls == calls


class TestKilled:
    def test_k0_before_the_receipt_is_committed_leaves_nothing(self, start: Any, desk: Provider) -> None:
        web = start()
        with held_at("tool_receipts"):
            press = web.post_later(KEY)
            eventually(waiting_at_the_point)
            web.kill()
            died(press)

        eventually(lambda: not Receipt.objects.exists() or row().status == "pending")
        # the statement was on its way: the database may still have finished it, and then it is K1
        if Receipt.objects.exists():
            overdue(row())
        assert desk.calls == 0
        assert start().post(KEY).status_code == 201
        assert Followup.objects.count() == 1

    def test_k1_during_the_fill_leaves_it_pending_until_its_deadline(self, start: Any, desk: Provider) -> None:
        web, other = start(), start()
        desk.gate.clear()
        press = web.post_later(KEY)
        desk.wait_for_calls(1)
        web.kill()
        died(press)
        desk.gate.set()

        assert row().status == "pending"
        assert Followup.objects.count() == 0
        refused = other.post(KEY)
        assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_in_flight")
        overdue(row())
        files_on(other, attempt=2)
        assert Attempt.objects.get(attempt=1).error_code == "abandoned"

    @pytest.mark.parametrize("table", ["followups", "attempts"])
    def test_k2_inside_commit_2_with_its_session_lost_rolls_the_change_back(
        self, start: Any, desk: Provider, table: str
    ) -> None:
        web, other = start(), start()
        with held_at(table):
            press = web.post_later(KEY)
            eventually(waiting_at_the_point)
            web.signal(signal.SIGSTOP)
            terminate_sessions_at_the_point()
            web.kill()
            died(press)

        assert row().status == "pending"
        assert Followup.objects.count() == 0
        overdue(row())
        files_on(other, attempt=2)

    @pytest.mark.parametrize(("table", "at_commit"), [("followups", False), ("attempts", False), ("followups", True)])
    def test_k3_inside_commit_2_is_as_if_before_or_after(
        self, start: Any, desk: Provider, table: str, at_commit: bool
    ) -> None:
        """The whole of commit 2 is one statement: the database may still finish it for a process that is gone."""
        web, other = start(), start()
        with held_at(table, at_commit=at_commit):
            press = web.post_later(KEY)
            eventually(waiting_at_the_point)
            web.kill()
            died(press)

        eventually(lambda: not working_sessions())
        if row().status == "applied":
            answers_on(other, desk)
        else:
            overdue(row())
            files_on(other, attempt=2)

    def test_k4_after_commit_and_before_the_answer_is_answered_from_the_ledger(
        self, start: Any, desk: Provider
    ) -> None:
        web, other = start(), start()
        with held_at("followups", at_commit=True) as let_go:
            press = web.post_later(KEY)
            eventually(waiting_at_the_point)
            web.signal(signal.SIGSTOP)  # it will not hear that its commit succeeded
            let_go()
            eventually(lambda: row().status == "applied")
            web.kill()
            died(press)

        answers_on(other, desk)

    def test_k5_while_stamping_a_failure_leaves_it_pending(self, start: Any, desk: Provider) -> None:
        web, other = start(), start()
        desk.says("not json")
        with held_at("attempts"):
            press = web.post_later(KEY)
            eventually(waiting_at_the_point)
            assert row().status == "pending"
            terminate_sessions_at_the_point()
            web.kill()
            died(press)

        assert row().status == "pending"
        desk.says(dict(GOOD))
        overdue(row())
        files_on(other, attempt=2)

    def test_k6_after_a_failure_was_stamped_runs_again_as_the_next_attempt(self, start: Any, desk: Provider) -> None:
        web, other = start(), start()
        desk.fails(500)
        with held_at("attempts") as let_go:
            press = web.post_later(KEY)
            eventually(waiting_at_the_point)
            web.signal(signal.SIGSTOP)
            let_go()
            eventually(lambda: row().status == "failed")
            web.kill()
            died(press)

        desk.says(dict(GOOD))
        files_on(other, attempt=2)

    def test_k7_after_a_takeover_is_taken_over_again(self, start: Any, desk: Provider) -> None:
        first, second, third = start(), start(), start()
        desk.gate.clear()
        for number, web in enumerate((first, second), start=1):
            press = web.post_later(KEY)
            desk.wait_for_calls(number)
            web.kill()
            died(press)
            overdue(row())
        desk.gate.set()

        files_on(third, attempt=3)

    def test_k8_frozen_past_its_deadline_wakes_up_to_zero_rows(self, start: Any, desk: Provider) -> None:
        zombie, other = start(), start()
        desk.gate.clear()
        press = zombie.post_later(KEY)
        desk.wait_for_calls(1)
        zombie.signal(signal.SIGSTOP)
        overdue(row())
        desk.gate.set()
        files_on(other, attempt=2)

        zombie.signal(signal.SIGCONT)
        answer = press.result(60)

        assert answer.status_code in (200, 201)
        assert answer.json()["attempt"] == 2
        assert answer.json()["result_ref"] == Followup.objects.get().id


class TestDatabaseSessionLost:
    def test_inside_commit_2_files_nothing_and_says_so(self, start: Any, desk: Provider) -> None:
        web = start()
        with held_at("attempts", when="NEW.attempt = 1 AND NEW.status = 'ok'"):
            press = web.post_later(KEY)
            eventually(waiting_at_the_point)
            terminate_sessions_at_the_point()
            answer = press.result(60)

        assert (answer.status_code, answer.json()["code"]) == (503, "apply_failed")
        assert answer.json()["retryable"]
        assert Followup.objects.count() == 0
        files_on(web, attempt=2)

    def test_during_commit_answers_from_the_row(self, start: Any, desk: Provider) -> None:
        """The session is cut while it commits: nothing can have happened, and the row says so."""
        web = start()
        with held_at("followups", at_commit=True):
            press = web.post_later(KEY)
            eventually(waiting_at_the_point)
            terminate_sessions_at_the_point()
            answer = press.result(60)

        assert (answer.status_code, row().status) == (503, "failed")
        files_on(web, attempt=2)


class TestManyAtOnce:
    @pytest.mark.parametrize("processes", [1, 2])
    def test_fifty_identical_posts_are_one_filing(self, start: Any, desk: Provider, processes: int) -> None:
        webs = [start() for _ in range(processes)]
        desk.gate.clear()
        presses = [webs[number % processes].post_later(KEY) for number in range(50)]

        # the provider is held: whoever is not the one press is answered meanwhile
        eventually(lambda: sum(press.done() for press in presses) == 49)
        desk.gate.set()
        answers = [press.result(60) for press in presses]

        assert sorted(answer.status_code for answer in answers) == [201] + [409] * 49
        refused = [answer for answer in answers if answer.status_code == 409]
        assert all(answer.json()["code"] == "idempotency_in_flight" for answer in refused)
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
        assert desk.calls == 1
        assert Followup.objects.count() == 1
        again = [webs[0].post_later(KEY) for _ in range(50)]
        assert {(a.result(60).status_code, a.result(60).json()["result_ref"]) for a in again} == {
            (200, Followup.objects.get().id)
        }

    @pytest.mark.parametrize("state", ["failed", "overdue"])
    def test_twenty_retries_begin_one_attempt(self, start: Any, desk: Provider, state: str) -> None:
        web = start()
        if state == "failed":
            desk.fails(500)
            assert web.post(KEY).status_code == 502
            desk.says(dict(GOOD))
            desk.gate.clear()
        else:
            dead = start()
            desk.gate.clear()
            press = dead.post_later(KEY)
            desk.wait_for_calls(1)
            dead.kill()
            died(press)
            overdue(row())
        calls = desk.calls
        presses = [web.post_later(KEY) for _ in range(20)]
        eventually(lambda: sum(press.done() for press in presses) == 19)
        desk.gate.set()

        codes = sorted(press.result(60).status_code for press in presses)

        assert codes == [201] + [409] * 19
        assert row().attempt == 2
        assert desk.calls == calls + 1


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_client_that_hangs_up_changes_nothing(start: Any, desk: Provider, accept: str) -> None:
    web = start()
    desk.gate.clear()
    body = b'{"notes": "Customer still blocked on SSO."}'
    with socket.create_connection(("127.0.0.1", web.port)) as client:
        client.sendall(
            b"POST /api/v1/tickets/TCK-1008/followups HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + f"Accept: {accept}\r\nAuthorization: Token {web.token}\r\nIdempotency-Key: {KEY}\r\n".encode()
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        desk.wait_for_calls(1)
    desk.gate.set()

    eventually(lambda: row().status == "applied")
    answers_on(web, desk)


def test_sigterm_lets_the_attempt_in_flight_end(start: Any, desk: Provider) -> None:
    web = start()
    desk.gate.clear()
    press = web.post_later(KEY)
    desk.wait_for_calls(1)
    web.signal(signal.SIGTERM)
    desk.gate.set()

    assert press.result(60).status_code == 201
    assert row().status == "applied"


def working_sessions() -> int:
    """Sessions of the product that are in the middle of something."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND (state = 'active' OR state LIKE 'idle in transaction%%') AND backend_type = 'client backend'",
            [],
        )
        count: int = cursor.fetchone()[0]
        return count


def terminate_sessions_at_the_point() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted",
            [POINT],
        )
    eventually(lambda: waiting_at_the_point() == 0)
