"""E-mail leaves at most once: whoever says no, hangs up or dies, and wherever in the conversation."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from receipts import flow
from receipts.jobs import enqueue_attempt
from receipts.models import Attempt, Receipt
from receipts.queued import begin_queued, retry_unwatched
from receipts_project.accounts.models import User
from tests.flow.provider import Provider
from tests.flow.smtp import HANG_UP, MailServer
from tests.flow.test_tools import EMAIL
from tests.flow.web import Worker, eventually, free_port
from tickets.models import OutgoingEmail


@pytest.fixture
def server() -> Iterator[MailServer]:
    running = MailServer()
    yield running
    running.close()


@pytest.fixture
def smtp(server: MailServer, settings: Any) -> MailServer:
    """The mail server of this process."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
    settings.EMAIL_TIMEOUT = 2
    settings.DEFAULT_FROM_EMAIL = "Support <support@tessera.example>"
    return server


@pytest.fixture
def delivery(alice: User, desk: Provider) -> Receipt:
    """A message in the outbox, and the receipt of its delivery: pending, not begun."""
    desk.fills(email_requester_v1=EMAIL)
    filing = flow.file(
        tool="email_requester",
        user=alice,
        subject="TCK-1008",
        key=f"key-{uuid.uuid4()}",
        body=lambda: {"notes": "Tell Rita."},
    )
    assert flow.wait(filing).status == "applied"
    return Receipt.objects.get(tool_name="deliver_email")


def deliver(receipt: Receipt) -> Receipt:
    """Begin it in this process, as a worker's job does, and wait for its end."""
    inflight = begin_queued(receipt.pk, receipt.attempt)
    if inflight is not None:
        connection.close()
        inflight.wait(30)
    return Receipt.objects.get(pk=receipt.pk)


def said(receipt: Receipt) -> tuple[Any, ...]:
    return receipt.status, receipt.error_code, receipt.error_reason, receipt.retryable


class TestHandedOver:
    def test_goes_to_the_requester_as_it_was_drafted(self, smtp: MailServer, delivery: Receipt) -> None:
        sent = deliver(delivery)

        assert said(sent) == ("applied", None, None, None)
        message = OutgoingEmail.objects.get()
        assert sent.result_ref == message.pk
        came = smtp.mail()
        assert (came["To"], came["Subject"]) == ("rita@example.com", EMAIL["subject"])
        assert came["From"] == "Support <support@tessera.example>"
        assert came.get_content().split() == EMAIL["body"].split()

    def test_outbox_that_cannot_be_read_leaves_no_doubt(self, smtp: MailServer, delivery: Receipt) -> None:
        """Nothing was tried: the system tries again."""
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE outbox RENAME TO outbox_elsewhere")
        try:
            failed = deliver(delivery)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE outbox_elsewhere RENAME TO outbox")

        assert said(failed) == ("failed", "delivery_failed", "outbox_unreadable", True)
        assert failed.next_attempt_at is not None
        assert smtp.messages == []

    def test_message_id_follows_from_the_outbox(self, smtp: MailServer, delivery: Receipt) -> None:
        deliver(delivery)

        message = OutgoingEmail.objects.get()
        assert smtp.mail()["Message-ID"] == f"<{message.pk}.{message.receipt_id}@tessera.example>"

    def test_job_that_runs_twice_sends_once(self, smtp: MailServer, delivery: Receipt) -> None:
        deliver(delivery)
        assert begin_queued(delivery.pk, delivery.attempt) is None

        assert len(smtp.messages) == 1

    def test_server_that_hangs_up_at_the_goodbye_has_taken_it(
        self, smtp: MailServer, delivery: Receipt, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr("smtplib.SMTP.quit", lambda self: 1 / 0)

        assert deliver(delivery).status == "applied"

    def test_no_connection_to_the_database_is_held_meanwhile(self, smtp: MailServer, delivery: Receipt) -> None:
        smtp.gates["dot"].clear()
        inflight = begin_queued(delivery.pk, delivery.attempt)
        assert inflight is not None
        smtp.wait_for("dot")

        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()"
            )
            assert cursor.fetchone()[0] == 0
        smtp.gates["dot"].set()
        inflight.wait(30)


#: (step, what the server answers there, may it be tried again)
REFUSALS = [
    ("connect", "421 not now", True),
    ("connect", "554 not you", False),
    ("helo", "421 not now", True),
    ("helo", "550 not you", False),
    ("mail", "451 not now", True),
    ("mail", "550 not from you", False),
    ("rcpt", "450 mailbox busy", True),
    ("rcpt", "550 no such mailbox", False),
    ("data", "451 not now", True),
    ("data", "554 not that", False),
    ("dot", "452 no room", True),
    ("dot", "554 this is spam", False),
]


class TestNothingLeft:
    """The server said so itself, or was not even spoken to."""

    @pytest.mark.parametrize(("step", "answer", "retryable"), REFUSALS)
    def test_refusal_is_certain(
        self, smtp: MailServer, delivery: Receipt, step: str, answer: str, retryable: bool
    ) -> None:
        smtp.answers[step] = answer

        assert said(deliver(delivery)) == ("failed", "delivery_failed", "mail_refused", retryable)

    def test_nobody_listens(self, delivery: Receipt, smtp: MailServer, settings: Any) -> None:
        settings.EMAIL_PORT = free_port()

        assert said(deliver(delivery)) == ("failed", "delivery_failed", "mail_unreachable", True)

    @pytest.mark.parametrize("step", ["connect", "helo"])
    def test_hung_up_before_anything_was_said(self, smtp: MailServer, delivery: Receipt, step: str) -> None:
        smtp.answers[step] = HANG_UP

        assert said(deliver(delivery)) == ("failed", "delivery_failed", "mail_unreachable", True)

    def test_silent_server_is_unreachable(self, smtp: MailServer, delivery: Receipt) -> None:
        smtp.gates["connect"].clear()

        assert said(deliver(delivery)) == ("failed", "delivery_failed", "mail_unreachable", True)

    def test_transient_refusal_is_tried_again_and_sent_once(self, smtp: MailServer, delivery: Receipt) -> None:
        smtp.answers["rcpt"] = "450 mailbox busy"
        failed = deliver(delivery)
        del smtp.answers["rcpt"]

        inflight = retry_unwatched(failed.pk, failed.attempt)
        assert inflight is not None
        connection.close()
        inflight.wait(30)

        assert Receipt.objects.get(pk=delivery.pk).status == "applied"
        assert len(smtp.messages) == 1

    def test_message_that_is_gone_is_not_sent(self, smtp: MailServer, delivery: Receipt) -> None:
        kept = OutgoingEmail.objects.get()
        OutgoingEmail.objects.all().delete()

        assert said(deliver(delivery)) == ("failed", "delivery_failed", "message_gone", False)
        kept.save(force_insert=True)
        assert smtp.conversations == 0


class TestNobodyKnows:
    @pytest.mark.parametrize("words", ["200 ok fine", "251 will forward", "999 what", "hello i am garbage"])
    def test_answer_to_the_whole_message_that_is_no_plain_no(
        self, smtp: MailServer, delivery: Receipt, words: str
    ) -> None:
        """The server has it by then: "refused" would have it written a second time."""
        smtp.answers["dot"] = words

        assert said(deliver(delivery)) == ("failed", "outcome_unknown", None, False)

    @pytest.mark.parametrize("step", ["mail", "rcpt", "data", "dot"])
    def test_hung_up_on_the_way(self, smtp: MailServer, delivery: Receipt, step: str) -> None:
        smtp.answers[step] = HANG_UP

        unknown = deliver(delivery)

        assert said(unknown) == ("failed", "outcome_unknown", None, False)
        assert len(smtp.messages) == (step == "dot")

    def test_silence_after_the_dot(self, smtp: MailServer, delivery: Receipt) -> None:
        smtp.gates["dot"].clear()

        assert deliver(delivery).error_code == "outcome_unknown"

    def test_answer_that_is_no_promise(self, delivery: Receipt, settings: Any, monkeypatch: Any) -> None:
        """A backend that counts nothing has not said that it took the message, nor that it did not."""
        monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", lambda self, mails: None)

        assert deliver(delivery).error_code == "outcome_unknown"

    def test_is_never_run_again_by_anybody(self, smtp: MailServer, delivery: Receipt, alice: User) -> None:
        smtp.answers["dot"] = HANG_UP
        unknown = deliver(delivery)
        del smtp.answers["dot"]

        enqueue_attempt(unknown)  # even a stray job
        assert begin_queued(unknown.pk, unknown.attempt) is None
        assert retry_unwatched(unknown.pk, unknown.attempt) is None
        assert flow.retry(user=alice, receipt=unknown).deduplicated
        assert flow.sweep() == 0
        assert len(smtp.messages) == 1
        assert unknown.next_attempt_at is None

    def test_is_not_replayable(self, smtp: MailServer, delivery: Receipt) -> None:
        smtp.answers["dot"] = HANG_UP
        deliver(delivery)

        assert Attempt.objects.get(receipt=delivery).replayable is False


def test_try_out_sends_nothing_outside(delivery: Receipt, settings: Any, tmp_path: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = tmp_path / "mail"

    assert deliver(delivery).status == "applied"

    (written,) = (tmp_path / "mail").iterdir()
    assert "To: rita@example.com" in written.read_text()


def test_place_that_cannot_be_written_is_certain(delivery: Receipt, settings: Any, tmp_path: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = tmp_path / "file"
    (tmp_path / "file").write_text("")

    assert said(deliver(delivery)) == ("failed", "delivery_failed", "mail_unreachable", True)


def test_header_that_would_begin_another_is_refused(delivery: Receipt, smtp: MailServer, settings: Any) -> None:
    settings.DEFAULT_FROM_EMAIL = "a@b.example\nBcc: eve@example.com"

    assert said(deliver(delivery)) == ("failed", "delivery_failed", "mail_unsound", False)
    assert smtp.conversations == 0


@pytest.mark.processes
class TestWorkerDies:
    """kill −9 of the worker's process, with the mail server holding it at a step."""

    @pytest.fixture
    def start(self, desk: Provider, server: MailServer) -> Iterator[Callable[[], Worker]]:
        started: list[Worker] = []

        def start() -> Worker:
            started.append(
                Worker(
                    provider_url=desk.url,
                    EMAIL_URL=server.url,
                    DEFAULT_FROM_EMAIL="support@tessera.example",
                    ATTEMPT_DEADLINE_SECONDS="3",
                    FILL_BUDGET_SECONDS="2",
                    RETRY_FIRST_SECONDS="0.1",
                )
            )
            return started[-1]

        yield start
        for gate in server.gates.values():
            gate.set()
        for worker in started:
            worker.end()

    def test_worker_delivers_once(self, start: Any, server: MailServer, delivery: Receipt) -> None:
        start()
        start()

        eventually(lambda: Receipt.objects.get(pk=delivery.pk).status == "applied")
        assert len(server.messages) == 1

    @pytest.mark.parametrize(("step", "sent"), [("connect", 0), ("data", 0), ("dot", 1)])
    def test_is_swept_as_unknown_and_never_sent_again(
        self, start: Any, server: MailServer, delivery: Receipt, step: str, sent: int
    ) -> None:
        server.gates[step].clear()
        worker = start()
        server.wait_for(step)
        worker.signal(signal.SIGKILL)
        worker.wait()
        server.gates[step].set()
        eventually(lambda: Receipt.objects.get(pk=delivery.pk).overdue)

        assert flow.sweep() == 1

        swept = Receipt.objects.get(pk=delivery.pk)
        assert said(swept) == ("failed", "outcome_unknown", None, False)
        assert Attempt.objects.get(receipt=delivery).replayable is False
        connection.close()
        before = server.conversations
        start()
        # a second message goes through this worker, so it had its chance at the first
        assert _another_is_delivered(delivery)
        assert server.conversations == before + 1
        assert len(server.messages) == sent + 1


def _another_is_delivered(delivery: Receipt) -> bool:
    filing = flow.file(
        tool="email_requester",
        user=delivery.user,
        subject="TCK-1009",
        key=f"key-{uuid.uuid4()}",
        body=lambda: {"arguments": {"subject": EMAIL["subject"], "body": EMAIL["body"]}},
    )
    assert flow.wait(filing).status == "applied"
    other = Receipt.objects.exclude(pk=delivery.pk).get(tool_name="deliver_email")
    connection.close()
    return bool(eventually(lambda: Receipt.objects.get(pk=other.pk).status == "applied"))
