"""The demo desk's members: who can be given a follow-up."""

from __future__ import annotations

from tickets.models import Member


def members() -> list[Member]:
    return [
        Member(handle="ada", name="Ada Okafor"),
        Member(handle="grace", name="Grace Lindholm"),
        Member(handle="alan", name="Alan Moreau"),
        # left the team last month: the policy gate must refuse follow-ups for him
        Member(handle="edgar", name="Edgar Voss", active=False),
    ]
