"""Every address, admin action and API verb × everybody: who gets in is read off one table.

The addresses come from the URL map, so a new one fails here until it stands in the table. Whoever is refused sends what
would work for somebody who may; whoever may sends nothing, which is as far as permission goes.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib import admin
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from knox.models import AuthToken
from procrastinate.contrib.django.models import ProcrastinateJob

from receipts import bulk_plans, ledger
from receipts.errors import ArgMismatch
from receipts.jobs import enqueue_bulk_replay
from receipts.models import Attempt, AuditEvent, BulkReplay, Circuit, Receipt, SavedView, SealedInput, Verb
from receipts_project.accounts.models import User
from receipts_project.accounts.roles import AUDITORS, LEADS, OPERATORS
from tests import factories
from tests.admin.conftest import plain_static_files
from tickets.models import OutgoingEmail, Resolution

__all__ = ["plain_static_files"]

PEOPLE = ("anonymous", "lead", "other", "auditor", "operator", "admin")
VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")

#: What auditor, operator and administrator are told.
NOBODY, STAFF, OPERATOR, ADMIN = "403* 403* 403*", "ok ok ok", "403* ok ok", "403* 403* ok"
#: Addresses and their refusals, one row a verb: who are PEOPLE, in that order.
#:
#: `ok` past the door, whatever came then; `login` sent to sign in; else the status of the refusal. `*`: an audit event
#: tells of the refusal. A verb that stands nowhere is answered 405 by everybody's.
ANYBODY = {"GET": "ok ok ok ok ok ok"}
NOWHERE = {"GET POST PUT PATCH DELETE": "404 404 404 404 404 404"}
READ = {"GET": "401 ok ok ok ok ok", "POST PUT PATCH DELETE": "401 405 405 405 405 405"}
PRESS = {"GET": "401 ok ok ok ok ok", "POST": "401 ok ok 403 403 ok", "PUT PATCH DELETE": "401 405 405 405 405 405"}
READ_OWN = {"GET": "401 ok 404 ok ok ok", "POST PUT PATCH DELETE": "401 405 405 405 405 405"}
EXPORT = {"GET": "401 403* 403* ok ok ok", "POST PUT PATCH DELETE": "401 405 405 405 405 405"}
NO_POST = "GET PUT PATCH DELETE"
ALL = "GET POST PUT PATCH DELETE"
PAGE = "login login* login*"
"""How the console's every page begins: it is for staff."""


def model(name: str, *, sees: str, adds: str = NOBODY, changes: str = NOBODY, deletes: str = NOBODY) -> dict[str, Any]:
    """The six addresses that Django gives a model. Each right: auditor, operator, admin."""
    app, _, kind = name.partition("_")
    return {
        f"admin:{name}_changelist": {ALL: f"{PAGE} {sees}"},
        f"admin:{name}_history": {ALL: f"{PAGE} {sees}"},
        f"admin:{name}_add": {ALL: f"{PAGE} {adds}"},
        f"admin:{name}_delete": {ALL: f"{PAGE} {deletes}"},
        f"admin:{name}_change": {NO_POST: f"{PAGE} {sees}", "POST": f"{PAGE} {changes}"},
        f"admin/{app}/{kind}/<path:object_id>/": {ALL: f"{PAGE} ok ok ok"},  # leads on to the change page
    }


TABLE: dict[str, dict[str, str]] = {
    # ── the API ──────────────────────────────────────────────────────────────────────────────────────────────────
    "api:schema": ANYBODY,
    "api:docs": ANYBODY,
    "api:problems": ANYBODY,
    "api:problem": ANYBODY,
    "api:tickets": PRESS,
    "api:ticket": {
        "GET": "401 ok ok ok ok ok",
        "PATCH": "401 ok ok 403 403 ok",
        "POST PUT DELETE": "401 405 405 405 405 405",
    },
    "api:followups": PRESS,
    "api:resolutions": PRESS,
    "api:emails": PRESS,
    "api:contact-checks": PRESS,
    "api:receipts": READ,
    "api:receipts-export": EXPORT,
    "api:receipt": READ_OWN,
    "api:run-receipts": READ_OWN,
    "api:events": READ_OWN,
    "api:cancel": {"POST": "401 ok 404 403 ok ok", NO_POST: "401 405 405 405 405 405"},
    "api:retry": {"POST": "401 ok 404 403* ok ok", NO_POST: "401 405 405 405 405 405"},
    "api:replay": {"GET POST": "401 403* 404 403* ok ok", "PUT PATCH DELETE": "401 405 405 405 405 405"},
    "api:bulk-replays": {"POST": "401 403* 403* 403* ok ok", NO_POST: "401 405 405 405 405 405"},
    "api:bulk-replay": {"GET": "401 404 404 ok ok ok", "POST PUT PATCH DELETE": "401 405 405 405 405 405"},
    "api:bulk-replay-stop": {"POST": "401 404 404 403* ok ok", NO_POST: "401 405 405 405 405 405"},
    "api:runs": READ,
    "api:run": READ_OWN,
    "api:run-export": EXPORT,
    "api:workflows": {"GET": "401 403 403 ok ok ok", "POST PUT PATCH DELETE": "401 405 405 405 405 405"},
    "^api(?:/|$)": NOWHERE,
    # ── the leads' pages ─────────────────────────────────────────────────────────────────────────────────────────
    "livez": ANYBODY,
    "readyz": ANYBODY,
    "login": {"GET POST PUT": "ok ok ok ok ok ok", "PATCH DELETE": "405 ok ok ok ok ok"},  # who is in is led on
    "logout": {"POST": "ok ok ok ok ok ok"},
    "board": {"GET": "login ok ok ok ok ok"},
    "place": {"GET": "login ok ok ok ok ok", "POST": "login ok ok 403 403 ok"},
    "ticket": {"GET": "login ok ok ok ok ok", "POST": "401 ok ok 403 403 ok"},
    "press": {"GET": "ok ok ok ok ok ok", "POST": "401 ok ok 403 403 ok"},  # GET leads to the ticket
    "by-hand": {"GET": "ok ok ok ok ok ok", "POST": "401 ok ok 403 403 ok"},
    "check-by-hand": {"POST": "401 ok ok 403 403 ok"},  # says what a contract makes of it, and files nothing
    "notes": {"GET POST PUT": "401 ok ok 403 403 ok"},
    "receipts": {"GET": "login ok ok ok ok ok"},
    "receipt": {"GET": "login ok 404 ok ok ok"},
    "retry": {"POST": "login ok 404 403* ok ok"},
    "cancel": {"POST": "login ok 404 403 ok ok"},
    "runs": {"GET": "login 404 404 ok ok ok"},
    "run": {"GET": "login ok 404 ok ok ok"},
    # ── the console ──────────────────────────────────────────────────────────────────────────────────────────────
    "^admin/r/(.*)$": NOWHERE,
    "admin:view_on_site": NOWHERE,
    "admin:app_list": {ALL: f"{PAGE} ok ok ok"},
    "admin/(?P<url>.*)$": {ALL: f"{PAGE} 404 404 404"},
    "admin:index": {ALL: f"{PAGE} ok ok ok"},
    "admin:login": {"GET POST PUT": "ok ok ok ok ok ok"},
    "admin:logout": {"GET": "ok ok ok 405 405 405", "POST PUT PATCH DELETE": "ok ok ok ok ok ok"},
    "admin:password_change": {"GET POST PUT": f"{PAGE} ok ok ok", "PATCH DELETE": f"{PAGE} 405 405 405"},
    "admin:password_change_done": {"GET": f"{PAGE} ok ok ok", "POST PUT PATCH DELETE": f"{PAGE} 405 405 405"},
    "admin:jsi18n": {"GET": f"{PAGE} ok ok ok", "POST PUT PATCH DELETE": f"{PAGE} 405 405 405"},
    "admin:autocomplete": {"GET": f"{PAGE} {NOBODY}", "POST PUT PATCH DELETE": f"{PAGE} 405 405 405"},
    # the ledger: read by auditors and operators, changed by nobody
    **model("receipts_receipt", sees=STAFF),
    **model("receipts_attempt", sees=STAFF),
    **model("receipts_run", sees=STAFF),
    **model("receipts_auditevent", sees=STAFF),
    **model("receipts_circuit", sees=STAFF),
    **model("receipts_bulkreplay", sees=STAFF),
    **model("receipts_sealedinput", sees=OPERATOR),
    "admin:receipts_receipt_changelist": {NO_POST: f"{PAGE} {STAFF}", "POST": f"{PAGE} {OPERATOR}"},  # plans a replay
    "admin:receipts_bulkreplay_change": {"GET": f"{PAGE} {STAFF}", "POST PUT PATCH DELETE": f"{PAGE} {NOBODY}"},
    "admin:receipts_receipt_overview": {ALL: f"{PAGE} {STAFF}"},
    "admin:receipts_receipt_last_night": {ALL: f"{PAGE} {STAFF}"},
    "admin:receipts_receipt_save_view": {"POST": f"{PAGE} {STAFF}", NO_POST: f"{PAGE} 405 405 405"},
    "admin:receipts_receipt_forget_view": {"POST": f"{PAGE} {ADMIN}", NO_POST: f"{PAGE} 405 405 405"},  # somebody's own
    "admin:receipts_receipt_export": {"GET": f"{PAGE} {STAFF}", "POST PUT PATCH DELETE": f"{PAGE} 405 405 405"},
    "admin:receipts_run_receipt": {"GET": f"{PAGE} {STAFF}", "POST PUT PATCH DELETE": f"{PAGE} 405 405 405"},
    "admin:receipts_run_manifest": {"GET": f"{PAGE} {STAFF}", "POST PUT PATCH DELETE": f"{PAGE} 405 405 405"},
    "admin:receipts_run_archive": {"GET": f"{PAGE} {STAFF}", "POST PUT PATCH DELETE": f"{PAGE} 405 405 405"},
    "admin:receipts_receipt_replay": {"GET POST": f"{PAGE} {OPERATOR}", "PUT PATCH DELETE": f"{PAGE} 403* 405 405"},
    "admin:receipts_receipt_retry": {"POST": f"{PAGE} {OPERATOR}", NO_POST: f"{PAGE} 403* 405 405"},
    "admin:receipts_sealedinput_open": {"GET POST": f"{PAGE} {OPERATOR}", "PUT PATCH DELETE": f"{PAGE} 403* 405 405"},
    "admin:receipts_bulkreplay_start": {"POST": f"{PAGE} {OPERATOR}", NO_POST: f"{PAGE} 403* 405 405"},
    "admin:receipts_bulkreplay_stop": {"POST": f"{PAGE} {OPERATOR}", NO_POST: f"{PAGE} 403* 405 405"},
    "admin:receipts_bulkreplay_progress": {ALL: f"{PAGE} {STAFF}"},
    # the domain, people and machinery: the administrator's
    **model("tickets_ticket", sees=ADMIN, changes=ADMIN),
    **model("tickets_member", sees=ADMIN, adds=ADMIN, changes=ADMIN),
    **model("tickets_followup", sees=ADMIN),
    **model("tickets_resolution", sees=ADMIN),
    **model("tickets_outgoingemail", sees=ADMIN),
    **model("accounts_user", sees=ADMIN, adds=ADMIN, changes=ADMIN, deletes=ADMIN),
    "admin:auth_user_password_change": {ALL: f"{PAGE} {ADMIN}"},
    **model("auth_group", sees=ADMIN, adds=ADMIN, changes=ADMIN, deletes=ADMIN),
    **model("knox_authtoken", sees=ADMIN, adds=ADMIN, changes=ADMIN, deletes=ADMIN),
    **model("procrastinate_procrastinatejob", sees=ADMIN),
}


def addresses(resolver: URLResolver, prefix: str = "", space: str = "") -> Iterator[tuple[str, str]]:
    """(name, form) of every address, Django's and libraries' too. One without a name is called by its form."""
    for pattern in resolver.url_patterns:
        form = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern, form, f"{space}{pattern.namespace}:" if pattern.namespace else space)
            continue
        assert isinstance(pattern, URLPattern)
        api = "api:" if form.startswith("api/") else ""
        if api and not pattern.name and form.endswith("/"):
            continue  # the same view with a slash behind it (`receipts.routes`)
        yield (f"{api}{space}{pattern.name}" if pattern.name else form), form


ADDRESSES = dict(addresses(get_resolver()))


# ── the world ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class World:
    clients: dict[str, Client]
    people: dict[str, User]
    receipt: Receipt
    """Alice's, failed for good; its input is sealed."""
    keys: dict[str, Any]
    """Model of the admin → a row of it."""


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """One world for all cases: nobody changes it, which every case looks at."""
    with django_db_blocker.unblock():
        yield make_world()
        connection.close()
        call_command("flush", interactive=False, verbosity=0)


@pytest.fixture
def world(made: World, settings: Any) -> World:
    """With everybody signed in anew: some addresses sign out."""
    settings.THROTTLE_PRESSES = "none"
    theirs, _created = SavedView.objects.get_or_create(owner=made.people["lead"], name="theirs", shared=True)
    made.keys["view"] = theirs.pk  # the administrator may have removed it
    for name in PEOPLE:
        made.clients[name] = Client(headers={"host": "localhost"}, raise_request_exception=False)
        if name in made.people:
            made.clients[name].force_login(made.people[name], backend="receipts_project.accounts.backends.RoleBackend")
    return made


def make_world() -> World:
    for handle in ("ada", "grace"):
        factories.Member.objects.create(handle=handle, name=handle.title())
    ticket = factories.make_ticket("TCK-1008")
    people = {
        "lead": factories.person("alice", LEADS),
        "other": factories.person("bob", LEADS),
        "auditor": factories.person("ines", AUDITORS, is_staff=True),
        "operator": factories.person("kofi", OPERATORS, is_staff=True),
        "admin": factories.person("robin", is_staff=True, is_superuser=True),
    }
    alice = people["lead"]
    applied, failed = factories.applied(alice), factories.failed(alice, ArgMismatch())
    now = timezone.now()
    circuit = Circuit.objects.create(provider="p.test", failures=1, last_failure_at=now, last_reason="provider_timeout")
    made: dict[str, Any] = {"ticket": ticket, "created_by": alice, "receipt": applied, "created_at": now}
    resolution = Resolution.objects.create(id="RES-1", text="Done.", **made)
    email = OutgoingEmail.objects.create(id="MSG-1", to_address="r@example.com", subject="s", body="b", **made)
    bulk = BulkReplay.objects.create(actor=people["operator"], reason="r", filter={}, created_at=now, finished_at=now)
    event = ledger.record(ledger.Event(verb=Verb.EXPORT, actor_id=alice.pk), receipt=failed)
    token, _digest = AuthToken.objects.create(alice)
    with transaction.atomic():
        enqueue_bulk_replay(bulk.pk)
    keys = {
        "accounts_user": alice.pk,
        "auth_group": factories.Group.objects.get(name=LEADS).pk,
        "auth_user": alice.pk,
        "receipts_attempt": Attempt.objects.get(receipt=failed).pk,
        "receipts_auditevent": event.pk,
        "receipts_bulkreplay": bulk.pk,
        "receipts_circuit": circuit.pk,
        "receipts_receipt": failed.pk,
        "receipts_run": failed.run_id,
        "receipts_sealedinput": SealedInput.objects.get(receipt=failed).pk,
        "tickets_ticket": ticket.pk,
        "tickets_member": "ada",
        "tickets_followup": factories.Ticket.objects.get(pk=ticket.pk).followups.get().pk,
        "tickets_resolution": resolution.pk,
        "tickets_outgoingemail": email.pk,
        "procrastinate_procrastinatejob": ProcrastinateJob.objects.latest("id").pk,
        "knox_authtoken": token.pk,
    }
    return World(clients={}, people=people, receipt=failed, keys=keys)


def address(world: World, name: str) -> str:
    """The form with what is there filled in."""
    model = re.sub(r"^admin:|_(changelist|add|history|delete|change|password_change)$", "", name)
    if "object_id" in name:
        model = "_".join(re.findall(r"admin/(\w+)/(\w+)/", name)[0])
    bulk = world.keys["receipts_bulkreplay"]
    values = {
        "ticket_id": "TCK-1008",
        "receipt_id": world.receipt.pk,
        "run_id": world.receipt.run_id,
        "attempt_id": world.keys["receipts_attempt"],
        "bulk_id": bulk,
        "view_id": world.keys["view"],
        "bulk_replay_id": bulk,
        "object_id": world.keys.get(model, 1),
        "id": world.keys.get(model, 1),
        "content_type_id": 1,
        "code": "not_found",
        "name": "csv",
        "what": "followups",
        "app_label": "receipts",
        "url": "nothing/there",
    }
    assert model in world.keys or name == "admin:view_on_site" or not re.search(r"object_id|<id>", ADDRESSES[name]), (
        f"no row of {model} in the world"
    )
    form = ADDRESSES[name]
    form = re.sub(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)", lambda found: str(values[found[1]]), form)
    form = re.sub(r"<(?:\w+:)?(\w+)>", lambda found: str(values[found[1]]), form)
    return "/" + form.replace("(?:/|$)", "/x").replace("(.*)", "1/2/").replace("^", "").replace("$", "")


def forged(world: World, name: str) -> dict[str, Any]:
    """What would work for somebody who may."""
    key = str(world.receipt.pk)
    fields: dict[str, Any] = {
        "reason": "forged",
        "notes": "Customer still blocked on SSO.",
        "post": "yes",
        "status": "closed",
        "priority": "high",
        "subject": "Forged",
        "is_superuser": "on",
        "name": "Forged",
        "mode": "draft_again",
        "expected_replay_no": "1",
        "idempotency_key": f"forged-{uuid.uuid4()}",
        "action": "plan_replay",
        "_selected_action": [key],
        "plan": bulk_plans.plan([world.receipt], {}).seal(world.people["auditor"]),
    }
    if not name.startswith("api:"):
        return fields
    last = ADDRESSES[name].rstrip("/").rsplit("/", 1)[-1]
    bodies: dict[str, dict[str, Any]] = {
        "tickets": {"subject": "Forged", "requester_name": "F", "requester_email": "f@example.com"},
        "<str:ticket_id>": {"status": "closed"},
        "replay": {"reason": "forged"},
        "bulk-replays": {"receipts": [key], "reason": "forged"},
        "retry": {},
        "cancel": {},
        "stop": {},
        "contact-checks": {},
    }
    return bodies.get(last, {"notes": fields["notes"]})


def send(world: World, who: str, verb: str, name: str, *, forge: bool) -> Any:
    client, where = world.clients[who], address(world, name)
    if verb == "GET":
        return client.get(where)
    api = where.startswith("/api/")
    body: Any = forged(world, name) if forge else {}
    if verb == "POST" and not api:
        return client.post(where, body)
    headers = {"idempotency-key": f"forged-{uuid.uuid4()}"} if forge else {}
    return client.generic(verb, where, json.dumps(body), content_type="application/json", headers=headers)


def outcome(response: Any) -> str:
    """`ok`: past the door, whatever came then."""
    if response.streaming:
        list(response.streaming_content)  # an export holds its place until it has been read
    response.close()
    if response.status_code in (302, 303) and re.search(r"/login/?\?next=", response["Location"]):
        return "login"
    if response.status_code in (401, 403, 404, 405) or response.status_code >= 500:
        return str(response.status_code)
    return "ok"


#: Tables that no refused request may touch. Events are looked at apart.
TABLES = (
    "tool_receipts", "attempts", "runs", "sealed_inputs", "bulk_replays", "bulk_replay_items", "circuits",
    "schedules", "tickets", "messages", "followups", "resolutions", "outbox", "members", "notes_drafts",
    "saved_views", "users", "users_groups", "auth_group", "auth_group_permissions", "knox_authtoken",
    "procrastinate_jobs",
)  # fmt: skip


def rows() -> list[str]:
    """Every row of those tables, as it is."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
        there = {row[0] for row in cursor.fetchall()}
        found = []
        for table in there & set(TABLES):
            cursor.execute(f"SELECT '{table}' || (to_jsonb(t) - 'last_login')::text FROM {table} t")
            found += [row[0] for row in cursor.fetchall()]
    return sorted(found)


@pytest.mark.parametrize("name", ADDRESSES)
def test_who_gets_in(world: World, name: str) -> None:
    assert name in TABLE, f"{name} is new: say in TABLE who may go there"
    expected = {(verb, who): word for verb in VERBS for who, word in zip(PEOPLE, _row(name, verb), strict=True)}
    got, before = {}, rows()
    for (verb, who), word in expected.items():
        if word != "ok":
            count = _refusals()
            got[verb, who] = outcome(send(world, who, verb, name, forge=True)) + "*" * (_refusals() - count)
    assert got == {case: word for case, word in expected.items() if word != "ok"}
    assert rows() == before
    for (verb, who), word in expected.items():
        if word == "ok":
            assert outcome(send(world, who, verb, name, forge=False)) == word, (verb, who)


def _row(name: str, verb: str) -> list[str]:
    """The table's words for a verb; a verb that stands nowhere is one that the address does not know."""
    row = next((row for verbs, row in TABLE[name].items() if verb in verbs.split()), "405 405 405 405 405 405")
    return row.split()


def _refusals() -> int:
    return AuditEvent.objects.filter(verb=Verb.ACCESS_REFUSED).count()


@pytest.mark.parametrize("name", sorted(TABLE))
def test_the_table_names_no_address_that_is_gone(name: str) -> None:
    assert name in ADDRESSES


ACTIONS = [(model, action) for model, page in admin.site._registry.items() for action in page.actions or ()]


class TestActions:
    def test_every_action_of_the_console_names_its_permission(self) -> None:
        for page in admin.site._registry.values():
            for function, name, _description in page._get_base_actions():
                assert getattr(function, "allowed_permissions", None), f"{page}: {name}"

    @pytest.mark.parametrize("who", ["auditor", "operator", "admin"])
    @pytest.mark.parametrize("page", admin.site._registry.values(), ids=str)
    def test_what_is_not_in_the_list_does_nothing(self, world: World, page: Any, who: str) -> None:
        """`delete_selected`, forged, on every page; for the administrator where nothing may be deleted."""
        name = f"{page.model._meta.app_label}_{page.model._meta.model_name}"
        if who == "admin" and name in ("accounts_user", "auth_group", "knox_authtoken"):
            pytest.skip("the administrator may delete these")
        before = rows()
        form = {"action": "delete_selected", "_selected_action": [str(world.keys[name])], "post": "yes", "index": "0"}
        world.clients[who].post(f"/admin/{name.replace('_', '/')}/", form)
        assert rows() == before

    @pytest.mark.parametrize(
        ("who", "word"),
        list(zip(PEOPLE, f"{PAGE} {OPERATOR}".split(), strict=True)),
    )
    @pytest.mark.parametrize("across", ["0", "1"])
    def test_planning_a_bulk_replay(self, world: World, who: str, word: str, across: str) -> None:
        before, count = rows(), _refusals()
        form = {"action": "plan_replay", "_selected_action": [str(world.receipt.pk)], "select_across": across}
        response = world.clients[who].post("/admin/receipts/receipt/", form)
        assert outcome(response) + "*" * (_refusals() - count) == word
        assert rows() == before


FORMS = [name for name in TABLE if not name.startswith(("api", "^")) and "POST" in " ".join(TABLE[name])]


@pytest.mark.parametrize("name", FORMS)
def test_no_form_is_taken_without_its_token(world: World, name: str) -> None:
    """Cross-site request forgery: the administrator's own browser, and a page of somebody else's."""
    client = Client(headers={"host": "localhost"}, enforce_csrf_checks=True)
    client.force_login(world.people["admin"], backend="receipts_project.accounts.backends.RoleBackend")
    before = rows()
    response = client.post(address(world, name), forged(world, name))
    assert response.status_code == 403 or name in NO_FORM, response.status_code
    assert rows() == before


#: They change nothing: Django leads on, or there is nothing.
NO_FORM = {name for name in ADDRESSES if name.endswith("<path:object_id>/")} | {
    "admin:view_on_site",
    "admin:app_list",
    "admin/(?P<url>.*)$",
}


@pytest.mark.django_db
def test_knows_every_person_of_the_demo() -> None:
    """(And has pytest-django make the database, which the module's one world stands in.)"""
    assert set(factories.Group.objects.values_list("name", flat=True)) == {LEADS, AUDITORS, OPERATORS}
