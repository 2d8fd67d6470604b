"""How an attempt is shown, in its own list and below its receipt."""

from __future__ import annotations

from django.contrib import admin

from receipts.admin import show
from receipts.models import Attempt


class AttemptColumns:
    def who(self, attempt: Attempt) -> str:
        return attempt.actor.username

    def started(self, attempt: Attempt) -> str:
        return show.moment(attempt.started_at)

    def finished(self, attempt: Attempt) -> str:
        return show.moment(attempt.finished_at)

    @admin.display(description="outcome")
    def came_to(self, attempt: Attempt) -> str:
        return show.badge(attempt.status)

    def what_happened(self, attempt: Attempt) -> str:
        return show.sentence(attempt.error_code, attempt.error_reason)
