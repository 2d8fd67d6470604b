"""Replay and retry on a receipt's page: a dry run that writes nothing, one new receipt, and the other verb apart."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from receipts import ledger
from receipts.models import AuditEvent, Receipt
from receipts.replay import replay
from receipts_project.accounts.models import User
from tests.admin.conftest import Console
from tests.flow.provider import GOOD, Provider
from tests.pressing import pressed, refused_by_its_ticket, rows
from tickets.models import Member, Ticket

LIST = "/admin/receipts/receipt/"
WHY = "The provider was down last night."


def page(receipt: Receipt) -> str:
    return f"{LIST}{receipt.pk}/change/"


def confirm(receipt: Receipt) -> str:
    return f"{LIST}{receipt.pk}/replay/"


def retry(receipt: Receipt) -> str:
    return f"{LIST}{receipt.pk}/retry/"


def text(response: Any) -> str:
    """As a person reads it: without tags, with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", html.unescape(response.content.decode())).split())


@pytest.fixture
def failed(alice: User, provider: Provider) -> Receipt:
    provider.fails(500)
    receipt = pressed(alice)
    provider.says(GOOD)
    return receipt


@pytest.fixture
def refused(alice: User, provider: Provider) -> Receipt:
    return refused_by_its_ticket(alice)


def press(client: Any, receipt: Receipt, **form: str) -> Any:
    """The form as the page gives it, filled in."""
    return client.post(
        confirm(receipt), {"reason": WHY, "contract": receipt.contract, "expected_replay_no": "1", **form}, follow=True
    )


class TestDryRun:
    def test_says_what_would_happen_and_writes_nothing(
        self, console: Console, operator: User, refused: Receipt
    ) -> None:
        before = rows()
        shown = text(console(operator).get(confirm(refused)))
        assert "A new run with a new receipt , replay 1 of" in shown
        assert "by you, on behalf of alice" in shown
        assert "Same arguments, without the model" in shown
        assert "Draft again with the sealed input" in shown
        assert rows() == before

    def test_takes_the_way_that_is_possible(self, console: Console, operator: User, refused: Receipt) -> None:
        Member.objects.filter(pk=refused.arguments_json["assignee"]).update(active=False)
        response = console(operator).get(confirm(refused))
        assert "Not possible: The assignee in the kept arguments is not an active member" in text(response)
        chosen = re.findall(r'name="mode" value="(\w+)" checked', response.content.decode())
        assert chosen == ["draft_again"]

    def test_says_why_not_and_offers_no_button(self, console: Console, operator: User, failed: Receipt) -> None:
        Ticket.objects.update(status="closed")
        response = console(operator).get(confirm(failed))
        assert "A replay would be refused: The ticket refuses. The ticket is closed." in text(response)
        assert 'name="reason"' not in response.content.decode()

    def test_links_the_receipt_that_speaks(self, console: Console, operator: User, failed: Receipt) -> None:
        press(console(operator), failed)
        new = Receipt.objects.get(replay_of=failed)
        response = console(operator).get(confirm(failed))
        assert "A replay would be refused: Already applied." in text(response)
        assert page(new) in response.content.decode()
        assert f"replayed by {operator.username}" in text(response)

    def test_another_contract_is_a_choice_of_its_own(self, console: Console, operator: User, failed: Receipt) -> None:
        client = console(operator)
        shown = text(client.get(confirm(failed)))
        assert "due_on is new, and has to be there" in shown
        assert "under file_followup@1 : by you" in shown
        newer = text(client.get(confirm(failed), {"contract": "file_followup@2"}))
        assert "under file_followup@2 , which is not the contract it was opened with" in newer

    @pytest.mark.parametrize("contract", ["file_followup@99", "close_ticket@1", "x", "file_followup@" + "9" * 5000])
    def test_contract_that_cannot_be_meant(
        self, console: Console, operator: User, failed: Receipt, contract: str
    ) -> None:
        response = console(operator).get(confirm(failed), {"contract": contract})
        assert response.status_code == 200
        assert "A replay would be refused" in text(response)

    def test_nothing_is_inline(self, console: Console, operator: User, failed: Receipt) -> None:
        source = console(operator).get(confirm(failed)).content.decode()
        assert "<style" not in source
        assert " style=" not in source
        assert not re.search(r"<script(?![^>]*src=)", source)


class TestReplay:
    def test_leads_to_the_new_receipt_and_says_what_became_of_it(
        self, console: Console, operator: User, failed: Receipt
    ) -> None:
        response = press(console(operator), failed)

        new = Receipt.objects.get(replay_of=failed)
        assert response.redirect_chain == [(page(new), 303)]
        assert f"{failed.number} was replayed as {new.number}. Filed as {new.result_ref}." in text(response)
        assert (new.user_id, new.on_behalf_of_id, new.replay_reason) == (operator.pk, failed.user_id, WHY)

    def test_success_is_said_of_an_applied_row_alone(
        self, console: Console, operator: User, failed: Receipt, provider: Provider
    ) -> None:
        provider.fails(500)
        response = press(console(operator), failed)
        assert [str(message.level_tag) for message in response.context["messages"]] == ["warning"]
        assert "The model provider is unavailable." in text(response)

    def test_runs_what_was_chosen(self, console: Console, operator: User, refused: Receipt, provider: Provider) -> None:
        calls = provider.calls
        provider.says(GOOD | {"due_on": None})
        press(console(operator), refused, mode="draft_again", contract="file_followup@2")
        new = Receipt.objects.get(replay_of=refused)
        assert (new.contract, provider.calls - calls) == ("file_followup@2", 1)

    def test_the_second_click_leads_to_the_first_ones_receipt(
        self, console: Console, operator: User, failed: Receipt
    ) -> None:
        first = replay(user=operator, receipt=failed, reason=WHY, queued=True).receipt
        response = press(console(operator), failed)
        assert response.redirect_chain == [(page(first), 303)]
        assert f"{failed.number} was not replayed by you now." in text(response)
        assert f"replayed by {operator.username}" in text(response)
        assert Receipt.objects.count() == 2

    @pytest.mark.parametrize(
        "form",
        [{"reason": " "}, {"reason": "x" * 501}, {"expected_replay_no": ""}, {"expected_replay_no": "9" * 99},
         {"mode": "again"}, {"contract": "close_ticket@1"}],
    )  # fmt: skip
    def test_gives_the_form_back(self, console: Console, operator: User, failed: Receipt, form: dict[str, str]) -> None:
        response = press(console(operator), failed, **form)
        assert response.status_code == 400
        assert Receipt.objects.count() == 1

    def test_keeps_what_was_written(self, console: Console, operator: User, failed: Receipt) -> None:
        response = press(console(operator), failed, expected_replay_no="")
        assert f">{WHY}</textarea>" in response.content.decode()

    def test_needs_the_csrf_token(self, console: Console, operator: User, failed: Receipt) -> None:
        client = console(operator)
        client.handler.enforce_csrf_checks = True
        assert client.post(confirm(failed), {"reason": WHY, "expected_replay_no": "1"}).status_code == 403
        assert client.post(retry(failed)).status_code == 403
        assert Receipt.objects.get().attempt == 1


class TestPage:
    def test_tells_of_the_replay_from_the_child(self, console: Console, operator: User, failed: Receipt) -> None:
        before = rows()[0]
        press(console(operator), failed)
        new = Receipt.objects.get(replay_of=failed)
        shown = text(console(operator).get(page(failed)))
        assert f"Replayed as {new.number} applied by {operator.username}" in shown
        assert f"because “{WHY}”" in shown
        assert rows()[0] == before

    def test_shows_the_lineage_as_a_tree(
        self, console: Console, operator: User, failed: Receipt, provider: Provider
    ) -> None:
        provider.fails(500)
        press(console(operator), failed)
        first = Receipt.objects.get(replay_of=failed)
        provider.says(GOOD)
        press(console(operator), first)
        second = Receipt.objects.get(replay_of=first)
        for one in (failed, first, second):
            source = console(operator).get(page(one)).content.decode()
            tree = source[source.index('<ul class="lineage">') :]
            assert tree.index(failed.number) < tree.index(first.number) < tree.index(second.number)
            assert tree.count('aria-current="true"') == 1

    def test_a_reason_is_shown_harmless(self, console: Console, operator: User, failed: Receipt) -> None:
        press(console(operator), failed, reason="<script>alert(1)</script>")
        assert "<script>alert(1)" not in console(operator).get(page(failed)).content.decode()


class TestRetry:
    def test_is_the_same_receipt_in_other_words(self, console: Console, operator: User, failed: Receipt) -> None:
        client = console(operator)
        assert "Retry: same receipt, attempt 2" in text(client.get(page(failed)))

        response = client.post(retry(failed), follow=True)

        assert response.redirect_chain == [(page(failed), 303)]
        row = Receipt.objects.get()
        assert (row.attempt, row.status, row.actor_id) == (2, "applied", operator.pk)
        assert f"{failed.number} was tried again, attempt 2. Filed as {row.result_ref}." in text(response)
        assert list(AuditEvent.objects.values_list("verb", "actor")) == [("retry", operator.pk)]

    def test_an_operator_retries_a_replay_of_their_own(
        self, console: Console, operator: User, failed: Receipt, provider: Provider
    ) -> None:
        provider.fails(500)
        press(console(operator), failed)
        provider.says(GOOD)
        new = Receipt.objects.get(replay_of=failed)
        console(operator).post(retry(new))
        assert Receipt.objects.get(pk=new.pk).status == "applied"

    def test_is_not_offered_where_nothing_would_run(self, console: Console, operator: User, refused: Receipt) -> None:
        client = console(operator)
        assert "Retry:" not in text(client.get(page(refused)))
        assert "nothing was tried again" in text(client.post(retry(refused), follow=True))
        assert Receipt.objects.get().attempt == 1

    def test_names_the_receipt_that_superseded_it(self, console: Console, operator: User, failed: Receipt) -> None:
        new = replay(user=operator, receipt=failed, reason=WHY, queued=True).receipt
        response = console(operator).post(retry(failed), follow=True)
        assert "was not tried again." in text(response)
        assert page(new) in response.content.decode()

    def test_get_does_nothing(self, console: Console, operator: User, failed: Receipt) -> None:
        assert console(operator).get(retry(failed)).status_code == 405


class TestWhoMay:
    """URL × who. Whoever does not get into the console is sent to its door."""

    DOOR = [(None, 302), ("alice", 302), ("bob", 302), ("auditor", 403)]

    def client(self, console: Console, who: str | None, request: Any) -> Any:
        from django.test import Client

        return console(request.getfixturevalue(who)) if who else Client(headers={"host": "localhost"})

    @pytest.mark.parametrize(("who", "status"), [*DOOR, ("operator", 200), ("root", 200)])
    def test_opens_the_dry_run(
        self, console: Console, failed: Receipt, who: str | None, status: int, request: Any
    ) -> None:
        assert self.client(console, who, request).get(confirm(failed)).status_code == status

    @pytest.mark.parametrize(("who", "status"), [*DOOR, ("operator", 303), ("root", 303)])
    @pytest.mark.parametrize("address", [confirm, retry])
    def test_presses(
        self, console: Console, failed: Receipt, address: Any, who: str | None, status: int, request: Any
    ) -> None:
        before = rows()
        form = {"reason": WHY, "contract": failed.contract, "expected_replay_no": "1"}
        response = self.client(console, who, request).post(address(failed), form)
        assert response.status_code == status
        if status == 303:
            return
        events = AuditEvent.objects.filter(verb="access_refused")
        at_the_door = [None] if who else []  # of the receipt nothing was said; nobody knows who was not signed in
        assert [event.receipt_id for event in events] == ([failed.pk] if status == 403 else at_the_door)
        assert len(rows()) == len(before) + len(events)
        if status == 403:
            assert "Your role does not include this" in text(response)
            assert "Nothing was run" in text(response)

    def test_an_auditor_is_offered_neither(self, console: Console, auditor: User, failed: Receipt) -> None:
        shown = text(console(auditor).get(page(failed)))
        assert "Replay as a new receipt" not in shown
        assert "Retry:" not in shown

    @pytest.mark.parametrize("key", ["00000000-0000-7000-8000-000000000000", "x"])
    def test_no_such_receipt(self, console: Console, operator: User, key: str) -> None:
        assert console(operator).get(f"{LIST}{key}/replay/").status_code in (302, 404)


def test_a_page_of_a_lineage_costs_no_query_a_replay(
    console: Console, operator: User, failed: Receipt, provider: Provider, django_assert_max_num_queries: Any
) -> None:
    provider.fails(500)
    for number in range(3):
        replay_now(operator, failed, number + 1)
    client = console(operator)
    client.get(page(failed))
    with django_assert_max_num_queries(22):
        client.get(page(failed))


def replay_now(operator: User, receipt: Receipt, number: int) -> None:
    from receipts import flow

    flow.wait(replay(user=operator, receipt=ledger.read(receipt.pk) or receipt, reason=WHY, expected_no=number))


def test_every_action_of_the_console_names_its_permission() -> None:
    """An action without `permissions` is open to whoever may open the list."""
    from django.contrib import admin

    for model, owner in admin.site._registry.items():
        if model._meta.app_label == "receipts":
            for action, name, _description in owner._get_base_actions() if owner.actions is not None else ():
                assert getattr(action, "allowed_permissions", None), (model, name)
