"""Files that leave the ledger: cells, lines, folders, and whether a folder is what was exported."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from receipts import ledger
from receipts.errors import ArgMismatch, FillFailed
from receipts.export import FORMATS, bundle
from receipts.export.formats import COLUMNS, FORMULA, cell
from receipts.models import Attempt, AuditEvent, Receipt, Run, Trigger
from receipts.told import attach_decisions, represent, run_receipt
from receipts_project.accounts.models import User
from tests import factories
from tests.factories import alice, bob, desk

__all__ = ["alice", "bob", "desk"]

ROOT = Path(__file__).resolve().parent.parent


def table(raw: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(raw.decode(), newline="")))


class TestCells:
    @pytest.mark.parametrize("begin", FORMULA)
    def test_a_text_is_never_a_formula(self, begin: str) -> None:
        assert cell(f"{begin}1+1") == f"'{begin}1+1"

    @pytest.mark.parametrize("number", [0, -1, 12, -3.5, 2**40])
    def test_a_number_stays_a_number(self, number: float) -> None:
        assert cell(number) is number

    def test_a_text_of_digits_stays_the_text_that_it_was(self) -> None:
        assert (cell("-5"), cell("007"), cell("1e5")) == ("'-5", "007", "1e5")

    def test_nothing_yes_and_no(self) -> None:
        assert (cell(None), cell(True), cell(False)) == ("", "true", "false")

    def test_objects_are_json(self) -> None:
        assert cell({"summary": "=1+1", "ü": ["\n"]}) == '{"summary": "=1+1", "ü": ["\\n"]}'

    @given(st.text(st.characters(exclude_categories=["Cs"])))
    def test_every_text_comes_back_from_its_cell(self, text: str) -> None:
        out = io.StringIO()
        csv.writer(out).writerow([cell(text), "next"])
        (row,) = csv.reader(io.StringIO(out.getvalue(), newline=""))
        assert row[1] == "next"
        assert row[0] in (text, f"'{text}")
        assert not row[0].startswith(FORMULA)


class TestLines:
    @pytest.fixture
    def shown(self, alice: User) -> dict[str, Any]:
        receipt = factories.applied(alice)
        receipt.user = alice
        receipt.arguments_json = {"summary": 'one\ntwo, "three"\u2028=four'}
        attach_decisions([receipt])
        return represent(receipt)

    def test_csv_has_a_column_for_all_that_the_json_says(self, shown: dict[str, Any]) -> None:
        own = {name for name in COLUMNS if "." not in name}
        assert own == shown.keys() - {"links", "model_decision", "tool_result"}

    def test_csv_quotes_line_breaks_and_keeps_numbers(self, shown: dict[str, Any]) -> None:
        form = FORMATS["csv"]
        head, row = table(form.head() + form.rows([shown]))
        record = dict(zip(head, row, strict=True))
        assert json.loads(record["arguments"]) == shown["arguments"]
        assert (record["http_status"], record["attempt"]) == ("201", "1")
        assert (record["model_decision.model"], record["tool_result.effect"]) == ("test-model", "write")

    def test_decision_and_result_never_share_a_column(self) -> None:
        assert not {name.partition(".")[2] for name in COLUMNS if name.startswith("model_decision.")} & {
            name.partition(".")[2] for name in COLUMNS if name.startswith("tool_result.")
        }

    def test_jsonl_is_a_line_a_receipt_for_every_reader(self, shown: dict[str, Any]) -> None:
        raw = FORMATS["jsonl"].rows([shown, shown])
        assert len(raw.decode().splitlines()) == 2
        assert json.loads(raw.splitlines()[0]) == shown


class TestCommand:
    def export(self, *arguments: Any) -> str:
        out = io.StringIO()
        call_command("export", *map(str, arguments), stdout=out, no_color=True)
        return out.getvalue()

    @pytest.fixture
    def receipt(self, alice: User) -> Receipt:
        """Two attempts: the first failed retryably."""
        receipt = factories.failed(alice, FillFailed(reason="provider_timeout"))
        again = ledger.reopen(receipt, actor_id=alice.pk, seconds=30)
        assert again is not None
        settled = ledger.settle_failed(again, ArgMismatch(), replayable=True)
        assert settled is not None
        return settled

    def test_writes_a_folder_a_run_with_a_file_for_each_run_receipt(self, receipt: Receipt, tmp_path: Path) -> None:
        said = self.export(receipt.run_id, "--to", tmp_path / "new" / "audit")
        folder = tmp_path / "new" / "audit" / str(receipt.run_id)
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["manifest.json", *(f"receipt-{receipt.pk}-attempt-{n}.json" for n in (1, 2))]
        for attempt in Attempt.objects.all():
            assert json.loads((folder / f"receipt-{receipt.pk}-attempt-{attempt.attempt}.json").read_bytes()) == (
                run_receipt(attempt)
            )
        manifest = json.loads((folder / "manifest.json").read_bytes())
        assert manifest["run_id"] == str(receipt.run_id)
        assert [row["receipt_id"] for row in manifest["receipts"]] == [str(receipt.pk)]
        assert manifest["export"]["complete"] is True
        assert str(folder) in said
        assert os.listdir(tmp_path / "new" / "audit") == [str(receipt.run_id)]

    def test_is_recorded_with_reason_and_the_manifests_hash(self, receipt: Receipt, tmp_path: Path) -> None:
        said = self.export(receipt.run_id, "--to", tmp_path, "--reason", "asked by rita@example.com")
        event = AuditEvent.objects.get(verb="export")
        assert (event.actor, event.run_id, event.detail["rows"]) == (None, receipt.run_id, 2)
        assert event.detail["reason"] == "asked by [e-mail]"
        assert event.detail["manifest_sha256"] in said
        assert event.detail["manifest_sha256"] in self.export("--check", tmp_path)

    def test_takes_the_runs_along_that_a_workflow_opened(
        self, alice: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bundle, "CHUNK", 2)
        parent = ledger.open_run(
            workflow="nightly", trigger=Trigger.COMMAND.value, actor_id=alice.pk, manifest={}, enqueue=lambda _: None
        )
        assert parent is not None
        opened = [factories.applied(alice, parent_run_id=parent) for _ in range(3)]
        pending = factories.pending(alice, parent_run_id=parent)
        self.export("--workflow", "nightly", "--to", tmp_path)
        folder = tmp_path / str(parent)
        assert os.listdir(tmp_path) == [str(parent)]
        for receipt in opened:
            child = folder / "runs" / str(receipt.run_id)
            assert (child / f"receipt-{receipt.pk}-attempt-1.json").is_file()
            assert "ok" in self.export("--check", child)
        manifest = json.loads((folder / "manifest.json").read_bytes())
        assert {row["receipt_id"] for row in manifest["receipts"]} == {str(r.pk) for r in [*opened, pending]}
        assert manifest["progress"]["opened"] == 4
        assert len(manifest["files"]) == 3 + 4
        assert "7 files" in self.export("--check", tmp_path)

    def test_chooses_by_time(self, alice: User, tmp_path: Path) -> None:
        factories.applied(alice)
        self.export("--since", "2099-01-01", "--to", tmp_path)
        assert os.listdir(tmp_path) == []
        self.export("--since", "2026-01-01T00:00:00Z", "--until", "2099-01-01T00:00:00+02:00", "--to", tmp_path)
        assert os.listdir(tmp_path) == [str(Run.objects.get().pk)]

    def test_never_overwrites(self, receipt: Receipt, tmp_path: Path) -> None:
        kept = tmp_path / str(receipt.run_id) / "mine.txt"
        kept.parent.mkdir()
        kept.write_text("mine")
        with pytest.raises(CommandError, match="is there already"):
            self.export(receipt.run_id, "--to", tmp_path)
        assert kept.read_text() == "mine"
        assert os.listdir(kept.parent) == ["mine.txt"]
        assert not AuditEvent.objects.filter(verb="export").exists()

    def test_leaves_nothing_behind_when_it_breaks(
        self, receipt: Receipt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(CommandError, match="No space left"):
            self.export(receipt.run_id, "--to", tmp_path)
        assert os.listdir(tmp_path) == []
        assert not AuditEvent.objects.filter(verb="export").exists()

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--to", "x"], "name runs"),
            (["00000000-0000-7000-8000-000000000000"], "--to FOLDER"),
            (["00000000-0000-7000-8000-000000000000", "--to", "x"], "there is no run"),
            (["../../etc", "--to", "x"], "is not the id of a run"),
            (["--since", "yesterday", "--to", "x"], "is not a moment"),
            (["--check", "x", "--to", "y"], "nothing else"),
            (["--check", "no-such-folder"], "is not a folder"),
        ],
    )
    def test_says_what_it_does_not_understand(self, db: None, arguments: list[str], sentence: str) -> None:
        with pytest.raises(CommandError, match=sentence):
            self.export(*arguments)


class TestCheck:
    @pytest.fixture
    def folder(self, alice: User, tmp_path: Path) -> Path:
        receipt = factories.applied(alice)
        call_command("export", str(receipt.run_id), "--to", str(tmp_path), stdout=io.StringIO())
        return tmp_path / str(receipt.run_id)

    def check(self, folder: Path) -> str:
        out = io.StringIO()
        with suppress(CommandError):
            call_command("export", "--check", str(folder), stdout=out, no_color=True)
        return out.getvalue()

    def record(self, folder: Path) -> Path:
        (path,) = folder.glob("receipt-*.json")
        return path

    def test_a_folder_as_it_was_exported_is_ok(self, folder: Path) -> None:
        assert self.check(folder).startswith("ok ")
        assert self.check(folder.parent).startswith("ok ")

    def test_finds_a_changed_byte(self, folder: Path) -> None:
        path = self.record(folder)
        path.write_bytes(path.read_bytes().replace(b'"ok"', b'"no"'))
        assert f"{path.name}: was changed" in self.check(folder)

    def test_finds_a_removed_file_and_one_that_was_added(self, folder: Path) -> None:
        path = self.record(folder)
        path.rename(folder / "other.json")
        said = self.check(folder)
        assert f"{path.name}: is missing" in said
        assert "other.json: is not listed" in said

    def test_finds_a_link(self, folder: Path, tmp_path: Path) -> None:
        path = self.record(folder)
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        assert "is a link" in self.check(folder)

    @pytest.mark.parametrize("name", ["../outside.json", "/etc/passwd", "a/../../b", ""])
    def test_never_looks_outside(self, folder: Path, name: str) -> None:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        manifest["files"].append({"name": name, "sha256": "0" * 64})
        (folder / "manifest.json").write_text(json.dumps(manifest))
        assert "is no name of a file" in self.check(folder)

    @pytest.mark.parametrize(
        "manifest", ["", "[]", "{}", '{"files": 1}', '{"files": []}', '{"files": ["x"], "export": {}}']
    )
    def test_a_manifest_that_is_none_is_a_difference(self, folder: Path, manifest: str) -> None:
        (folder / "manifest.json").write_text(manifest)
        assert "manifest.json is missing, or is not one" in self.check(folder)

    def test_an_empty_folder_is_a_difference(self, tmp_path: Path) -> None:
        assert "holds no exported run" in self.check(tmp_path)

    @pytest.mark.processes
    def test_needs_no_database_and_ends_with_code_1(self, folder: Path, tmp_path: Path) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "DATA_DIR": str(tmp_path / "nowhere"),
            "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        }
        command = [sys.executable, "manage.py", "export", "--check", str(folder)]
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stdout[:2]) == (0, "ok"), run.stderr
        self.record(folder).unlink()
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert (run.returncode, "is missing" in run.stdout) == (1, True), run.stderr
        shutil.rmtree(folder)
