"""`manage.py new_tool NAME`: begin a tool of this domain with a schema, a module and a test that already run."""

from __future__ import annotations

import hashlib
import keyword
import re
from pathlib import Path
from string import Template
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from receipts.contracts import registry

TEMPLATES = Path(__file__).parents[2] / "new_tool"
_NAME = re.compile(r"[a-z][a-z0-9_]{2,39}")

NEXT = """
Next:
1. tickets/tools/__init__.py: the line in the table
     from tickets.tools.{name} import {constant}
     TOOLS = (…, {constant})
   and "{name}" in ALLOWED_TOOLS of receipts/models.py
2. .venv/bin/python manage.py makemigrations receipts -n allow_{name}
3. .venv/bin/python -m pytest {test}

Then make it yours. The schema's sha256 {sha256} is pinned in the module: after
a change, `manage.py check` says the new one. Once receipts exist, a changed schema is a new version beside the old one.
"""


class Command(BaseCommand):
    help = "Writes a schema, a module and a test of a new tool, and says the next steps. Overwrites nothing."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what it does, verb first: set_priority")
        parser.add_argument(
            "--effect", choices=("write", "read"), default="write", help="does it change something? (write)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name, effect = options["name"], options["effect"]
        if not _NAME.fullmatch(name) or keyword.iskeyword(name):
            raise CommandError("A tool's name is 3 to 40 of a-z, 0-9 and _, and begins with a letter.")
        if name in registry.names():
            raise CommandError(
                f"There is a tool {name} already. A changed tool is a new version: see file_followup.py."
            )
        root = Path(settings.BASE_DIR)
        schema = _template(f"schema.{effect}.json")
        words = {
            "name": name,
            "constant": name.upper(),
            "sha256": hashlib.sha256(schema.encode()).hexdigest(),
        }
        files = {
            Path("tickets/contracts") / f"{name}.v1.json": schema,
            Path("tickets/tools") / f"{name}.py": _template(f"tool.{effect}.py", words),
            Path("tests/flow") / f"test_{name}.py": _template(f"test.{effect}.py", words),
        }
        taken = [str(path) for path in files if (root / path).exists()]
        if taken:
            raise CommandError(f"{', '.join(taken)} exists already; nothing was written.")
        for path, text in files.items():
            (root / path).write_text(text)
            self.stdout.write(f"wrote {path}")
        *_, test = files
        self.stdout.write(NEXT.format(test=test, **words))


def _template(name: str, words: dict[str, str] | None = None) -> str:
    """The files end in .txt, so that neither linters nor pytest take them for code of ours."""
    return Template((TEMPLATES / f"{name}.txt").read_text()).substitute(words or {})
