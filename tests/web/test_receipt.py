"""Why did this happen: the receipt page, its retry, and the list of receipts."""

from __future__ import annotations

import html
import json
import re
import uuid

import pytest
from django.test import Client

from receipts import flow
from receipts.models import Receipt
from receipts.replay import replay
from receipts_project.accounts.models import User
from tests.flow.provider import GOOD, Provider
from tests.web.conftest import press, signed_in, text_of
from tickets.models import Followup


def section(page: str, title: str) -> str:
    """The text of one card of the page."""
    found = re.search(rf'<section[^>]*>\s*<h2 id="[^"]+">{re.escape(title)}</h2>(.*?)</section>', page, re.DOTALL)
    assert found, title
    return found[1]


class TestFiled:
    def test_keeps_the_models_decision_apart_from_the_tools_result(self, lead: Client) -> None:
        page = text_of(lead.get(press(lead)["Location"]))
        assert GOOD["summary"] in section(page, "What the model proposed")
        assert "Passed every gate" in section(page, "What the model proposed")
        followup = Followup.objects.get()
        assert f"Filed {followup.pk}" in section(page, "What the tool did")

    def test_says_who_decided_each_field_and_what_became_of_the_proposal(self, lead: Client) -> None:
        table = section(text_of(lead.get(press(lead)["Location"])), "Each field, and who decided it")
        assert {name: (applied, author) for name, (_proposed, applied, author) in cells(table).items()} == {
            "ticket_id": ("As proposed", "the route"),
            "summary": ("As proposed", "the model"),
            "assignee": ("As proposed", "the model"),
            "Result": (Followup.objects.get().pk, "the server"),
            "In the name of": ("alice", "the sign-in, read by the server"),
        }
        assert cells(table)["summary"][0] == GOOD["summary"]
        assert cells(table)["Result"][0] == "—"

    def test_holds_the_receipt_as_json_to_copy(self, lead: Client) -> None:
        address = press(lead)["Location"]
        held = re.search(r'<pre [^>]*id="json"[^>]*>(.*?)</pre>', text_of(lead.get(address)), re.DOTALL)
        assert held
        assert json.loads(html.unescape(held[1])) == lead.get(f"/api/v1{address}").json()

    def test_tells_the_time_line_and_the_figures(self, lead: Client) -> None:
        page = text_of(lead.get(press(lead)["Location"]))
        line = section(page, "What happened when")
        assert line.index("written as pending") < line.index("Attempt 1 began") < line.index("Filed, and stamped")
        figures = section(page, "Figures")
        for text in ("file_followup@1", "test-model", "7, 5", str(Receipt.objects.get().pk)):
            assert text in figures

    def test_offers_no_retry(self, lead: Client) -> None:
        assert "Press again" not in text_of(lead.get(press(lead)["Location"]))


class TestFailed:
    def test_shows_what_was_proposed_and_that_nothing_of_it_was_applied(self, lead: Client, provider: Provider) -> None:
        provider.says(GOOD | {"ticket_id": "TCK-1009"})
        table = section(text_of(lead.get(press(lead)["Location"])), "Each field, and who decided it")
        assert cells(table)["ticket_id"] == ("TCK-1009", "Nothing", "nobody: it was refused")
        assert "Result" not in cells(table)

    def test_says_what_happened_whose_turn_it_is_and_what_to_do(self, lead: Client, provider: Provider) -> None:
        provider.fails(503)
        page = text_of(lead.get(press(lead)["Location"]))
        assert "The model provider is unavailable." in page
        assert "<dd>the system</dd>" in page
        assert "Press again in a moment." in page
        assert "No change was made" in section(page, "What the tool did")

    def test_its_owner_presses_again_on_the_same_receipt(self, lead: Client, provider: Provider) -> None:
        provider.fails(503)
        address = press(lead)["Location"]
        assert "Press again, same receipt" in text_of(lead.get(address))
        provider.says(GOOD)
        answer = lead.post(f"{address}/retry")
        assert (answer.status_code, answer["Location"]) == (303, address)
        receipt = Receipt.objects.get()
        assert (receipt.status, receipt.attempt) == ("applied", 2)
        page = text_of(lead.get(address))
        assert "<strong>Filed</strong>" in page
        assert "Attempt 1 ended. The model provider is unavailable." in page

    def test_a_permanent_failure_offers_the_notes_instead(self, lead: Client, provider: Provider) -> None:
        provider.says("Sure! All done.")
        address = press(lead, "Notes worth keeping")["Location"]
        page = text_of(lead.get(address))
        assert "Press again, same receipt" not in page
        again = re.search(r'href="(/tickets/TCK-1008\?notes_of=[^"#]+)', page)
        assert again
        assert "Notes worth keeping" in text_of(lead.get(again[1]))

    def test_model_output_is_shown_as_text(self, lead: Client, provider: Provider) -> None:
        provider.says({"ticket_id": "TCK-1009", "summary": "<script>alert(1)</script> and more", "assignee": "ada"})
        page = text_of(lead.get(press(lead)["Location"]))
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page


class TestWhoSees:
    def test_a_colleague_gets_the_404_of_a_receipt_that_is_not_there(
        self, lead: Client, bob: User, provider: Provider
    ) -> None:
        provider.fails(503)
        address = press(lead)["Location"]
        nowhere = f"/receipts/{uuid.uuid4()}"
        for method in ("get", "post"):
            suffix = "/retry" if method == "post" else ""
            theirs = getattr(signed_in(bob), method)(address + suffix)
            nobodys = getattr(signed_in(bob), method)(nowhere + suffix)
            assert theirs.status_code == nobodys.status_code == 404

    def test_a_colleague_does_not_get_the_notes(self, lead: Client, bob: User, provider: Provider) -> None:
        provider.says("Sure!")
        press(lead, "Private notes")
        page = signed_in(bob).get(f"/tickets/TCK-1008?notes_of={Receipt.objects.get().pk}")
        assert "Private notes" not in text_of(page)

    def test_an_auditor_reads_every_receipt_and_retries_none(
        self, lead: Client, auditor: User, provider: Provider
    ) -> None:
        provider.fails(503)
        address = press(lead)["Location"]
        client = signed_in(auditor)
        assert "Press again, same receipt" not in text_of(client.get(address))
        assert client.post(f"{address}/retry").status_code == 403
        assert address in text_of(client.get("/receipts"))

    def test_an_operator_retries_a_leads_receipt(self, lead: Client, operator: User, provider: Provider) -> None:
        provider.fails(503)
        address = press(lead)["Location"]
        provider.says(GOOD)
        signed_in(operator).post(f"{address}/retry")
        assert Receipt.objects.get().status == "applied"
        assert "oscar" in section(text_of(lead.get(address)), "What happened when")


def cells(table: str) -> dict[str, tuple[str, ...]]:
    """Field → (proposed, applied, author)."""
    rows = re.findall(r'<tr data-field="([^"]+)">(.*?)</tr>', table, re.DOTALL)
    return {name: tuple(re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)) for name, row in rows}


class TestList:
    def test_can_be_narrowed_by_state_ticket_and_time(self, lead: Client, provider: Provider) -> None:
        press(lead)
        provider.fails(503)
        press(lead, ticket="TCK-1009")
        filed, not_filed = Receipt.objects.get(status="applied"), Receipt.objects.get(status="failed")
        for query, shown in {
            "": {filed, not_filed},
            "status=applied": {filed},
            "status=failed": {not_filed},
            "status=pending": set(),
            "ticket=tck-1009": {not_filed},
            "within=day&status=failed": {not_filed},
            "status=nonsense&ticket=%00&within=ever&cursor=garbled": {filed, not_filed},
        }.items():
            assert set(listed(text_of(lead.get(f"/receipts?{query}")))) == {str(row.pk) for row in shown}, query
        assert "No receipt matches" in text_of(lead.get("/receipts?status=pending"))
        page = text_of(lead.get("/receipts?ticket=TCK-1009&status=failed"))
        assert re.search(r'class="chip" href="\?status=failed">.*?Ticket: TCK-1009', page)

    def test_who_sees_all_can_ask_for_their_own(self, lead: Client, operator: User, provider: Provider) -> None:
        press(lead)
        client = signed_in(operator)
        assert listed(text_of(client.get("/receipts")))
        assert not listed(text_of(client.get("/receipts?who=me")))

    def test_lists_mine_newest_first_with_state_and_reason(self, lead: Client, bob: User, provider: Provider) -> None:
        press(lead)
        provider.fails(503)
        press(lead, ticket="TCK-1009")
        page = text_of(lead.get("/receipts"))
        assert page.index("TCK-1009") < page.index("TCK-1008")
        assert "<span>Filed</span>" in page
        assert "The model provider is unavailable." in page
        assert "No receipts yet" in text_of(signed_in(bob).get("/receipts"))


def listed(page: str) -> list[str]:
    return re.findall(r'class="row-title"><a href="/receipts/([0-9a-f-]+)"', page)


@pytest.mark.parametrize("address", ["/", "/tickets/TCK-1008", "/receipts", f"/receipts/{uuid.UUID(int=1)}"])
def test_every_page_asks_for_a_sign_in_first(db: None, address: str) -> None:
    answer = Client().get(address)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login?next=")


class TestReplays:
    WHY = "The provider was down last night."

    @pytest.fixture
    def replayed(self, lead: Client, alice: User, operator: User, desk: Provider) -> tuple[Receipt, Receipt]:
        desk.fails(500)
        press(lead)
        failed = Receipt.objects.get()
        desk.says(GOOD)
        return failed, flow.wait(replay(user=operator, receipt=failed, reason=self.WHY))

    def test_the_old_receipt_says_as_what_by_whom_and_why(
        self, lead: Client, replayed: tuple[Receipt, Receipt]
    ) -> None:
        failed, new = replayed
        page = text_of(lead.get(f"/receipts/{failed.pk}"))
        assert f'Replayed as <a href="/receipts/{new.pk}">{new.number}</a> by oscar' in page
        assert self.WHY in page
        assert "Nothing was filed on TCK-1008" in page

    def test_the_new_receipt_names_the_old_one_to_whom_it_is_for(
        self, lead: Client, replayed: tuple[Receipt, Receipt]
    ) -> None:
        failed, new = replayed
        page = text_of(lead.get(f"/receipts/{new.pk}"))
        assert f'This is replay 1 of <a href="/receipts/{failed.pk}">{failed.number}</a>' in page
