"""`python -m benchmarks.soak.desk`, in a process of the product: people and tickets for a soak. Prints JSON.

`{"tokens": […], "tickets": […], "closed": […]}`. With `stale N`: N more tickets that nobody has answered for days.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import uuid

import django

#: So many people press; on so many tickets, a few of them closed.
PEOPLE, TICKETS, CLOSED = 4, 60, 3


def ticket(number: int, subject: str, *, last_word: dt.datetime, status: str = "open") -> str:
    from tickets.models import Message, Ticket

    made = Ticket.objects.create(
        id=f"TCK-{number}",
        subject=subject,
        status=status,
        requester_name="Rita",
        requester_email=f"rita{number}@example.com",
        created_at=last_word,
        updated_at=last_word,
    )
    Message.objects.create(
        ticket=made, author="requester", author_name="Rita", body="I cannot sign in.", created_at=last_word
    )
    return str(made.pk)


def stale(count: int, at: dt.datetime) -> list[str]:
    from tickets.models import Ticket

    first = 5000 + Ticket.objects.filter(id__startswith="TCK-5").count()
    return [
        ticket(number, f"stale-{number}", last_word=at - dt.timedelta(days=5)) for number in range(first, first + count)
    ]


def desk(at: dt.datetime) -> dict[str, list[str]]:
    from django.contrib.auth.models import Group
    from knox.models import AuthToken

    from receipts_project.accounts.models import User
    from receipts_project.accounts.roles import LEADS
    from tickets.models import Member

    for handle in ("ada", "grace", "alan"):
        Member.objects.create(handle=handle, name=handle.title(), active=True)
    tokens = []
    for number in range(PEOPLE):
        user = User.objects.create_user(f"lead{number}-{uuid.uuid4().hex[:6]}")
        user.groups.add(Group.objects.get(name=LEADS))
        tokens.append(AuthToken.objects.create(user)[1])
    numbers = range(2000, 2000 + TICKETS)
    return {
        "tokens": tokens,
        "tickets": [ticket(number, "SSO login fails", last_word=at) for number in numbers],
        "closed": [ticket(3000 + number, "Solved long ago", last_word=at, status="closed") for number in range(CLOSED)],
    }


def main() -> None:
    django.setup()
    from django.utils import timezone

    now = timezone.now()
    if sys.argv[1:2] == ["stale"]:
        print(json.dumps(stale(int(sys.argv[2]), now)))
    else:
        print(json.dumps(desk(now)))


if __name__ == "__main__":
    main()
