"""`manage.py rotate_sealed_inputs`: all sealed inputs under the newest key, so that the old ones can be dropped."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from receipts.models import SealedInput
from receipts.rotation import Progress, rotate_all

#: Rows between two lines of progress.
SAID_EVERY = 10_000
#: Passes before the command gives up on rows that others keep sealing under an old key.
PASSES = 3


class Command(BaseCommand):
    help = (
        "Encrypts every sealed input anew under the first of SEALED_INPUT_KEYS. Can be stopped and started again at "
        "any time: what is done is recognised. Ends with code 1 while an input is left that needs another key."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        total, rotated = SealedInput.objects.count(), 0
        for _ in range(PASSES):
            progress = self._pass(total)
            rotated += progress.rotated
            if not progress.moved:
                break
        self.stdout.write(f"{rotated} sealed anew, {progress.current} were under the first key already")
        if progress.unopenable:
            shown = ", ".join(str(key) for key in progress.unopenable[:10])
            raise CommandError(
                f"{len(progress.unopenable)} open with no key that is held: bring their key back, or let them expire. "
                f"They belong to {shown}"
            )
        if progress.moved:
            raise CommandError(
                f"{progress.moved} were sealed by others meanwhile: restart the servers and workers with the new key "
                "first, then run this again"
            )

    def _pass(self, total: int) -> Progress:
        progress, said = Progress(), 0
        for progress in rotate_all():
            if progress.seen - said >= SAID_EVERY:
                said = progress.seen
                self.stdout.write(f"{said} of {total}")
        return progress
