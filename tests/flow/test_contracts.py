"""Start-up checks: a contract that drifted, a registry that disagrees, a setting that cannot be meant."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Tags, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection

from receipts import checks
from receipts.contracts import Effect, Registry, ReplayRule, registry
from receipts.errors import BY_CODE, REASONS
from receipts.lifecycle import Outcome
from receipts_project import environment
from tickets.tools import FILE_FOLLOWUP

ROOT = Path(__file__).resolve().parents[2]
ARTICLE_SCHEMA = {
    "type": "object",
    "required": ["ticket_id", "summary", "assignee"],
    "additionalProperties": False,
    "properties": {
        "ticket_id": {"type": "string", "minLength": 8},
        "summary": {"type": "string", "minLength": 12, "maxLength": 500},
        "assignee": {"type": "string", "minLength": 3},
    },
}


def ids(found: list[Any]) -> set[str]:
    return {message.id for message in found}


def registry_of(*tools: Any) -> Registry:
    made = Registry()
    for tool in tools:
        made.register(tool)
    return made


def test_version_1_is_the_articles_schema() -> None:
    assert FILE_FOLLOWUP.schema == ARTICLE_SCHEMA
    assert (FILE_FOLLOWUP.version, FILE_FOLLOWUP.contract, FILE_FOLLOWUP.effect) == (1, "file_followup@1", Effect.WRITE)
    assert FILE_FOLLOWUP.digest() == FILE_FOLLOWUP.schema_sha256


def test_as_shipped_nothing_is_found() -> None:
    assert ids(run_checks()) <= {"receipts.W001"}


def test_changed_schema_stops_the_process(tmp_path: Path) -> None:
    drifted = tmp_path / "schema.json"
    drifted.write_bytes(FILE_FOLLOWUP.schema_bytes.replace(b"500", b"5000"))

    assert ids(checks.contract_errors(registry_of(replace(FILE_FOLLOWUP, schema_path=drifted)))) == {"receipts.E001"}


def test_second_declaration_of_a_version_stops_the_process() -> None:
    assert ids(checks.contract_errors(registry_of(FILE_FOLLOWUP, replace(FILE_FOLLOWUP)))) == {"receipts.E002"}


@pytest.mark.parametrize(
    "schema",
    [
        b'{"type": "nonsense"}',
        b'{"type": "object", "required": ["ticket_id"], "properties": {}}',
        b'{"type": "object", "additionalProperties": false, "required": ["summary"]}',
    ],
)
def test_schema_that_cannot_guard_stops_the_process(tmp_path: Path, schema: bytes) -> None:
    path = tmp_path / "schema.json"
    path.write_bytes(schema)

    assert "receipts.E003" in ids(checks.contract_errors(registry_of(replace(FILE_FOLLOWUP, schema_path=path))))


def test_missing_schema_file_stops_the_process(tmp_path: Path) -> None:
    gone = replace(FILE_FOLLOWUP, schema_path=tmp_path / "gone.json")

    assert ids(checks.contract_errors(registry_of(gone))) == {"receipts.E003"}


def test_tool_outside_the_allow_list_stops_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.register(replace(FILE_FOLLOWUP, name="delete_ticket"))
    try:
        assert "receipts.E004" in ids(checks.check_contracts())
    finally:
        del registry._tools["delete_ticket", 1]


@pytest.fixture
def other_tools(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE tool_receipts DROP CONSTRAINT receipt_tool_allowed")
        cursor.execute("ALTER TABLE tool_receipts ADD CONSTRAINT receipt_tool_allowed CHECK (tool_name IN ('x', 'y'))")


@pytest.mark.django_db
def test_sound_product_may_serve() -> None:
    checks.require_sound()


def test_database_that_allows_other_tools_stops_server_and_worker(other_tools: None) -> None:
    with pytest.raises(
        SystemExit, match=r"^The registry holds \[.*'file_followup'\], the database allows \['x', 'y'\]"
    ):
        checks.require_sound()
    with pytest.raises(SystemExit):
        call_command("worker")


@pytest.mark.django_db
def test_database_that_allows_more_tools_is_served_by_the_version_before() -> None:
    """A rolling deploy: the list is widened first, and who still runs the old version may have to start again."""
    names = ", ".join(f"'{name}'" for name in (*registry.names(), "charge_card"))
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE tool_receipts DROP CONSTRAINT receipt_tool_allowed")
        cursor.execute(f"ALTER TABLE tool_receipts ADD CONSTRAINT receipt_tool_allowed CHECK (tool_name IN ({names}))")

    checks.require_sound()


def test_database_that_allows_other_tools_can_still_be_migrated(other_tools: None) -> None:
    # what `migrate` runs before the first migration, one that widens the list among them
    assert ids(run_checks(tags=[Tags.database], databases=["default"])) == set()
    call_command("migrate", verbosity=0)


@pytest.mark.django_db
def test_setting_that_cannot_be_meant_stops_server_and_worker(settings: Any) -> None:
    settings.THROTTLE_PRESSES = "often"
    with pytest.raises(SystemExit, match=r"^THROTTLE_PRESSES: 'often' is not a rate"):
        checks.require_sound()


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("COMPLETIONS_URL", "ftp://models.example/v1/chat/completions", "receipts.E005"),
        ("COMPLETIONS_URL", "https://me:secret@models.example/v1/chat/completions", "receipts.E005"),
        ("COMPLETIONS_URL", "https://models.example/v1", "receipts.W001"),
        ("COMPLETIONS_URL", "https://models.example:port/chat/completions", "receipts.E005"),
        ("COMPLETIONS_MODE", "magic", "receipts.E005"),
        ("COMPLETIONS_AUTH", "cookie", "receipts.E005"),
        ("COMPLETIONS_AUTH", "bearer", "receipts.E005"),
        ("COMPLETIONS_API_KEY", "secret\n", "receipts.E005"),
        ("COMPLETIONS_EXTRA", {"messages": []}, "receipts.E006"),
        ("COMPLETIONS_EXTRA", {"model": "other"}, "receipts.E006"),
        ("COMPLETIONS_EXTRA", {"stream": False}, "receipts.E006"),
        ("COMPLETIONS_EXTRA", {"response_format": {}}, "receipts.E006"),
        ("COMPLETIONS_EXTRA", {"tools": []}, "receipts.E006"),
        ("SEALED_INPUT_KEYS", ["secret"], "receipts.E006"),
        ("SEALED_INPUT_KEYS", [], "receipts.E006"),
        ("MAX_IN_FLIGHT", 0, "receipts.E006"),
        ("THROTTLE_PRESSES", "often", "receipts.E006"),
        ("FILL_BUDGET_SECONDS", 31.0, "receipts.E006"),
    ],
)
def test_setting_that_cannot_be_meant_is_named(settings: Any, name: str, value: Any, found: str) -> None:
    setattr(settings, name, value)

    messages = checks.check_settings()

    assert ids(messages) == {found}
    assert "secret" not in str(messages)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COMPLETIONS_EXTRA", "{"),
        ("COMPLETIONS_EXTRA", "[1]"),
        ("COMPLETIONS_STREAM", "maybe"),
        ("MAX_IN_FLIGHT", "abc"),
        ("MAX_IN_FLIGHT", "0"),
        ("MAX_STREAMS", "x"),
        ("SETTLE_THREADS", "0"),
        ("DATABASE_POOL_SIZE", "0"),
        ("SEALED_INPUT_DAYS", "0"),
        ("SEALED_INPUT_DAYS", "99999999"),
        ("FILL_BUDGET_SECONDS", "nan"),
        ("FILL_BUDGET_SECONDS", "-1"),
        ("ATTEMPT_DEADLINE_SECONDS", "inf"),
        ("TIME_ZONE", "Nope/X"),
        ("TIME_ZONE", "../etc/passwd"),
        ("LOG_LEVEL", "loud"),
        ("SEALED_INPUT_KEYS", "secret"),
        ("COMPLETIONS_API_KEY", "secret\nX: y"),
    ],
)
def test_environment_that_cannot_be_meant_ends_a_command_with_a_sentence(name: str, value: str) -> None:
    ended = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 1
    assert name in ended.stderr or "The completions key" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "secret" not in ended.stderr


def test_environment_is_read_strictly_and_empty_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X", "")
    assert environment.integer("X", 7) == 7
    assert environment.seconds("X", 1.5) == 1.5
    assert environment.flag("X", True) is True
    assert environment.json_object("X") == {}
    for spelling, meant in {"On": True, "1": True, "FALSE": False, "0": False}.items():
        monkeypatch.setenv("X", spelling)
        assert environment.flag("X", not meant) is meant
    monkeypatch.setenv("X", "1_0")
    with pytest.raises(ImproperlyConfigured, match=r"^X must be a whole number of at least 1, not '1_0'\.$"):
        environment.integer("X", 7)


def test_replay_rule_decides_what_is_replayable() -> None:
    rules = {rule: replace(FILE_FOLLOWUP, replay_rule=rule).replayable for rule in ReplayRule}

    assert [rules[ReplayRule.FREELY](end) for end in Outcome] == [True, True, True]
    assert [rules[ReplayRule.UNLESS_APPLIED](end) for end in Outcome] == [False, True, True]
    assert [rules[ReplayRule.NEVER](end) for end in Outcome] == [False, False, False]


def test_every_code_and_reason_has_a_sentence_an_owner_and_a_next_step() -> None:
    for error in BY_CODE.values():
        assert error.default_detail
        assert error.owner
        assert error.next_step.endswith(".")
        assert 400 <= error.http_status < 600
    for reason in REASONS.values():
        assert reason.sentence.endswith(".")
        assert reason.owner
        assert reason.next_step.endswith(".")
