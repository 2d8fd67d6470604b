"""How the demo conversations are written down, and how they become rows."""

from __future__ import annotations

import datetime as dt
import random
import re
from dataclasses import dataclass
from itertools import accumulate

from tickets.models import Message, Ticket

#: A line that says who speaks next: `--- customer`, `--- ada`, or `--- Jo Park` for a second voice at the customer's.
SPEAKER = re.compile(r"^--- (.+)\n", re.MULTILINE)

#: A line break with text on both sides: neither a blank line nor an indented one (a log, a list).
SOFT_BREAK = re.compile(r"(?<=\S)\n(?=\S)")

#: The same after a Japanese full stop or comma, where no space follows.
CJK_BREAK = re.compile(r"(?<=[。、？！])\n(?=\S)")

CUSTOMER = "customer"

#: Speakers that are members of support.
HANDLES = ("ada", "grace", "alan")


def unwrap(text: str) -> str:
    """Undo the line breaks of the source: those inside a paragraph go, blank lines and indented lines stay."""
    return SOFT_BREAK.sub(" ", CJK_BREAK.sub("", text.strip("\n")))


@dataclass(frozen=True, kw_only=True)
class DemoTicket:
    """One ticket as it is written down here. Times count back from the moment of seeding."""

    number: int
    subject: str
    requester: str
    email: str
    conversation: str
    """Turns, each opened by a `--- speaker` line."""
    opened_hours: float
    """Hours since the first message."""
    quiet_hours: float
    """Hours since the last one."""
    language: str = "en"
    status: str = "open"
    priority: str = "normal"
    assignee: str | None = None

    @property
    def id(self) -> str:
        return f"TCK-{self.number}"

    def turns(self) -> list[tuple[str, str]]:
        """(speaker, text) in order."""
        _, *parts = SPEAKER.split(self.conversation)
        return [(parts[i], unwrap(parts[i + 1])) for i in range(0, len(parts), 2)]

    def times(self, now: dt.datetime) -> list[dt.datetime]:
        """One instant a turn: from `opened_hours` to `quiet_hours` ago, unevenly, the same on every run.

        Support answers sooner than customers do.
        """
        first = now - dt.timedelta(hours=self.opened_hours)
        span = dt.timedelta(hours=self.opened_hours - self.quiet_hours)
        jitter = random.Random(self.number)  # noqa: S311 - decoration, not a secret
        gaps = [jitter.uniform(0.2, 1.0) * (0.15 if speaker in HANDLES else 1.0) for speaker, _ in self.turns()[1:]]
        shares = accumulate(gaps, initial=0.0)
        return [first + span * (share / (sum(gaps) or 1.0)) for share in shares]

    def row(self, now: dt.datetime) -> Ticket:
        times = self.times(now)
        return Ticket(
            id=self.id,
            subject=self.subject,
            status=self.status,
            priority=self.priority,
            assignee_id=self.assignee,
            requester_name=self.requester,
            requester_email=self.email,
            language=self.language,
            created_at=times[0],
            updated_at=times[-1],
        )

    def messages(self, now: dt.datetime, names: dict[str, str]) -> list[Message]:
        """The turns as rows. `names` maps a member's handle to the name shown."""
        return [
            Message(
                ticket_id=self.id,
                author=Message.Author.SUPPORT if speaker in names else Message.Author.REQUESTER,
                author_name=self.requester if speaker == CUSTOMER else names.get(speaker, speaker),
                body=text,
                created_at=at,
            )
            for (speaker, text), at in zip(self.turns(), self.times(now), strict=True)
        ]
