"""Which receipts a list shows: narrowed in the URL, so that a link or the back button leads to the same ones."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict

from receipts.lifecycle import Status
from receipts.models import Receipt
from tickets.board import with_parameters
from tickets.models import TICKET_ID

#: States as tabs: what is still open comes first after all of them, since that is what people come back for.
STATES = {"": "All", Status.PENDING: "Still open", Status.APPLIED: "Done", Status.FAILED: "Not done"}

#: (name in the URL, in words, how long ago it reaches back).
SPANS = {"day": ("Last 24 hours", dt.timedelta(days=1)), "week": ("Last 7 days", dt.timedelta(days=7))}

MINE = "me"

_TICKET = re.compile(TICKET_ID)


@dataclass(frozen=True, kw_only=True)
class Narrowing:
    """What cannot be meant counts as no narrowing: old links must not break."""

    status: str
    within: str
    ticket: str
    who: str

    @classmethod
    def asked(cls, query: QueryDict) -> Narrowing:
        """From the parameters of an address."""
        status, within, who = (query.get(name, "") for name in ("status", "within", "who"))
        ticket = query.get("ticket", "").strip().upper()
        return cls(
            status=status if status in STATES else "",
            within=within if within in SPANS else "",
            ticket=ticket if _TICKET.fullmatch(ticket) else "",
            who=MINE if who == MINE else "",
        )

    def of(self, receipts: QuerySet[Receipt], person: Any, now: dt.datetime) -> QuerySet[Receipt]:
        if self.status:
            receipts = receipts.filter(status=self.status)
        if self.within:
            receipts = receipts.filter(created_at__gte=now - SPANS[self.within][1])
        if self.ticket:
            receipts = receipts.filter(subject=self.ticket)
        return receipts.filter(user=person) if self.who else receipts

    @property
    def narrows(self) -> bool:
        return any((self.status, self.within, self.ticket, self.who))

    def tabs(self, query: QueryDict) -> list[dict[str, Any]]:
        """The states as links that keep the rest."""
        return [
            {"label": label, "href": f"?{with_parameters(query, status=status)}", "current": status == self.status}
            for status, label in STATES.items()
        ]

    def chips(self, query: QueryDict) -> list[dict[str, str]]:
        """What else is narrowed, each with the address of the list without it."""
        on = {
            "within": SPANS[self.within][0] if self.within else "",
            "ticket": f"Ticket: {self.ticket}" if self.ticket else "",
            "who": "Pressed by me" if self.who else "",
        }
        return [
            {"words": words, "href": f"?{with_parameters(query, **{name: ''})}"} for name, words in on.items() if words
        ]
