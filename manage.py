#!/usr/bin/env python
"""Django's commands, with a database.

Where DATABASE_URL names none, a command that needs one uses the embedded server: that of a running
`make run`, else one started for as long as the command runs.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack

from django.core.exceptions import ImproperlyConfigured

from receipts_project import embedded_postgres, environment, instance
from receipts_project.database_check import DatabaseUnusableError, require_database
from receipts_project.embedded_postgres import EmbeddedPostgresError

#: Commands that look at code, files or settings alone. Every other one gets a database.
WITHOUT_DATABASE = {
    "",
    "check",
    "collectstatic",
    "compilemessages",
    "database_url",
    "diffsettings",
    "findstatic",
    "help",
    "makemessages",
    "spectacular",
    "standin_provider",
    "version",
}


def needs_database(arguments: list[str]) -> bool:
    if "--help" in arguments or "-h" in arguments or "--version" in arguments:
        return False
    command = arguments[0] if arguments else ""
    if command == "export" and any(argument.partition("=")[0] == "--check" for argument in arguments):
        return False  # an auditor verifies a folder anywhere
    return command not in WITHOUT_DATABASE or (command == "check" and "--database" in arguments)


def provide_database(stack: ExitStack) -> None:
    """A database until `stack` closes. Raises: EmbeddedPostgresError, DatabaseUnusableError."""
    url = os.environ.get("DATABASE_URL")
    if url:
        require_database(url)  # one sentence now instead of the pool's warnings and a traceback later
    else:
        stack.enter_context(embedded_postgres.ensure(instance.data_dir_of(os.environ)))


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "receipts_project.settings")
    instance.use_standin_of_running_instance(os.environ)
    from django.core.management import execute_from_command_line

    with ExitStack() as stack:
        try:
            if needs_database(sys.argv[1:]):
                provide_database(stack)
            if sys.argv[1:2] != ["help"]:
                environment.load_settings()
            execute_from_command_line(sys.argv)
        except (EmbeddedPostgresError, DatabaseUnusableError, ImproperlyConfigured) as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
