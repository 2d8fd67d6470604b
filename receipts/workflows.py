"""What a workflow is: when it runs, which tool it calls, on which subjects. Declared in code, filled at start-up.

To add one: a `Workflow` with a function that chooses its subjects, registered beside the tools. When its slots are is
in `receipts.schedules`; what a run does, in `receipts.runs`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model

#: The service user that scheduled receipts belong to. Made after every migrate (`receipts_project.accounts.roles`).
SCHEDULER = "scheduler"


@dataclass(frozen=True, kw_only=True)
class Item:
    """One call of the workflow's tool."""

    subject: str
    """The ticket id."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """What a press would send: `{"notes": …}` for a tool that drafts, `{}` for one that needs no model."""


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A tool, called by the clock on the subjects that need it."""

    name: str
    """`nightly_stale_tickets`: the `workflow` of its runs and the beginning of its keys. Frozen once it has run."""
    title: str
    """What it does, in one sentence for people."""
    cron: str
    """Five fields, in the zone: `0 3 * * *`."""
    zone: str = ""
    """IANA name; empty: the setting SCHEDULE_TIME_ZONE."""
    tool: str
    """The tool's name; its version is the one that presses open."""
    subjects: Callable[[dt.datetime], Iterable[Item]]
    """(moment) → whom it concerns then, most urgent first, each subject once.

    Called again with the same moment when a run was interrupted, so it leaves out what is done or under way already.
    """
    parameters: Callable[[], Mapping[str, Any]] = dict
    """What the choice depends on, for the run's manifest: `{"stale_after_days": 3}`."""

    @property
    def time_zone(self) -> str:
        return self.zone or str(settings.SCHEDULE_TIME_ZONE)


class Registry:
    """The workflows of this process, by name. Filled at start-up, never by a request."""

    def __init__(self) -> None:
        self._workflows: dict[str, Workflow] = {}
        self.duplicates: list[Workflow] = []

    def register(self, workflow: Workflow) -> Workflow:
        """Add a workflow. A second one of the same name is kept aside for the start-up check."""
        if self._workflows.setdefault(workflow.name, workflow) is not workflow:
            self.duplicates.append(workflow)
        return workflow

    def get(self, name: str) -> Workflow:
        """Raises: KeyError when this process does not hold it."""
        return self._workflows[name]

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._workflows))

    def __iter__(self) -> Iterator[Workflow]:
        return iter(self._workflows.values())


registry = Registry()


def scheduler() -> Any:
    """The service user. Raises: User.DoesNotExist where nobody has migrated yet."""
    return get_user_model().objects.get(username=SCHEDULER)
