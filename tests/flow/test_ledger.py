"""The database is the referee: constraints and triggers by name, tried by hand with plain SQL."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from receipts import errors, ledger
from receipts.ids import uuid7
from receipts.lifecycle import TRANSITIONS, Status
from receipts.models import Receipt, Verb
from receipts_project.accounts.models import User
from tests.flow.conftest import Presser
from tests.flow.provider import Provider


def violates(statement: str, *parameters: Any) -> str:
    """The name of the rule that refuses the statement."""
    with pytest.raises(DatabaseError) as refused, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
    name: str = refused.value.__cause__.diag.constraint_name  # type: ignore[union-attr]
    return name


def change(receipt: Receipt, assignments: str, *parameters: Any) -> str:
    return violates(f"UPDATE tool_receipts SET {assignments} WHERE id = '{receipt.pk}'", *parameters)


def copy_with(receipt: Receipt, **columns: str) -> str:
    """INSERT a copy of a row with some columns' SQL replaced."""
    names = [field.column for field in Receipt._meta.concrete_fields]
    fresh = f"'{uuid7()}'"
    columns = {"id": fresh, "root_id": fresh, "idempotency_key": f"'{uuid.uuid4()}'", **columns}
    values = ", ".join(columns.get(name, name) for name in names)
    return (
        f"INSERT INTO tool_receipts ({', '.join(names)}) SELECT {values} FROM tool_receipts WHERE id = '{receipt.pk}'"
    )


@pytest.fixture
def applied(press: Presser) -> Receipt:
    return press.settled()


@pytest.fixture
def failed(press: Presser, desk: Provider) -> Receipt:
    desk.fails(500)
    return press.settled()


@pytest.fixture
def refused(press: Presser, desk: Provider) -> Receipt:
    desk.says("not json")
    return press.settled()


@pytest.fixture
def pending(press: Presser, desk: Provider) -> Receipt:
    desk.gate.clear()
    receipt = press().receipt
    desk.wait_for_calls(1)
    return receipt


SETTLED = "settled_at = now(), http_status = 201, result_ref = 'FUP-1', applied_at = now()"
UNSETTLED = (
    "settled_at = NULL, http_status = NULL, result_ref = NULL, applied_at = NULL, error_code = NULL,"
    " error_reason = NULL, retryable = NULL"
)
ERRED = (
    "settled_at = now(), http_status = 502, error_code = 'fill_failed', retryable = true,"
    " result_ref = NULL, applied_at = NULL"
)
FIELDS_OF = {
    Status.PENDING: UNSETTLED,
    Status.APPLIED: f"{SETTLED}, error_code = NULL, error_reason = NULL, retryable = NULL",
    Status.FAILED: ERRED,
}


class TestTransitions:
    @pytest.mark.parametrize(("before", "after"), list(itertools.product(Status, Status)))
    def test_only_the_life_cycles_steps_exist(
        self, before: Status, after: Status, press: Presser, desk: Provider, request: pytest.FixtureRequest
    ) -> None:
        receipt = request.getfixturevalue({"pending": "pending", "applied": "applied", "failed": "failed"}[before])
        attempt = "attempt + 1" if (before, after) == (Status.FAILED, Status.PENDING) else "attempt"
        statement = (
            f"UPDATE tool_receipts SET status = '{after}', attempt = {attempt}, {FIELDS_OF[after]} WHERE id = %s"
        )

        if (before, after) in TRANSITIONS:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(statement, [receipt.pk])
                assert cursor.rowcount == 1
                transaction.set_rollback(True)
        else:
            assert violates(statement, receipt.pk) == "receipt_transition_is_legal"

    def test_reopening_needs_the_next_attempt(self, failed: Receipt) -> None:
        for attempt in ("attempt", "attempt + 2"):
            assert (
                change(failed, f"status = 'pending', attempt = {attempt}, {UNSETTLED}") == "receipt_transition_is_legal"
            )

    def test_permanent_failure_never_reopens(self, refused: Receipt) -> None:
        assert change(refused, f"status = 'pending', attempt = 2, {UNSETTLED}") == "receipt_transition_is_legal"
        assert change(refused, "retryable = true") == "receipt_transition_is_legal"

    def test_deadline_of_a_running_attempt_is_not_moved(self, pending: Receipt) -> None:
        assert change(pending, "deadline_at = now() + interval '1 day'") == "receipt_transition_is_legal"


class TestFrozen:
    @pytest.mark.parametrize(
        "assignment",
        [
            "id = gen_random_uuid()",
            "user_id = gen_random_uuid()",
            "idempotency_key = 'another-key'",
            "request_fingerprint = '\\x00'",
            "run_id = gen_random_uuid()",
            "tool_name = 'close_ticket'",
            "contract_version = 2",
            "contract_sha256 = 'x'",
            "effect = 'read'",
            "subject = 'TCK-1009'",
            "input_hash = 'x'",
            "created_at = now()",
            "root_id = gen_random_uuid()",
            "on_behalf_of = user_id",
            "replay_of = id",
            "replay_no = 1",
            "replay_reason = 'because'",
        ],
    )
    def test_identity(self, pending: Receipt, assignment: str) -> None:
        assert change(pending, assignment) == "receipt_identity_is_frozen"

    @pytest.mark.parametrize("assignment", ["result_ref = 'FUP-1'", "arguments_json = '{}'", "applied_at = now()"])
    def test_applied_row(self, applied: Receipt, assignment: str) -> None:
        assert change(applied, assignment) == "receipt_transition_is_legal"

    def test_history_is_append_only(self, applied: Receipt, failed: Receipt, press: Presser) -> None:
        press.settled()
        ledger.record(ledger.Event(verb=Verb.EXPORT, actor_id=press.user.pk))

        assert violates("UPDATE attempts SET status = 'ok'") == "history_is_never_edited"
        assert violates("UPDATE audit_events SET detail = '{}'") == "history_is_never_edited"

    @pytest.mark.parametrize("table", ["tool_receipts", "attempts", "audit_events", "runs"])
    def test_nothing_is_removed(self, applied: Receipt, press: Presser, table: str) -> None:
        ledger.record(ledger.Event(verb=Verb.EXPORT, actor_id=press.user.pk))

        assert violates(f"DELETE FROM {table}") == "history_is_never_removed"
        assert violates(f"TRUNCATE {table} CASCADE") == "history_is_never_removed"

    def test_not_even_by_a_replica_session(self, applied: Receipt) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
        try:
            assert violates("DELETE FROM tool_receipts") == "history_is_never_removed"
            assert change(applied, "result_ref = 'FUP-1'") == "receipt_transition_is_legal"
        finally:
            with connection.cursor() as cursor:
                cursor.execute("RESET session_replication_role")

    def test_by_nobody_but_the_owner_even_with_the_purge_setting(self, applied: Receipt) -> None:
        role = f"app_{uuid.uuid4().hex[:8]}"
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE ROLE {role}; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
        try:
            statement = f"SET LOCAL ROLE {role}; SET LOCAL receipts.purge = 'on'; DELETE FROM attempts"
            assert violates(statement) == "history_is_never_removed"
        finally:
            with connection.cursor() as cursor:
                cursor.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")

    def test_deleting_a_person_is_refused_while_their_receipts_stand(self, applied: Receipt, press: Presser) -> None:
        def delete() -> None:
            with transaction.atomic():
                User.objects.filter(pk=press.user.pk)._raw_delete("default")
                connection.check_constraints()

        with pytest.raises(DatabaseError):
            delete()


class TestConstraints:
    def test_one_receipt_per_person_and_key(self, applied: Receipt) -> None:
        same_key = copy_with(applied, idempotency_key=f"'{applied.idempotency_key}'")

        assert violates(same_key) == "one_receipt_per_person_and_key"

    @pytest.mark.parametrize(
        ("column", "value", "rule"),
        [
            ("tool_name", "'delete_ticket'", "receipt_tool_allowed"),
            ("status", "'unknown'", "receipt_status_known"),
            ("effect", "'magic'", "receipt_effect_known"),
            ("attempt", "0", "receipt_attempt_counts_from_one"),
            ("result_ref", "NULL", "applied_names_its_result"),
            ("applied_at", "NULL", "applied_names_its_result"),
            ("error_code", "'fill_failed'", "applied_names_its_result"),
            ("status", "'pending'", "pending_says_nothing_yet"),
            ("status", "'failed'", "failed_names_its_error"),
            ("replay_no", "1", "replay_has_number_reason_and_root"),
            ("root_id", "gen_random_uuid()", "replay_has_number_reason_and_root"),
        ],
    )
    def test_fields_fit_the_status(self, applied: Receipt, column: str, value: str, rule: str) -> None:
        assert violates(copy_with(applied, **{column: value})) == rule

    def test_one_live_write_per_lineage(self, applied: Receipt, press: Presser) -> None:
        replay = {"root_id": f"'{applied.pk}'", "replay_of": f"'{applied.pk}'", "replay_no": "1"}

        assert violates(copy_with(applied, replay_reason="'again'", **replay)) == "one_live_write_per_lineage"

    def test_a_replay_needs_its_reason(self, failed: Receipt) -> None:
        replay = {"root_id": f"'{failed.pk}'", "replay_of": f"'{failed.pk}'", "replay_no": "1"}

        for reason in ("NULL", "''"):
            assert violates(copy_with(failed, replay_reason=reason, **replay)) == "replay_has_number_reason_and_root"

    def test_replays_are_numbered_once(self, failed: Receipt) -> None:
        replay = {"root_id": f"'{failed.pk}'", "replay_of": f"'{failed.pk}'", "replay_no": "1", "replay_reason": "'r'"}
        with connection.cursor() as cursor:
            cursor.execute(copy_with(failed, **replay))

        assert violates(copy_with(failed, **replay)) == "one_replay_per_number"
        insert_missing_attempts()

    def test_one_followup_per_receipt(self, applied: Receipt) -> None:
        statement = (
            "INSERT INTO followups SELECT 'FUP-X', ticket_id, summary, assignee, created_at, created_by, receipt_id"
            " FROM followups"
        )
        columns = "(id, ticket_id, summary, assignee, created_at, created_by, receipt_id)"

        assert violates(statement.replace("followups SELECT", f"followups {columns} SELECT")).startswith(
            "followups_rec"
        )


def insert_missing_attempts() -> None:
    """A hand-made failed row needs its attempt, or the invariants rightly complain."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO attempts (id, receipt_id, attempt, actor_id, finished_at, status, http_status, error_code,"
            " error_reason, replayable, tool_result) SELECT gen_random_uuid(), id, attempt, user_id, settled_at,"
            " CASE status WHEN 'applied' THEN 'ok' ELSE 'retryable' END, http_status, error_code, error_reason, true,"
            " jsonb_build_object('result_ref', result_ref)"
            " FROM tool_receipts r WHERE NOT EXISTS (SELECT 1 FROM attempts WHERE receipt_id = r.id)"
        )


class TestSuperseded:
    def test_retry_beside_a_live_replay_leaves_the_row_alone(
        self, failed: Receipt, press: Presser, desk: Provider
    ) -> None:
        winner = self.applied_replay_of(failed)
        before = ledger.read(failed.pk)

        with pytest.raises(errors.Superseded) as refused:
            press(key=failed.idempotency_key)

        assert refused.value.receipt_id == str(winner)
        after = ledger.read(failed.pk)
        assert before
        assert after
        assert after.__dict__.items() >= {k: v for k, v in before.__dict__.items() if k != "_state"}.items()
        assert desk.calls == 1
        self.file_by_hand(winner)

    @staticmethod
    def applied_replay_of(failed: Receipt) -> uuid.UUID:
        winner = uuid7()
        columns = {
            "id": f"'{winner}'",
            "root_id": f"'{failed.pk}'",
            "replay_of": f"'{failed.pk}'",
            "replay_no": "1",
            "replay_reason": "'the provider is back'",
            "status": "'applied'",
            "result_ref": "'FUP-1'",
            "applied_at": "now()",
            "error_code": "NULL",
            "error_reason": "NULL",
            "retryable": "NULL",
        }
        with connection.cursor() as cursor:
            cursor.execute(copy_with(failed, **columns))
        return winner

    @staticmethod
    def file_by_hand(receipt_id: uuid.UUID) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO followups (id, ticket_id, summary, assignee, created_at, created_by, receipt_id)"
                " SELECT result_ref, subject, 's', 'ada', now(), user_id, id FROM tool_receipts WHERE id = %s",
                [receipt_id],
            )
        insert_missing_attempts()


class TestWriters:
    def test_commit_one_refuses_to_hide_in_a_transaction(self, press: Presser, failed: Receipt) -> None:
        writes: list[Callable[[], Any]] = [
            lambda: press(),
            lambda: ledger.reopen(failed, actor_id=press.user.pk, seconds=30),
            lambda: ledger.begin(failed, 30),
            lambda: ledger.abandon(failed, errors.Abandoned(), replayable=True),
        ]
        for write in writes:
            with pytest.raises(RuntimeError), transaction.atomic():
                write()

    def test_event_stands_or_falls_with_its_deed(self, press: Presser, desk: Provider) -> None:
        with transaction.atomic():
            ledger.record(ledger.Event(verb=Verb.EXPORT, actor_id=press.user.pk))
            transaction.set_rollback(True)

        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM audit_events")
            assert cursor.fetchone() == (0,)
