"""`manage.py standin_provider`: run the built-in stand-in until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from argparse import ArgumentTypeError, RawDescriptionHelpFormatter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from receipts.standin import FAILURES, READING_PACE, StandIn

DESCRIPTION = """\
Run the built-in stand-in for a model provider on 127.0.0.1 and print the URL to post to.
It is no model: it drafts a summary from the notes and picks an assignee, at reading pace.

Notes can ask for a failure by name, for instance `standin: provider_timeout`; with `once`
behind it only the first press with these notes fails. `standin: slow 8` waits 8 seconds first,
`standin: help` answers with the names:
  {names}

GET /calls on the same port tells how many completions were asked for."""


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 3600:
        raise ArgumentTypeError("must lie between 0 and 3600")
    return number


class Command(BaseCommand):
    help = DESCRIPTION.format(names="\n  ".join(FAILURES))
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8010, help="0 takes a free one (default: %(default)s)")
        parser.add_argument(
            "--delay", type=_seconds, default=0.3, help="seconds before the first word (default: %(default)s)"
        )
        parser.add_argument(
            "--pace",
            type=_seconds,
            default=READING_PACE,
            help="words a second, 0 for all at once (default: %(default)s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            asyncio.run(self.serve(options["port"], options["delay"], options["pace"]))
        except OSError as error:
            raise CommandError(f"cannot listen on 127.0.0.1:{options['port']}: {error.strerror}") from error

    async def serve(self, port: int, delay: float, pace: float) -> None:
        """Until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, stop.set)
        async with StandIn(delay=delay, pace=pace).listening(port) as url:
            # Whoever started us reads this line, perhaps through a pipe.
            self.stdout.write(url)
            self.stdout.flush()
            await stop.wait()
