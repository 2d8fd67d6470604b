"""What the console adds to a list: filters in which something is typed, figures, last night's failures, saved views."""

from __future__ import annotations

import datetime as dt
import html
from typing import Any

import pytest
from django.utils import timezone

from receipts import ledger
from receipts.errors import ArgMismatch, FillFailed
from receipts.models import Receipt, Run, SavedView, Trigger
from receipts_project.accounts.models import User
from tests import factories
from tests.admin.conftest import Console
from tests.admin.test_console import LIST, page, rows
from tests.flow.provider import Provider
from tests.pressing import pressed, refused_by_its_ticket


def text(response: Any) -> str:
    assert response.status_code == 200, response.content
    return " ".join(html.unescape(response.content.decode()).split())


class TestFilters:
    @pytest.fixture
    def made(self, alice: User, bob: User) -> dict[str, str]:
        made = {
            "applied": factories.applied(alice),
            "failed": factories.failed(bob, ArgMismatch()),
            "timeout": factories.failed(alice, FillFailed(reason="provider_timeout"), ticket="TCK-1009"),
        }
        return {name: str(row.pk) for name, row in made.items()}

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ({"user": "bob"}, "failed"),
            ({"user": "nobody"}, ""),
            ({"ticket": " tck-1009 "}, "timeout"),
            ({"contract": "file_followup@1"}, "applied failed timeout"),
            ({"contract": "close_ticket@1"}, ""),
            ({"trigger": "press"}, "applied failed timeout"),
            ({"trigger": "schedule"}, ""),
            ({"replay": "has"}, ""),
            ({"replay": "none", "user": "alice"}, "applied timeout"),
            ({"attention": "unresolved"}, "failed timeout"),
            ({"error_reason": "-"}, "failed"),
            ({"from": "2001-01-01", "until": "2001-01-02", "zone": "UTC"}, ""),
            ({"from": "2001-01-01 10:00", "zone": "Europe/Helsinki"}, "applied failed timeout"),
            ({"from": "", "until": "", "zone": "UTC"}, "applied failed timeout"),
        ],
    )
    def test_find(
        self, console: Console, auditor: User, made: dict[str, str], query: dict[str, str], names: str
    ) -> None:
        assert rows(console(auditor).get(LIST, query)) == {made[name] for name in names.split()}

    @pytest.mark.parametrize(
        "query",
        [
            {"run": "x"},
            {"from": "yesterday"},
            {"from": "2026-01-01", "zone": "Mars/Olympus"},
            {"from": "9999-12-31T23:59:59-23:00"},
            {"user": "a\0b"},
            {"zone": "../../etc/passwd", "until": "2026-01-01"},
        ],
    )
    def test_what_cannot_be_meant_is_not_ignored(
        self, console: Console, auditor: User, made: dict[str, str], query: dict[str, str]
    ) -> None:
        assert console(auditor).get(LIST, query).status_code in (302, 400)

    def test_a_day_is_that_of_the_zone_and_half_open(self, console: Console, auditor: User, alice: User) -> None:
        receipt = factories.applied(alice)
        begin = receipt.created_at.astimezone(dt.timezone(dt.timedelta(hours=14))).replace(tzinfo=None)
        client, zone = console(auditor), "Pacific/Kiritimati"
        exact = begin.isoformat(sep=" ")
        assert rows(client.get(LIST, {"from": exact, "zone": zone})) == {str(receipt.pk)}
        assert rows(client.get(LIST, {"until": exact, "zone": zone})) == set()
        assert zone in client.get(LIST, {"until": exact, "zone": zone}).content.decode()

    def test_a_failure_that_a_replay_made_good_is_resolved(
        self, console: Console, operator: User, alice: User, provider: Provider
    ) -> None:
        receipt = refused_by_its_ticket(alice)
        client = console(operator)
        assert rows(client.get(LIST, {"attention": "unresolved"})) == {str(receipt.pk)}
        form = {"reason": "reopened", "contract": receipt.contract, "expected_replay_no": "1"}
        client.post(f"{LIST}{receipt.pk}/replay/", form)
        replay = Receipt.objects.get(replay_of=receipt)
        assert replay.status == "applied"
        assert rows(client.get(LIST, {"attention": "unresolved"})) == set()
        assert rows(client.get(LIST, {"replay": "has"})) == {str(receipt.pk)}
        assert rows(client.get(LIST, {"replay": "is"})) == {str(replay.pk)}
        assert rows(client.get(LIST, {"trigger": "replay"})) == {str(replay.pk)}
        timeline = text(client.get(page(receipt)))
        assert "replayed as a new receipt, now applied" in timeline


class TestFigures:
    def test_counts_what_the_list_shows(self, console: Console, auditor: User, alice: User, bob: User) -> None:
        factories.applied(alice)
        factories.failed(bob, ArgMismatch())
        factories.pending(bob)
        client = console(auditor)
        everything = client.get(f"{LIST}overview/").context
        assert everything["totals"] == {"applied": 1, "retryable": 0, "failed": 1, "pending": 1}
        assert [(cause["code"], cause["count"]) for cause in everything["causes"]] == [("arg_mismatch", 1)]
        assert everything["fill"]["count"] == Receipt.objects.filter(fill_ms__isnull=False).count()
        assert [age["count"] for age in everything["pending"]] == [1]
        of_bob = client.get(f"{LIST}overview/", {"user": "bob"}).context
        assert of_bob["totals"] == {"applied": 0, "retryable": 0, "failed": 1, "pending": 1}
        assert of_bob["fill"] is None

    def test_looks_at_seven_days_at_most_and_says_so(self, console: Console, auditor: User, alice: User) -> None:
        factories.applied(alice)
        shown = console(auditor).get(f"{LIST}overview/", {"within": "month"})
        assert "its last seven days" in text(shown)
        assert len(shown.context["chart"]["days"]) in (7, 8)

    def test_can_be_read_as_a_table_and_nothing_is_inline(self, console: Console, auditor: User, alice: User) -> None:
        factories.applied(alice)
        said = text(console(auditor).get(f"{LIST}overview/"))
        assert "The same as a table" in said
        assert " style=" not in said
        assert "<script>" not in said

    def test_refuses_what_the_list_does_not_know(self, console: Console, auditor: User) -> None:
        assert console(auditor).get(f"{LIST}overview/", {"outcome": "x"}).status_code == 400


class TestLastNight:
    def test_groups_by_cause_and_plans_exactly_these(
        self, console: Console, operator: User, alice: User, provider: Provider
    ) -> None:
        first, other = refused_by_its_ticket(alice), pressed(alice)
        assert other.status == "applied"
        night = Run.objects.create(
            workflow="nightly_stale_tickets",
            trigger=Trigger.SCHEDULE,
            actor=alice,
            started_at=timezone.now(),
            manifest={},
        )
        Run.objects.filter(pk__in=[first.run_id, other.run_id]).update(parent=night)
        refused_by_its_ticket(alice)  # of the same cause, and not of the night
        client = console(operator)
        shown = client.get(f"{LIST}last-night/")
        job = next(job for job in shown.context["jobs"] if job["run"])
        (cause,) = job["causes"]
        assert (cause["code"], cause["reason"], cause["count"]) == ("ticket_conflict", "ticket_closed", 1)
        assert cause["verdicts"] == ["1 receipt safe to replay: Same arguments, without the model"]
        assert rows(client.get(cause["list"])) == {str(first.pk)}
        form = {"action": "plan_replay", "select_across": "1", "_selected_action": str(cause["first"]), "index": "0"}
        planned = text(client.post(cause["list"], form))
        assert "1 of 1 receipt would be replayed" in planned

    def test_an_auditor_sees_it_without_the_button(self, console: Console, auditor: User) -> None:
        said = text(console(auditor).get(f"{LIST}last-night/"))
        assert "It has not run yet" in said
        assert "Plan for exactly these" not in said


class TestSavedViews:
    def save(self, client: Any, name: str, query: str = "?user=alice&p=3", **form: str) -> Any:
        return client.post(f"{LIST}views/", {"name": name, "query": query, **form})

    def test_leads_back_to_the_same_list(self, console: Console, auditor: User) -> None:
        client = console(auditor)
        assert self.save(client, "Of  Alice")["Location"] == f"{LIST}?user=alice"
        assert f'<a href="{LIST}?user=alice">Of Alice</a>' in text(client.get(LIST))

    def test_the_same_name_takes_the_new_filter(self, console: Console, auditor: User) -> None:
        client = console(auditor)
        self.save(client, "mine")
        self.save(client, "mine", "?user=bob")
        assert SavedView.objects.get().query == "user=bob"

    def test_others_see_only_what_is_shared(self, console: Console, auditor: User, operator: User) -> None:
        self.save(console(auditor), "secret")
        self.save(console(auditor), "for all of us", shared="on")
        said = text(console(operator).get(LIST))
        assert "for all of us" in said
        assert "secret" not in said

    def test_only_its_owner_and_the_administrator_remove_it(
        self, console: Console, auditor: User, operator: User, root: User
    ) -> None:
        self.save(console(auditor), "ours", shared="on")
        self.save(console(auditor), "mine")
        shared, own = SavedView.objects.order_by("-name")
        assert console(operator).post(f"{LIST}views/{shared.pk}/remove/").status_code == 403
        assert console(operator).post(f"{LIST}views/{own.pk}/remove/").status_code == 404
        assert SavedView.objects.count() == 2
        console(auditor).post(f"{LIST}views/{own.pk}/remove/")
        console(root).post(f"{LIST}views/{shared.pk}/remove/")
        assert not SavedView.objects.exists()

    @pytest.mark.parametrize("query", ["https://evil.example/", "//evil.example", "\r\nLocation: x", "?a=b"])
    def test_never_leads_elsewhere(self, console: Console, auditor: User, query: str) -> None:
        assert self.save(console(auditor), "x", query)["Location"].startswith(LIST + "?")

    @pytest.mark.parametrize("name", ["", " ", "x" * 61, "a\u202eb"])
    def test_needs_a_name(self, console: Console, auditor: User, name: str) -> None:
        self.save(console(auditor), name)
        assert not SavedView.objects.exists()


class TestTimeline:
    def test_is_in_the_order_of_what_happened(self, console: Console, auditor: User, alice: User) -> None:
        receipt = factories.failed(alice, FillFailed(reason="provider_timeout"))
        again = ledger.reopen(receipt, actor_id=alice.pk, seconds=30)
        assert again is not None
        ledger.settle_failed(again, ArgMismatch(), replayable=True)
        said = text(console(auditor).get(page(receipt)))
        told = [
            "<strong>opened</strong>",
            "attempt 1 began",
            "attempt 1 ended: retryable",
            "<strong>retried</strong>",
            "attempt 2 ended: failed",
        ]
        places = [said.index(words) for words in told]
        assert places == sorted(places)


class TestRecent:
    def test_rows_whose_ids_begin_with_their_time_are_found_by_them(
        self, console: Console, auditor: User, alice: User
    ) -> None:
        receipt = factories.applied(alice)
        client = console(auditor)
        for kind, key in (("run", receipt.run_id), ("attempt", receipt.attempts.get().pk)):
            assert rows(client.get(f"/admin/receipts/{kind}/", {"within": "hour"})) == {str(key)}
