"""Bulk replay in the console: the plan says what would happen, the page what has happened; who may not is told so."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client

from receipts import bulk_replays
from receipts.bulk_plans import plan
from receipts.models import AuditEvent, BulkReplay, Receipt
from receipts_project.accounts.models import User
from tests import factories
from tests.admin.conftest import Console
from tests.admin.test_replay import text
from tests.flow.provider import Provider
from tests.flow.stale import drafts_for_any
from tests.pressing import pressed, pressed_on_tickets_of_their_own, rows
from tickets.models import Ticket

LIST = "/admin/receipts/receipt/"
START = "/admin/receipts/bulkreplay/start/"
WHY = "The provider was down last night."


@pytest.fixture
def failed(alice: User, provider: Provider) -> list[Receipt]:
    """Three receipts of a ticket each."""
    provider.fails(400)
    receipts = pressed_on_tickets_of_their_own(alice, 3)
    drafts_for_any(provider)
    return receipts


@pytest.fixture
def bulk(failed: list[Receipt], operator: User) -> BulkReplay:
    return bulk_replays.start(user=operator, plan=plan(failed, {"selected": "3 receipts"}), reason=WHY)


def planned(client: Client, receipts: list[Receipt], query: str = "", **form: str) -> Any:
    """The list's action over these, or over all that match."""
    ticked = [str(receipt.pk) for receipt in receipts]
    return client.post(f"{LIST}{query}", {"action": "plan_replay", "index": "0", "_selected_action": ticked, **form})


def sealed(response: Any) -> str:
    found = re.search(r'name="plan" value="([^"]+)"', response.content.decode())
    assert found
    return html.unescape(found[1])


def page(bulk: BulkReplay) -> str:
    return f"/admin/receipts/bulkreplay/{bulk.pk}/change/"


def finish(bulk: BulkReplay) -> None:
    """What workers do, here and now."""
    from receipts import queued

    while bulk_replays.carry_on(bulk.pk):
        for receipt in Receipt.objects.filter(bulk_item__bulk=bulk, status="pending"):
            inflight = queued.begin_queued(receipt.pk, receipt.attempt)
            assert inflight is not None
            inflight.wait(30)


class TestPlan:
    def test_counts_by_verdict_and_writes_nothing(
        self, console: Console, operator: User, failed: list[Receipt]
    ) -> None:
        Ticket.objects.filter(pk=failed[1].subject).update(status="closed")
        before = rows()
        shown = text(planned(console(operator), failed))
        assert "2 of 3 receipts would be replayed" in shown
        assert "1 left out . Opening this page has run nothing." in shown or "1 left out. Opening" in shown
        assert "2 of them would be drafted again" in shown
        assert "left out: The ticket refuses The ticket is closed." in shown
        assert rows() == before
        assert not BulkReplay.objects.exists()

    def test_newest_refusals_come_first(self, console: Console, operator: User, failed: list[Receipt]) -> None:
        Ticket.objects.update(status="closed")
        shown = text(planned(console(operator), failed))
        assert shown.index(failed[2].number) < shown.index(failed[1].number) < shown.index(failed[0].number)
        assert "Replay 0" not in shown

    def test_all_that_match_the_filter(
        self, console: Console, operator: User, failed: list[Receipt], alice: User
    ) -> None:
        factories.applied(alice)
        response = planned(console(operator), failed[:1], "?outcome=failed&within=day", select_across="1")
        shown = text(response)
        assert "3 of 3 receipts would be replayed" in shown
        assert "3 receipts, all that match" in shown
        assert "outcome failed" in shown
        assert re.search(r"time last 24 hours, since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", shown)
        assert re.search(r"as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", shown)

    def test_has_a_cap_and_says_so(
        self, console: Console, operator: User, failed: list[Receipt], settings: Any
    ) -> None:
        settings.BULK_REPLAY_MAX = 2
        client = console(operator)
        assert planned(client, failed).status_code == 302
        assert "one bulk replay takes 2 at most. Nothing was planned" in text(client.get(LIST))

    def test_tells_of_receipts_that_are_alike(
        self, console: Console, operator: User, failed: list[Receipt], alice: User, provider: Provider
    ) -> None:
        provider.fails(400)
        twice = pressed(alice, failed[0].subject)
        assert "1 more than once:" in text(planned(console(operator), [*failed, twice]))

    def test_nothing_is_inline(self, console: Console, operator: User, bulk: BulkReplay, failed: list[Receipt]) -> None:
        for response in (planned(console(operator), failed), console(operator).get(page(bulk))):
            source = response.content.decode()
            assert "<style" not in source
            assert " style=" not in source
            assert not re.search(r"<script(?![^>]*src=)", source)


class TestStart:
    def test_freezes_what_was_shown(self, console: Console, operator: User, failed: list[Receipt]) -> None:
        client = console(operator)
        shown = planned(client, failed[:2], "?outcome=failed")
        response = client.post(START, {"plan": sealed(shown), "reason": WHY}, follow=True)

        bulk = BulkReplay.objects.get()
        assert response.redirect_chain == [(page(bulk), 303)]
        assert [item.receipt for item in bulk.items.order_by("position")] == failed[:2]
        assert (bulk.reason, bulk.filter["outcome"]) == (WHY, "failed")
        assert f"Bulk replay {bulk} is started. Nothing is filed yet" in text(response)
        assert "0 replayed. 2 not begun." in text(response)

    def test_two_clicks_are_one(self, console: Console, operator: User, failed: list[Receipt]) -> None:
        client = console(operator)
        form = {"plan": sealed(planned(client, failed)), "reason": WHY}
        first, second = client.post(START, form), client.post(START, form)
        assert first["Location"] == second["Location"]
        assert BulkReplay.objects.count() == 1

    def test_gives_the_plan_back_without_a_reason(
        self, console: Console, operator: User, failed: list[Receipt]
    ) -> None:
        client = console(operator)
        response = client.post(START, {"plan": sealed(planned(client, failed)), "reason": " "})
        assert response.status_code == 400
        assert "3 of 3 receipts would be replayed" in text(response)
        assert not BulkReplay.objects.exists()

    def test_takes_no_plan_but_its_own(
        self, console: Console, operator: User, root: User, failed: list[Receipt]
    ) -> None:
        theirs = sealed(planned(console(root), failed))
        for forged in (theirs, "x", ""):
            response = console(operator).post(START, {"plan": forged, "reason": WHY}, follow=True)
            assert "This is not a plan of yours. Nothing was run." in text(response)
        assert not BulkReplay.objects.exists()

    def test_needs_the_csrf_token(self, console: Console, operator: User, bulk: BulkReplay) -> None:
        client = console(operator)
        client.handler.enforce_csrf_checks = True
        for address in (LIST, START, page(bulk).replace("change", "stop")):
            assert client.post(address, {"plan": "x", "reason": WHY}).status_code == 403


class TestPage:
    def test_counts_what_has_happened(
        self, console: Console, operator: User, bulk: BulkReplay, failed: list[Receipt]
    ) -> None:
        Ticket.objects.filter(pk=failed[1].subject).update(status="closed")
        finish(bulk)
        shown = text(console(operator).get(page(bulk)))
        assert "3 of 3 have their end. Ended." in shown
        assert "2 replayed: 2 applied. 1 refused at their turn." in shown
        assert "The ticket is closed." in shown
        new = Receipt.objects.get(replay_of=failed[0])
        assert new.number in shown
        assert f"Filed as {new.result_ref}." in shown

    def test_a_new_receipt_names_its_bulk_replay(
        self, console: Console, operator: User, bulk: BulkReplay, failed: list[Receipt]
    ) -> None:
        finish(bulk)
        new = Receipt.objects.get(replay_of=failed[0])
        assert page(bulk) in console(operator).get(f"{LIST}{new.pk}/change/").content.decode()

    def test_moves_by_its_fragment_and_without_script(self, console: Console, operator: User, bulk: BulkReplay) -> None:
        client = console(operator)
        source = client.get(page(bulk)).content.decode()
        assert '<meta http-equiv="refresh" content="5">' in source
        fragment = client.get(page(bulk).replace("change", "progress"))
        assert "<html" not in fragment.content.decode()
        assert "data-finished" not in fragment.content.decode()
        finish(bulk)
        assert "data-finished" in client.get(page(bulk).replace("change", "progress")).content.decode()
        assert "http-equiv" not in client.get(page(bulk)).content.decode()

    def test_shows_items_by_state(
        self, console: Console, operator: User, bulk: BulkReplay, failed: list[Receipt]
    ) -> None:
        Ticket.objects.filter(pk=failed[1].subject).update(status="closed")
        finish(bulk)
        source = console(operator).get(page(bulk), {"state": "refused"}).content.decode()
        table = source[source.index("Receipt by receipt") :]
        assert failed[1].number in table
        assert failed[0].number not in table
        for mischief in ({"state": "x\0"}, {"p": "x"}, {"p": "9" * 99}):
            assert console(operator).get(page(bulk), mischief).status_code == 200

    def test_stops(self, console: Console, operator: User, bulk: BulkReplay) -> None:
        client = console(operator)
        assert "Stop: let nothing more begin" in text(client.get(page(bulk)))
        stop = page(bulk).replace("change", "stop")
        response = client.post(stop, follow=True)
        assert "Stopped: 3 receipts had not begun and will not." in text(response)
        assert "3 stopped before their turn." in text(response)
        assert "had ended or was stopped before" in text(client.post(stop, follow=True))
        assert "Stop: let nothing more begin" not in text(client.get(page(bulk)))

    def test_lists_them(self, console: Console, auditor: User, bulk: BulkReplay) -> None:
        shown = text(console(auditor).get("/admin/receipts/bulkreplay/"))
        assert str(bulk) in shown
        assert "Waits for a worker." in shown
        assert WHY in shown

    @pytest.mark.parametrize("key", ["x", "00000000-0000-7000-8000-000000000000"])
    @pytest.mark.parametrize("what", ["change", "progress"])
    def test_no_such_bulk_replay(self, console: Console, operator: User, key: str, what: str) -> None:
        assert console(operator).get(f"/admin/receipts/bulkreplay/{key}/{what}/").status_code in (302, 404)


class TestWhoMay:
    """URL × who, with forged posts."""

    DOOR = [(None, 302), ("alice", 302), ("bob", 302)]

    @pytest.fixture
    def someone(self, console: Console, request: Any) -> Any:
        return lambda who: console(request.getfixturevalue(who)) if who else Client(headers={"host": "localhost"})

    @pytest.mark.parametrize(("who", "status"), [*DOOR, ("auditor", 403), ("operator", 200), ("root", 200)])
    @pytest.mark.parametrize("across", ["0", "1"])
    def test_plans(self, someone: Any, failed: list[Receipt], who: str | None, status: int, across: str) -> None:
        assert planned(someone(who), failed, select_across=across).status_code == status
        self.was_refused(who, status)

    @pytest.mark.parametrize(("who", "status"), [*DOOR, ("auditor", 403), ("operator", 303), ("root", 303)])
    def test_starts(self, someone: Any, failed: list[Receipt], request: Any, who: str | None, status: int) -> None:
        user = request.getfixturevalue(who or "operator")
        form = {"plan": plan(failed, {}).seal(user), "reason": WHY}
        response = someone(who).post(START, form)
        assert response.status_code == status
        assert BulkReplay.objects.exists() == (status == 303)
        self.was_refused(who, status)
        if status == 403:
            assert "Your role does not include this: replay receipts in bulk. Nothing was run" in text(response)

    @pytest.mark.parametrize(("who", "status"), [*DOOR, ("auditor", 403), ("operator", 303), ("root", 303)])
    def test_stops(self, someone: Any, bulk: BulkReplay, who: str | None, status: int) -> None:
        assert someone(who).post(page(bulk).replace("change", "stop")).status_code == status
        bulk.refresh_from_db()
        assert (bulk.stop_requested_at is not None) == (status == 303)
        self.was_refused(who, status)

    @pytest.mark.parametrize(("who", "status"), [*DOOR, ("auditor", 200), ("operator", 200), ("root", 200)])
    @pytest.mark.parametrize("what", ["change", "progress"])
    def test_looks(self, someone: Any, bulk: BulkReplay, who: str | None, status: int, what: str) -> None:
        assert someone(who).get(page(bulk).replace("change", what)).status_code == status

    @pytest.mark.parametrize("who", ["auditor", "operator", "root"])
    def test_nobody_changes_or_deletes(self, someone: Any, bulk: BulkReplay, who: str) -> None:
        client = someone(who)
        before = list(BulkReplay.objects.values())
        for what in ("change", "delete"):
            assert client.post(page(bulk).replace("change", what), {"reason": "x", "post": "yes"}).status_code == 403
        assert client.post("/admin/receipts/bulkreplay/add/", {"reason": "x"}).status_code == 403
        assert list(BulkReplay.objects.values()) == before

    @pytest.mark.parametrize("what", ["start", "stop"])
    def test_get_does_nothing(self, console: Console, operator: User, bulk: BulkReplay, what: str) -> None:
        address = START if what == "start" else page(bulk).replace("change", what)
        assert console(operator).get(address).status_code == 405

    def test_an_auditor_is_offered_nothing(self, console: Console, auditor: User, bulk: BulkReplay) -> None:
        assert "Plan a replay" not in text(console(auditor).get(LIST))
        assert "Stop:" not in text(console(auditor).get(page(bulk)))

    def was_refused(self, who: str | None, status: int) -> None:
        """On record, at the console's door too; of nobody who is not signed in."""
        events = AuditEvent.objects.filter(verb="access_refused")
        name = "ines" if who == "auditor" else who
        assert [event.actor.username for event in events if event.actor] == (
            [name] if who and status in (302, 403) else []
        )
