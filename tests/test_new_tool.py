"""From nothing to a tested tool, by the steps that the README and the command name, in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

ROOT = Path(__file__).resolve().parents[1]
SECTION = (ROOT / "README.md").read_text().split("## Add a tool")[1].split("\n## ")[0]
#: The commands of the section, in their order.
STEPS = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project without what is made by running it."""
    made = tmp_path / "project"
    left_out = shutil.ignore_patterns(".git", ".venv", "var", "__pycache__", ".*_cache", "soak", "screenshots")
    shutil.copytree(ROOT, made, ignore=left_out)
    return made


class Developer:
    """Types commands in the copy."""

    def __init__(self, project: Path) -> None:
        self.project = project
        # a server of its own for the copy's suite: this run's database is this run's
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        del self.environment["DATABASE_URL"]
        self.environment |= {"DATA_DIR": str(project / "var")}

    def types(self, command: str, *, fine: bool = True) -> str:
        words = command.replace(".venv/bin/python", sys.executable).split()
        ran = subprocess.run(words, cwd=self.project, env=self.environment, capture_output=True, text=True, timeout=300)
        assert (ran.returncode == 0) is fine, f"{command}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout + ran.stderr

    def edits(self, path: str, old: str, new: str) -> None:
        text = (self.project / path).read_text()
        assert old in text
        (self.project / path).write_text(text.replace(old, new, 1))


@pytest.mark.processes
@pytest.mark.parametrize(("name", "effect"), [("set_priority", "write"), ("count_turns", "read")])
def test_steps_of_the_readme_end_in_a_green_test(copy: Path, name: str, effect: str) -> None:
    developer = Developer(copy)
    begin, migrate, test, check = (step.replace("set_priority", name) for step in STEPS)
    assert begin.startswith(".venv/bin/python manage.py new_tool")

    said = developer.types(f"{begin} --effect {effect}")
    for step in (migrate, test):
        assert step in said, "the command and the README name the same steps"
    constant = name.upper()
    developer.edits(
        "tickets/tools/__init__.py",
        "\nTOOLS = (\n",
        f"\nfrom tickets.tools.{name} import {constant}  # noqa: E402\n\nTOOLS = (\n    {constant},\n",
    )
    refused = developer.types(".venv/bin/python manage.py check", fine=False)
    assert "receipts.E004" in refused, "a tool that the database does not allow cannot start"
    developer.edits("receipts/models.py", "ALLOWED_TOOLS = [", f'ALLOWED_TOOLS = ["{name}", ')
    assert f"allow_{name}" in developer.types(migrate)

    assert "passed" in developer.types(test)
    developer.types(check)


@pytest.mark.processes
def test_overwrites_nothing(copy: Path) -> None:
    developer = Developer(copy)
    module = copy / "tickets" / "tools" / "set_priority.py"
    module.write_text("# mine\n")

    assert "nothing was written" in developer.types(STEPS[0], fine=False)

    assert module.read_text() == "# mine\n"
    assert not (copy / "tickets" / "contracts" / "set_priority.v1.json").exists()


@pytest.mark.parametrize("name", ["X", "ab", "set priority", "../x", "class", "file_followup", "é" * 5])
def test_refuses_a_name_that_cannot_be_one(name: str) -> None:
    with pytest.raises(CommandError):
        call_command("new_tool", name, stdout=StringIO())


def test_section_names_what_there_is(settings: Any) -> None:
    for path in re.findall(r"`((?:tickets|receipts|templates|tests)/[a-z_/.]+)`", SECTION):
        assert (ROOT / path).exists(), path
