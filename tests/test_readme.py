"""The README stays true: its commands run, its names exist, its pictures are there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command, get_commands
from django.db import connection

from receipts.errors import BY_CODE
from tests.flow.conftest import alice, desk, provider  # noqa: F401 - fixtures
from tests.flow.provider import Provider
from tests.flow.web import Web, dsn
from tickets.models import Followup

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
SETTINGS = (ROOT / "receipts_project" / "settings.py").read_text() + "".join(
    (ROOT / "receipts_project" / name).read_text() for name in ("launch.py", "instance.py", "gunicorn_config.py")
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_both_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"^make (\w+)", blocks("sh")[0], re.MULTILINE)
    assert commands == ["run", "test"]
    assert all(re.search(rf"^{command}:", makefile, re.MULTILINE) for command in commands)
    assert "make test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.processes
def test_curl_example_files_a_followup(desk: Provider, alice: Any) -> None:
    call_command("seed_demo", verbosity=0)
    web = Web(user=alice, provider_url=desk.url)
    script = blocks("sh")[1].replace("localhost:8000", f"127.0.0.1:{web.port}")
    try:
        ran = subprocess.run(
            ["bash", "-euc", script],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": dsn()},
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        web.end()

    assert '"status": "applied"' in ran.stdout or '"status":"applied"' in ran.stdout
    with connection.cursor() as cursor:
        for statement in blocks("sql")[0].strip().splitlines():
            cursor.execute(statement)
            assert cursor.fetchone()[0] in ("applied", Followup.objects.filter(ticket_id="TCK-1008").count())


def test_codes_settings_commands_and_files_exist() -> None:
    statuses = README.split("## What a press is answered with")[1].split("Three ways to wait")[0]
    codes = set(re.findall(r"\d{3} `([a-z_]+)`", statuses))
    assert codes
    assert codes <= set(BY_CODE)
    table = README.split("## Settings")[1].split("The prompt holds")[0]
    names = set(re.findall(r"`([A-Z][A-Z_]{3,})`", table))
    assert {name for name in names if f'"{name}"' not in SETTINGS} == set()
    commands = README.split("## Commands")[1].split("## Words")[0]
    named = set(re.findall(r"`([a-z_]+)(?: [^`]*)?`", commands))
    assert named
    assert named <= set(get_commands())
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    for folder in re.findall(r"^\| `([a-z_]+/)`", README, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder
