"""A provider that does not answer: what nobody watches waits, one probe tries, a person is never held back."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import F
from django.test import Client
from django.utils import timezone

from receipts import circuit, errors, flow, ledger, manifest, queued
from receipts.checks import check_settings
from receipts.circuit import Hold
from receipts.models import Attempt, AuditEvent, Circuit, Receipt
from receipts_project.accounts.models import User
from receipts_project.accounts.roles import AUDITORS
from tests.flow.conftest import Presser
from tests.flow.provider import GOOD, Provider
from tests.flow.test_file import overdue
from tests.flow.web import Worker, eventually
from tickets.models import Followup, Ticket

DEAD = errors.FillFailed(reason="provider_unavailable")


@pytest.fixture
def host(transactional_db: None) -> str:
    """A provider's name that no other test knows anything of."""
    return f"{uuid.uuid4().hex}.example"


@pytest.fixture(autouse=True)
def few_and_short(settings: Any) -> None:
    settings.CIRCUIT_FAILURES, settings.CIRCUIT_SECONDS, settings.CIRCUIT_MAX_SECONDS = 3, 60.0, 300.0


def ask(host: str) -> Hold | None:
    return circuit.may_begin(uuid.uuid4(), host)


def fail(host: str, times: int = 1) -> None:
    for _ in range(times):
        circuit.heard(host, DEAD)


def row(host: str) -> Circuit:
    return Circuit.objects.get(provider=host)


def pass_time(seconds: float = 3600) -> None:
    """As if the circuits had been written so much earlier, and every job were due."""
    ago = timedelta(seconds=seconds)
    Circuit.objects.update(
        last_failure_at=F("last_failure_at") - ago,
        open_since=F("open_since") - ago,
        open_until=F("open_until") - ago,
        probe_until=F("probe_until") - ago,
    )
    jobs_are_due()


def jobs_are_due() -> None:
    sql("UPDATE procrastinate_jobs SET scheduled_at = now() WHERE status = 'todo' RETURNING 1")


def sql(query: str, *parameters: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters or None)
        return cursor.fetchall()


@contextmanager
def out_of_reach() -> Iterator[None]:
    """Whoever asks the circuits now is refused."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE circuits RENAME TO circuits_elsewhere")
        try:
            yield
        finally:
            cursor.execute("ALTER TABLE circuits_elsewhere RENAME TO circuits")


def in_threads(count: int, work: Callable[[], Any]) -> list[Any]:
    """At once, each with a connection of its own."""
    together = threading.Barrier(count)

    def one() -> Any:
        connection.ensure_connection()
        together.wait(10)
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(one) for _ in range(count)]]


class TestCircuit:
    def test_lets_everything_pass_while_nothing_speaks_against_it(self, host: str) -> None:
        assert ask(host) is None
        assert not Circuit.objects.exists()

    def test_answer_costs_no_statement(self, host: str, caplog: pytest.LogCaptureFixture) -> None:
        with out_of_reach():
            assert not circuit.is_news(host, None)
            circuit.heard(host, None)

        assert not caplog.records

    def test_sound_provider_is_not_looked_up_for_every_attempt(self, host: str) -> None:
        ask(host)
        with out_of_reach():
            assert ask(host) is None

    def test_opens_after_so_many_failures_in_a_row(self, host: str, caplog: pytest.LogCaptureFixture) -> None:
        fail(host, 2)
        assert ask(host) is None
        assert row(host).open_since is None

        fail(host)

        hold = ask(host)
        assert hold
        assert (hold.provider, hold.reason) == (host, "provider_unavailable")
        until = row(host).open_until
        assert until
        assert until < hold.until <= until + timedelta(seconds=60)
        assert [record.levelname for record in caplog.records if host in record.getMessage()] == ["WARNING"]

    def test_held_jobs_do_not_come_back_together(self, host: str) -> None:
        fail(host, 3)

        assert len({hold.until for hold in (ask(host) for _ in range(20)) if hold}) == 20

    def test_answer_in_between_ends_the_row(self, host: str) -> None:
        fail(host, 2)
        circuit.heard(host, None)
        fail(host, 2)

        assert ask(host) is None

    def test_failures_of_another_hour_are_no_row(self, host: str) -> None:
        fail(host, 2)
        pass_time()
        fail(host, 2)

        assert row(host).failures == 2
        assert ask(host) is None

    @pytest.mark.parametrize("reason", sorted(circuit.SPEAKS_AGAINST))
    def test_counts_what_the_next_attempt_would_meet_too(self, host: str, reason: str) -> None:
        circuit.heard(host, errors.FillFailed(reason=reason))

        assert row(host).last_reason == reason

    @pytest.mark.parametrize(
        "error",
        [
            errors.FillFailed(reason="provider_rejected_request"),
            errors.FillFailed(reason="provider_protocol"),
            errors.FillFailed(reason="model_output_empty"),
            errors.FillInvalid(reason="model_refused"),
            errors.DeadlineExceeded(reason="fill_budget"),
            errors.ArgMismatch(),
        ],
    )
    def test_takes_any_answer_as_a_sign_of_life(self, host: str, error: errors.ReceiptsError) -> None:
        fail(host)
        circuit.heard(host, error)

        assert not Circuit.objects.exists()

    def test_waits_at_least_as_long_as_the_provider_asked_for(self, host: str) -> None:
        for _ in range(3):
            circuit.heard(host, errors.FillFailed(reason="provider_rate_limited", retry_after=200))

        known = row(host)
        assert known.open_since
        assert known.open_until == known.open_since + timedelta(seconds=200)

    def test_failures_at_once_are_all_counted_and_open_it_once(
        self, host: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        in_threads(10, lambda: fail(host))

        assert row(host).failures == 10
        assert len([record for record in caplog.records if host in record.getMessage()]) == 1

    def test_hears_without_a_database(self, host: str, caplog: pytest.LogCaptureFixture) -> None:
        """The attempt still has to be settled, and that is not for the circuit to break."""
        with out_of_reach():
            fail(host)

        assert "could not be written" in caplog.text


class TestProbe:
    @pytest.fixture(autouse=True)
    def due(self, host: str) -> None:
        """It has been open for a minute, and its time is over."""
        fail(host, 3)
        pass_time(60)

    def test_is_exactly_one(self, host: str) -> None:
        holds = in_threads(10, lambda: ask(host))

        assert holds.count(None) == 1

    def test_answered_closes_it_and_the_rest_goes_on(self, host: str, caplog: pytest.LogCaptureFixture) -> None:
        probe = uuid.uuid4()
        assert circuit.may_begin(probe, host) is None
        assert ask(host)

        with caplog.at_level(logging.INFO):
            circuit.heard(host, None, probe)

        assert not Circuit.objects.exists()
        assert [ask(host) for _ in range(10)] == [None] * 10
        assert "answers again" in caplog.text

    def test_failed_opens_it_for_twice_as_long_each_time(self, host: str) -> None:
        lengths = []
        for _ in range(4):
            probe = uuid.uuid4()
            assert circuit.may_begin(probe, host) is None
            circuit.heard(host, DEAD, probe)
            known = row(host)
            assert known.open_until
            assert known.probe_until is None
            lengths.append((known.open_until - known.last_failure_at).total_seconds())
            pass_time(lengths[-1])

        assert lengths == pytest.approx([120, 240, 300, 300], abs=5)

    def test_that_dies_keeps_the_others_no_longer_than_its_lease(self, host: str, settings: Any) -> None:
        assert ask(host) is None
        pass_time(settings.ATTEMPT_DEADLINE_SECONDS - 5)
        assert ask(host)
        pass_time(5)

        assert ask(host) is None

    def test_that_comes_after_its_lease_is_a_failure_like_any_other(self, host: str) -> None:
        late = uuid.uuid4()
        circuit.may_begin(late, host)
        pass_time(60)
        assert ask(host) is None  # the next probe
        lease = row(host).probe_until

        circuit.heard(host, DEAD, late)

        assert row(host).probe_until == lease
        assert row(host).failures == 4

    def test_that_does_not_begin_makes_way(self, host: str) -> None:
        probe = uuid.uuid4()
        circuit.may_begin(probe, host)

        circuit.give_back(probe, host)

        assert ask(host) is None

    def test_failure_of_somebody_else_does_not_prolong_it(self, host: str) -> None:
        before = row(host).open_until
        fail(host)

        assert (row(host).open_until, row(host).failures) == (before, 4)


def holds(receipt: Receipt) -> list[dict[str, Any]]:
    return list(AuditEvent.objects.filter(receipt=receipt, verb="hold").order_by("id").values_list("detail", flat=True))


def scheduled() -> list[tuple[str, dt.datetime, int]]:
    """(task, when, what it has failed at so far) of the last job."""
    found: list[tuple[str, dt.datetime, int]] = sql(
        "SELECT task_name, scheduled_at, attempts FROM procrastinate_jobs ORDER BY id DESC LIMIT 1"
    )
    return found


def worked(receipt: Receipt, begin: Callable[[uuid.UUID, int], Any], attempt: int) -> Receipt:
    """A worker's job, to its end; the row then."""
    inflight = begin(receipt.pk, attempt)
    if inflight is not None:
        inflight.future.result(20)
    return Receipt.objects.get(pk=receipt.pk)


class TestHold:
    """Attempts that nobody watches, while the circuit is open."""

    @pytest.fixture
    def closed(self, desk: Provider) -> str:
        return desk.url.split("/")[2]

    @pytest.fixture
    def tripped(self, closed: str) -> str:
        fail(closed, 3)
        return closed

    def test_queued_attempt_waits_and_says_so_once(self, press: Presser, desk: Provider, tripped: str) -> None:
        receipt = press(respond_async=True).receipt
        for _ in range(3):
            assert queued.begin_queued(receipt.pk, 1) is None

        after = Receipt.objects.get()
        assert (after.status, after.attempt, after.started_at) == ("pending", 1, None)
        assert desk.calls == 0
        (told,) = holds(receipt)
        assert (told["attempt"], told["provider"], told["reason"]) == (1, tripped, "provider_unavailable")
        event = AuditEvent.objects.get(verb="hold")
        assert event.actor_id is None
        assert event.run_id == receipt.run_id
        ((task, at, tried),) = scheduled()
        assert (task, tried) == ("receipts.run_attempt", 0)
        until = row(tripped).open_until
        assert until
        assert at > until

    def test_retry_waits_without_using_an_attempt_up(self, press: Presser, desk: Provider, closed: str) -> None:
        desk.fails(503)
        failed = worked(press(respond_async=True).receipt, queued.begin_queued, 1)
        fail(closed, 2)

        for _ in range(30):  # more often than a job is tried
            assert queued.retry_unwatched(failed.pk, 1) is None

        assert Receipt.objects.get().attempt == 1
        assert [told["attempt"] for told in holds(failed)] == [2]
        ((task, _, tried),) = scheduled()
        assert (task, tried) == ("receipts.retry_attempt", 0)
        desk.says(GOOD)
        pass_time(60)
        after = worked(failed, queued.retry_unwatched, 1)
        assert (after.status, after.attempt) == ("applied", 2)

    def test_retry_is_not_held_beyond_the_time_it_may_be_continued_in(
        self, press: Presser, desk: Provider, closed: str, settings: Any
    ) -> None:
        desk.fails(503)
        failed = worked(press(respond_async=True).receipt, queued.begin_queued, 1)
        fail(closed, 2)
        settings.RETRY_WITHIN_SECONDS = 30.0  # less than the circuit's time
        before = sql("SELECT count(*) FROM procrastinate_jobs")

        assert queued.retry_unwatched(failed.pk, 1) is None

        assert sql("SELECT count(*) FROM procrastinate_jobs") == before
        assert holds(failed) == []

    def test_queued_attempt_that_waited_too_long_never_started(self, press: Presser, tripped: str) -> None:
        receipt = press(respond_async=True).receipt
        queued.begin_queued(receipt.pk, 1)
        overdue(receipt)

        assert flow.sweep() == 1

        after = Receipt.objects.get()
        assert (after.error_code, after.error_reason) == ("abandoned", "never_started")

    def test_attempt_that_asks_no_model_is_not_held(self, press: Presser, desk: Provider, tripped: str) -> None:
        given = press(body=lambda: {"arguments": GOOD}, respond_async=True).receipt
        derived = flow.file(
            tool="check_contact_email",
            user=press.user,
            subject="TCK-1008",
            key="check-7f3a",
            body=dict,
            respond_async=True,
        ).receipt

        assert [worked(receipt, queued.begin_queued, 1).status for receipt in (given, derived)] == ["applied"] * 2
        assert desk.calls == 0
        assert row(tripped).open_since  # and says nothing of the provider

    def test_nothing_is_written_where_somebody_began_it_meanwhile(self, press: Presser, tripped: str) -> None:
        receipt = press(respond_async=True).receipt
        hold = ask(tripped)
        assert hold
        Receipt.objects.update(started_at=timezone.now())

        queued._hold(receipt, 1, hold, lambda receipt, at: pytest.fail("a job was written"))

        assert holds(receipt) == []

    def test_probe_that_is_cancelled_makes_way(self, press: Presser, desk: Provider) -> None:
        waiting = press(respond_async=True).receipt
        desk.gate.clear()
        fail(manifest.provider().host, 3)
        pass_time()
        probe = queued.begin_queued(waiting.pk, 1)
        assert probe is not None
        desk.wait_for_calls(1)
        assert ask(manifest.provider().host) is not None  # one is on its way

        flow.cancel(user=press.user, receipt=waiting)
        probe.future.result(20)

        assert ask(manifest.provider().host) is None

    def test_what_can_wait_waits_until_a_provider_is_set_up(
        self, press: Presser, desk: Provider, settings: Any
    ) -> None:
        waiting = press(respond_async=True).receipt
        settings.COMPLETIONS_URL = ""

        assert queued.begin_queued(waiting.pk, 1) is None

        assert ledger.read(waiting.pk).status == "pending"  # type: ignore[union-attr]
        assert AuditEvent.objects.get(verb="hold").detail["reason"] == "provider_unconfigured"

    def test_probe_that_is_refused_before_its_call_makes_way(
        self, press: Presser, desk: Provider, tripped: str
    ) -> None:
        gone = press(respond_async=True, ticket="TCK-1009").receipt
        pass_time(60)
        Ticket.objects.filter(pk="TCK-1009").delete()  # opened before, gone since
        assert queued.begin_queued(gone.pk, 1) is None

        assert row(tripped).probe_until is None
        after = worked(press(respond_async=True).receipt, queued.begin_queued, 1)
        assert after.status == "applied"
        assert not Circuit.objects.exists()


class TestPress:
    """Attempts that somebody watches."""

    def test_goes_to_the_provider_while_the_circuit_is_open(self, press: Presser, desk: Provider) -> None:
        host = desk.url.split("/")[2]
        fail(host, 3)
        desk.fails(503)

        receipt = press.settled(key="follow-7f3a")

        assert (receipt.status, receipt.http_status, receipt.error_code) == ("failed", 502, "fill_failed")
        assert desk.calls == 1
        assert holds(receipt) == []
        desk.says(GOOD)
        assert press.settled(key="follow-7f3a").status == "applied"
        assert not Circuit.objects.exists()  # what it learned counts

    def test_failures_open_the_circuit_for_what_nobody_watches(self, press: Presser, desk: Provider) -> None:
        desk.fails(503)
        for _ in range(3):
            press.settled()

        assert queued.begin_queued(press(respond_async=True).receipt.pk, 1) is None
        assert desk.calls == 3

    def test_asks_nothing_of_the_circuit_while_the_provider_is_sound(
        self, press: Presser, caplog: pytest.LogCaptureFixture
    ) -> None:
        with out_of_reach():
            assert press.settled().status == "applied"

        assert not caplog.records


class TestSettings:
    @pytest.mark.parametrize(
        ("failures", "seconds", "most"),
        [(0, 15, 300), (5, 0, 300), (5, 301, 300)],
        ids=["none", "no time", "backwards"],
    )
    def test_nonsense_stops_the_start(self, settings: Any, failures: int, seconds: float, most: float) -> None:
        settings.CIRCUIT_FAILURES, settings.CIRCUIT_SECONDS, settings.CIRCUIT_MAX_SECONDS = failures, seconds, most

        assert [error.id for error in check_settings() if "CIRCUIT" in error.msg] == ["receipts.E006"]


class TestPages:
    @pytest.fixture
    def browser(self, alice: User, settings: Any) -> Client:
        plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
        settings.STORAGES = settings.STORAGES | {"staticfiles": plain}
        client = Client()
        client.force_login(alice)
        return client

    def test_receipt_says_what_it_waits_for(self, press: Presser, desk: Provider, browser: Client) -> None:
        fail(desk.url.split("/")[2], 3)
        receipt = press(respond_async=True).receipt
        queued.begin_queued(receipt.pk, 1)

        page = browser.get(f"/receipts/{receipt.pk}").content.decode()

        assert "Waiting since" in page
        assert "The model provider is unavailable. One attempt tries again at" in page
        assert "Held back. The model provider is unavailable." in page
        circuit.heard(desk.url.split("/")[2], None)
        assert "Waiting since" not in browser.get(f"/receipts/{receipt.pk}").content.decode()

    def test_press_that_ended_waits_for_nothing(self, press: Presser, desk: Provider, browser: Client) -> None:
        fail(desk.url.split("/")[2], 3)
        desk.fails(503)
        receipt = press.settled()

        assert "Waiting since" not in browser.get(f"/receipts/{receipt.pk}").content.decode()

    def test_console_lists_circuits_read_only(self, desk: Provider, alice: User, browser: Client) -> None:
        alice.is_staff = True
        alice.save()
        alice.groups.add(Group.objects.get(name=AUDITORS))
        fail("dead.example", 3)

        page = browser.get("/admin/receipts/circuit/").content.decode()

        assert "dead.example" in page
        assert "what nobody watches waits" in page
        assert browser.get("/admin/receipts/circuit/add/").status_code == 403


@pytest.mark.processes
class TestWorkers:
    @pytest.fixture
    def start(self, start: Callable[..., Worker]) -> Callable[..., Worker]:
        """Workers whose circuit opens soon and stays open."""
        patience = {"CIRCUIT_FAILURES": "3", "CIRCUIT_SECONDS": "600", "CIRCUIT_MAX_SECONDS": "600"}
        return lambda **environment: start(**{**patience, **environment})

    def all_wait(self, count: int) -> bool:
        """Every receipt has a job, and each comes later."""
        return sql(
            "SELECT count(*) FROM procrastinate_jobs WHERE task_name LIKE 'receipts.r%%_attempt'"
            " AND status = 'todo' AND scheduled_at > now() + interval '5 s'"
        ) == [(count,)]

    def all_applied(self, count: int) -> bool:
        jobs_are_due()  # those that met the probe on its way wait for their time again
        return Receipt.objects.filter(status="applied").count() == count

    def test_dead_provider_sees_a_few_calls_and_one_probe_at_a_time(
        self, start: Any, press: Presser, desk: Provider
    ) -> None:
        desk.fails(503)
        for _ in range(30):
            press(respond_async=True)
        start(MAX_IN_FLIGHT="1")  # one at a time: nothing else is in flight when the circuit opens
        eventually(lambda: self.all_wait(30))
        assert desk.calls == 3
        for probes in (1, 2):
            pass_time(1200)
            desk.wait_for_calls(3 + probes)
            eventually(lambda: self.all_wait(30))
            assert desk.calls == 3 + probes
        desk.says(GOOD)
        pass_time(1200)

        eventually(lambda: self.all_applied(30), 60)

        assert Followup.objects.count() == 30
        assert desk.calls == Attempt.objects.count() == 30 + 3 + 2
        assert not Circuit.objects.exists()
        held = AuditEvent.objects.filter(verb="hold").values_list("receipt_id", "detail__attempt")
        assert len(held) == len(set(held))

    def test_two_workers_send_one_probe(self, start: Any, press: Presser, desk: Provider) -> None:
        desk.fails(503)
        for _ in range(20):
            press(respond_async=True)
        start(MAX_IN_FLIGHT="4")
        start(MAX_IN_FLIGHT="4")
        eventually(lambda: self.all_wait(20))
        before = desk.calls
        assert before <= 3 + 8 - 1  # what was in flight when the circuit opened
        desk.gate.clear()
        desk.says(GOOD)
        pass_time(1200)
        desk.wait_for_calls(before + 1)

        eventually(lambda: self.all_wait(19))  # the others have asked and wait; the probe is still out

        assert desk.calls == before + 1
        desk.gate.set()
        eventually(lambda: self.all_applied(20), 60)
        assert Followup.objects.count() == 20
