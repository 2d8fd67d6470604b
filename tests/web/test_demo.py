"""The demo data: what it promises, and that a second run changes nothing a person did."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth import authenticate
from django.core.management import call_command
from django.db import connection
from django.test import RequestFactory

from receipts_project.accounts.models import User
from tickets.actions import open_ticket
from tickets.demo.catalogue import TICKETS
from tickets.models import Member, Message, Ticket

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def seed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.setenv("DEMO_PASSWORD", "a demo password")
    return lambda **options: call_command("seed_demo", verbosity=0, **options)


def signs_in(name: str, password: str) -> bool:
    return authenticate(RequestFactory().post("/login"), username=name, password=password) is not None


def test_some_forty_tickets_in_many_languages_and_states(seed: Callable[..., None]) -> None:
    seed()
    tickets = Ticket.objects.all()
    assert 38 <= tickets.count() <= 45
    assert {"en", "de", "fr", "es", "fi", "ja", "ar"} <= set(tickets.values_list("language", flat=True))
    assert set(tickets.values_list("status", flat=True)) == set(Ticket.Status.values)
    assert set(tickets.values_list("priority", flat=True)) == set(Ticket.Priority.values)
    sso = Ticket.objects.get(pk="TCK-1008")
    assert sso.status == "open"
    assert "SSO" in sso.subject


def test_one_conversation_is_very_long_and_none_repeats_itself(seed: Callable[..., None]) -> None:
    seed()
    assert Message.objects.filter(ticket="TCK-1037").count() > 100
    bodies = list(Message.objects.values_list("body", flat=True))
    assert len(bodies) == len(set(bodies))


def test_times_run_forward(seed: Callable[..., None]) -> None:
    seed()
    for ticket in Ticket.objects.prefetch_related("messages"):
        times = [message.created_at for message in ticket.messages.all()]
        assert times == sorted(times)
        assert (ticket.created_at, ticket.updated_at) == (times[0], times[-1])


def test_people_sign_in_with_the_demo_password_and_have_their_roles(seed: Callable[..., None]) -> None:
    seed()
    for name in ("lead", "lead2", "auditor", "operator", "admin"):
        assert signs_in(name, "a demo password")
    may = {user.username: user.has_perm("receipts.file_followup") for user in User.objects.all()}
    assert may == {
        "lead": True, "lead2": True, "auditor": False, "operator": False, "admin": True, "scheduler": True,
    }  # fmt: skip
    assert not Member.objects.get(handle="edgar").active


def test_a_second_run_changes_nothing_a_person_did(seed: Callable[..., None]) -> None:
    seed()
    Ticket.objects.filter(pk="TCK-1008").update(status="closed", subject="Mine now")
    Member.objects.filter(handle="alan").update(active=False)
    lead = User.objects.get(username="lead")
    lead.set_password("my own password")
    lead.groups.clear()
    lead.save()
    messages = Message.objects.count()
    seed()
    assert Ticket.objects.get(pk="TCK-1008").subject == "Mine now"
    assert not Member.objects.get(handle="alan").active
    assert signs_in("lead", "my own password")
    assert not User.objects.get(username="lead").groups.exists()
    assert (Ticket.objects.count(), Message.objects.count()) == (len(TICKETS), messages)


def test_passwords_are_reset_only_when_asked(seed: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    seed()
    monkeypatch.setenv("DEMO_PASSWORD", "another password")
    seed()
    assert signs_in("lead", "a demo password")
    seed(reset_passwords=True)
    assert signs_in("lead", "another password")


def test_new_tickets_are_numbered_past_the_demo_and_never_twice(seed: Callable[..., None]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER SEQUENCE ticket_number RESTART 1000")
    seed()
    first = open_ticket(subject="New", requester_name="R", requester_email="r@example.com")
    assert first.pk == "TCK-1042"
    seed()
    assert open_ticket(subject="New", requester_name="R", requester_email="r@example.com").pk == "TCK-1043"
