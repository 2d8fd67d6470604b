"""The pages of workflows and runs: who sees them, what they count, which causes they name, and what did not run."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from receipts import ledger, manifest, workflows
from receipts.errors import ArgMismatch, FillFailed, ReceiptsError
from receipts.models import Circuit, Receipt, Run, Schedule
from receipts_project.accounts.models import User
from tests import factories
from tests.web.conftest import signed_in, text_of
from tickets import progress
from tickets.cadence import cadence
from tickets.templatetags.run_words import roughly, span
from tickets.workflows import NIGHTLY_STALE_TICKETS

STALE = "nightly_stale_tickets"
TIMEOUT, RETARGET = FillFailed(reason="provider_timeout"), ArgMismatch()


def workflow_run(*, slot: str | None = None, planned: int | None = None, workflow: str = STALE) -> Run:
    """A workflow's run, in the zone of Helsinki."""
    run_id = ledger.open_run(
        workflow=workflow,
        trigger="schedule" if slot else "command",
        actor_id=workflows.scheduler().pk,
        manifest={
            "app_version": "1.2.3",
            "tool": "file_followup",
            "zone": "Europe/Helsinki",
            "contracts": {"file_followup@1": "ab" * 32},
            "budgets": {"fill_seconds": 20.0, "apply_lock_ms": 2000},
        },
        slot=dt.datetime.fromisoformat(slot).replace(tzinfo=dt.UTC) if slot else None,
        enqueue=lambda run_id: None,
    )
    assert run_id
    if planned is not None:
        ledger.plan_run(run_id, planned)
    return Run.objects.get(pk=run_id)


def opened(run: Run, number: int = 1, **fields: Any) -> list[Receipt]:
    """Pending receipts of the run, queued unless `fields` say otherwise."""
    user = workflows.scheduler()
    given = {"parent_run_id": run.pk, "trigger": run.trigger, "queued": True, "seconds": 3600.0} | fields
    return [factories.pending(user, **given) for _ in range(number)]


def filed(run: Run, number: int = 1) -> None:
    user = workflows.scheduler()
    for _ in range(number):
        factories.applied(user, parent_run_id=run.pk, trigger=run.trigger)


def failed(run: Run, error: ReceiptsError, number: int = 1, **settling: Any) -> None:
    for receipt in opened(run, number, queued=False):
        ledger.settle_failed(receipt, error, replayable=True, **settling)


def retrying(run: Run, error: ReceiptsError, number: int = 1) -> None:
    failed(run, error, number, again_in_seconds=90.0, enqueue=lambda receipt: None)


@pytest.fixture
def desk_of_auditor(auditor: User) -> Client:
    return signed_in(auditor)


def page_of(client: Client, run: Run, query: str = "") -> str:
    answer = client.get(f"/runs/{run.pk}{query}")
    assert answer.status_code == 200
    return plain(text_of(answer))


def plain(html: str) -> str:
    """The page with its white space folded, so that a sentence can be looked for."""
    return re.sub(r"\s+", " ", html)


def counts(page: str) -> dict[str, str]:
    found = re.search(r'<dl class="counts">(.*?)</dl>', page)
    assert found
    return dict(re.findall(r"<dt[^>]*>([^<]+)</dt><dd>([\d,]+)", found[1]))


class TestWhoSees:
    def test_a_lead_gets_the_404_of_a_page_that_is_not_there(self, lead: Client) -> None:
        run = workflow_run(planned=0)
        for address in ("/runs", f"/runs/{run.pk}", f"/runs/{uuid.uuid4()}"):
            assert lead.get(address).status_code == 404, address
        assert 'href="/runs"' not in text_of(lead.get("/"))

    def test_auditors_and_operators_do(self, desk_of_auditor: Client, operator: User) -> None:
        run = workflow_run(planned=0)
        for client in (desk_of_auditor, signed_in(operator)):
            assert client.get("/runs").status_code == client.get(f"/runs/{run.pk}").status_code == 200
            assert 'href="/runs"' in text_of(client.get("/"))

    @pytest.mark.parametrize("address", ["/runs", f"/runs/{uuid.UUID(int=1)}"])
    def test_nobody_else_without_a_sign_in(self, db: None, address: str) -> None:
        assert Client().get(address)["Location"].startswith("/login?next=")

    def test_a_lead_sees_the_run_of_their_own_press(self, lead: Client, alice: User, bob: User) -> None:
        receipt = factories.applied(alice)
        address = f"/runs/{receipt.run_id}"
        assert f'href="{address}"' in text_of(lead.get(f"/receipts/{receipt.pk}"))
        assert f'href="/receipts/{receipt.pk}"' in text_of(lead.get(address))
        assert signed_in(bob).get(address).status_code == 404


class TestWorkflows:
    def test_says_what_it_does_when_and_how_the_last_run_ended(self, desk_of_auditor: Client) -> None:
        run = workflow_run(planned=3)
        filed(run, 2)
        failed(run, RETARGET)
        ledger.finish_run(run.pk)
        page = plain(text_of(desk_of_auditor.get("/runs")))
        assert "Nightly stale tickets" in page
        assert NIGHTLY_STALE_TICKETS.title in page
        assert "Every day at 03:00, UTC" in page
        assert re.search(r"<dt>Next</dt><dd><time [^>]+>\w{3} \d+ \w{3}(?: \d{4})?, 03:00 UTC</time>", page)
        assert "Finished, some not filed" in page
        assert "2 of 3 filed · 1 not filed" in page

    def test_a_missing_slot_is_said_on_the_clock_of_its_zone(self, desk_of_auditor: Client, settings: Any) -> None:
        settings.SCHEDULE_TIME_ZONE = "Europe/Helsinki"
        now = timezone.now()
        for name, cron in ((STALE, "0 3 * * *"), ("nightly_contact_review", "30 3 * * *")):
            begun = now - (dt.timedelta(days=7) if name == STALE else dt.timedelta(0))
            Schedule.objects.create(workflow=name, cron=cron, zone="Europe/Helsinki", since=begun)
        page = plain(text_of(desk_of_auditor.get("/runs")))
        assert page.count("Did not run") == 1
        missing = re.findall(r"<li><time [^>]+>(\w{3} \d+ \w{3}(?: \d{4})?, 0[34]:00 EES?T)</time></li>", page)
        assert len(missing) == 3
        assert re.search(r"and [34] earlier", page)

    def test_a_schedule_that_no_worker_has_looked_at_says_so(self, desk_of_auditor: Client) -> None:
        page = text_of(desk_of_auditor.get("/runs"))
        assert page.count("No worker has looked at this schedule yet.") == 2
        assert "Did not run" not in page

    @pytest.mark.parametrize(
        ("cron", "words"),
        [
            ("0 3 * * *", "Every day at 03:00"),
            ("30 22 * * 1-5", "Monday to Friday at 22:30"),
            ("5 4 * * 7", "Every Sunday at 04:05"),
            ("0 6 1 * *", "On day 1 of every month at 06:00"),
            ("*/15 * * * *", "Every 15 minutes"),
            ("5 * * * *", "Every hour, at 5 minutes past"),
            ("* * * * *", "Every minute"),
            ("*/7 * * * *", None),
            ("0 3 1 * 1", None),
            ("0 3,15 * * *", None),
            ("0 3 * 1 *", None),
        ],
    )
    def test_a_cron_line_has_words_where_they_are_exact(self, cron: str, words: str | None) -> None:
        assert cadence(cron) == words


class TestList:
    def ids(self, page: Any) -> list[str]:
        return re.findall(r'<h3 class="row-title"><a href="/runs/([0-9a-f-]+)"', text_of(page))

    def test_lists_workflows_runs_newest_first_and_no_presses(self, alice: User, desk_of_auditor: Client) -> None:
        factories.applied(alice)
        first, second = workflow_run(planned=0), workflow_run(planned=0, workflow="nightly_contact_review")
        opened(first)
        assert self.ids(desk_of_auditor.get("/runs")) == [str(second.pk), str(first.pk)]
        assert self.ids(desk_of_auditor.get(f"/runs?workflow={STALE}")) == [str(first.pk)]

    def test_presses_can_be_asked_for(self, alice: User, desk_of_auditor: Client) -> None:
        receipt = factories.applied(alice)
        page = desk_of_auditor.get("/runs?workflow=file_followup")
        assert self.ids(page) == [str(receipt.run_id)]
        assert "<span>Filed</span>" in text_of(page)

    def test_a_workflow_of_an_older_version_is_listed_as_well(self, desk_of_auditor: Client) -> None:
        Schedule.objects.create(workflow="weekly_digest", cron="0 3 * * 1", zone="UTC", since=timezone.now())
        run = workflow_run(workflow="weekly_digest", planned=0)
        assert self.ids(desk_of_auditor.get("/runs")) == [str(run.pk)]
        assert 'href="?workflow=weekly_digest#runs"' in text_of(desk_of_auditor.get("/runs"))

    @pytest.mark.parametrize("query", ["workflow=%00", "workflow=No+Such", "cursor=garbled", "workflow=" + "x" * 99])
    def test_a_broken_link_still_shows_the_page(self, desk_of_auditor: Client, query: str) -> None:
        assert desk_of_auditor.get(f"/runs?{query}").status_code == 200

    def test_walks_all_once_and_back(self, desk_of_auditor: Client) -> None:
        for _ in range(27):
            workflow_run(planned=0)
        first = desk_of_auditor.get("/runs")
        older = re.search(r'rel="next" href="([^"]+)"', text_of(first))
        assert older
        second = desk_of_auditor.get(older[1].replace("&amp;", "&"))
        assert [len(self.ids(page)) for page in (first, second)] == [25, 2]
        newer = re.search(r'rel="prev" href="([^"]+)"', text_of(second))
        assert newer
        assert self.ids(desk_of_auditor.get(newer[1].replace("&amp;", "&"))) == self.ids(first)


class TestRun:
    def test_counts_what_stands_how(self, desk_of_auditor: Client) -> None:
        run = workflow_run(slot="2026-03-29 01:00", planned=12)
        filed(run, 3)
        failed(run, RETARGET)
        retrying(run, TIMEOUT, 2)
        opened(run, 2)
        opened(run, 1, queued=False)
        page = page_of(desk_of_auditor, run)
        assert counts(page) == {
            "Planned": "12",
            "Filed": "3",
            "Not filed": "1",
            "To be tried again": "2",
            "Being worked on": "1",
            "Waiting": "5",
        }
        assert re.search(r'<progress max="12" value="4" aria-label="[^"]+">', page)
        assert "4 of 12 settled" in page
        assert "3 of 12 filed · 1 not filed · 2 to be tried again · 6 waiting" in page
        assert re.search(r"from <time datetime=[^>]+second", page)
        assert "Under way" in page

    def test_says_slot_zone_trigger_actor_and_times(self, desk_of_auditor: Client) -> None:
        run = workflow_run(slot="2026-03-29 01:00", planned=1)
        filed(run)
        ledger.finish_run(run.pk)
        page = page_of(desk_of_auditor, run)
        assert re.search(r"<h1>Nightly stale tickets, .*Sun 29 Mar(?: 2026)?, 04:00 EEST</time></h1>", page)
        assert "<dt>Started by</dt><dd>the schedule</dd>" in page
        assert "<dt>In the name of</dt><dd>Scheduled workflows</dd>" in page
        assert re.search(r"<dt>Finished</dt><dd><time [^>]+>[^<]+</time>, after \d+ s</dd>", page)
        assert "Finished, all filed" in page
        assert "data-live" not in page
        assert "Refresh" not in page

    @pytest.mark.parametrize(
        ("planned", "done", "words"),
        [(None, False, "Choosing tickets"), (0, True, "Finished, nothing to do"), (2, False, "Under way")],
    )
    def test_where_nothing_is_settled_it_claims_nothing(
        self, desk_of_auditor: Client, planned: int | None, done: bool, words: str
    ) -> None:
        run = workflow_run(planned=planned)
        assert ledger.finish_run(run.pk) == done
        page = page_of(desk_of_auditor, run)
        assert words in page
        assert "left</span>" not in page

    def test_a_run_that_was_cut_short_says_what_was_never_begun(self, desk_of_auditor: Client) -> None:
        run = workflow_run(planned=5)
        filed(run, 3)
        ledger.finish_run(run.pk, as_it_stands=True)
        page = page_of(desk_of_auditor, run)
        assert "Ended before all were begun" in page
        assert "3 of 5 filed · 2 never begun" in page
        assert counts(page)["Never begun"] == "2"

    def test_groups_failures_by_cause_with_whose_turn_it_is(self, desk_of_auditor: Client) -> None:
        run = workflow_run(planned=6)
        failed(run, TIMEOUT, 2)
        retrying(run, TIMEOUT)
        failed(run, RETARGET)
        page = page_of(desk_of_auditor, run)
        found = re.findall(
            r'<span class="cause-count">(\d+) ×</span> <strong>([^<]+)</strong></p> <dl class="turnline"><div>'
            r"<dt>Lies with</dt><dd>([^<]+)</dd></div><div><dt>Next step</dt><dd>([^<]+)</dd>",
            page,
        )
        assert [(number, sentence) for number, sentence, _owner, _step in found] == [
            ("3", "The model provider did not answer in time."),
            ("1", "Model attempted to retarget ticket."),
        ]
        assert "tries 1 of them again by itself" in found[0][3]
        assert found[1][2:] == (str(RETARGET.owner), RETARGET.next_step)

    def test_a_cause_leads_to_its_receipts(self, desk_of_auditor: Client) -> None:
        run = workflow_run(planned=4)
        failed(run, TIMEOUT, 2)
        failed(run, RETARGET)
        filed(run)
        link = re.search(r'href="(\?code=fill_failed[^"]+)"', page_of(desk_of_auditor, run))
        assert link
        page = page_of(desk_of_auditor, run, link[1].replace("&amp;", "&"))
        assert page.count('<li class="row">') == 2
        assert "Only those that failed so: The model provider did not answer in time." in page
        assert page_of(desk_of_auditor, run, "?code=arg_mismatch").count('<li class="row">') == 1
        assert page_of(desk_of_auditor, run, "?status=applied").count('<li class="row">') == 1
        assert page_of(desk_of_auditor, run, "?code=%00&status=nonsense&cursor=x").count('<li class="row">') == 4

    def test_pages_its_receipts_and_those_of_no_other_run(self, desk_of_auditor: Client) -> None:
        other, run = workflow_run(planned=3), workflow_run(planned=27)
        opened(other, 3)
        opened(run, 27)
        first = page_of(desk_of_auditor, run)
        older = re.search(r'rel="next" href="[^"]*(\?[^"]+)"', first)
        assert older
        second = page_of(desk_of_auditor, run, older[1].replace("&amp;", "&"))
        assert (first.count('<li class="row">'), second.count('<li class="row">')) == (25, 2)

    def test_tells_the_manifest_in_words(self, desk_of_auditor: Client) -> None:
        page = page_of(desk_of_auditor, workflow_run(planned=0))
        for text in ("1.2.3", f"file_followup@1 {'ab' * 6}…", "fill 20 s", "apply lock 2000 ms", "Europe/Helsinki"):
            assert f"<dd>{text}</dd>" in page

    def test_a_receipt_leads_to_its_run_and_that_to_its_parent(self, desk_of_auditor: Client) -> None:
        parent = workflow_run(planned=1)
        (receipt,) = opened(parent)
        page = text_of(desk_of_auditor.get(f"/receipts/{receipt.pk}"))
        assert f'href="/runs/{receipt.run_id}"' in page
        assert f'href="/runs/{parent.pk}"' in page
        single = page_of(desk_of_auditor, receipt.run)
        assert "Its receipt" in single
        assert f'href="/receipts/{receipt.pk}"' in single
        assert f'href="/runs/{parent.pk}"' in single
        assert "<progress" not in single


class TestTimeLeft:
    NOW = dt.datetime(2026, 6, 2, 3, 10, tzinfo=dt.UTC)

    def pace(self, run: Run, seconds: float) -> progress.Pace:
        """As seen so long after the run's start."""
        told = progress.progress_of([run])[run.pk]
        return progress.pace_of(told, run.started_at + dt.timedelta(seconds=seconds))

    def test_goes_by_what_was_settled_in_the_last_minute(self, desk_of_auditor: Client) -> None:
        run = workflow_run(planned=12)
        filed(run, 3)
        failed(run, RETARGET)
        assert self.pace(run, 40).seconds_left == 80
        assert self.pace(run, 90).seconds_left is None

    def test_is_never_sooner_than_the_last_retry(self, desk_of_auditor: Client) -> None:
        run = workflow_run(planned=2)
        filed(run)
        retrying(run, TIMEOUT)
        pace = self.pace(run, 10)
        assert pace.next_try
        assert pace.seconds_left is not None
        assert 75 <= pace.seconds_left <= 90

    def test_says_when_nothing_moves_that_should(self, desk_of_auditor: Client) -> None:
        run = workflow_run(planned=2)
        opened(run, 2)
        assert self.pace(run, 60).still_since is None
        assert self.pace(run, 200).still_since == run.started_at
        Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - dt.timedelta(minutes=5))
        assert "Nothing has moved since" in page_of(desk_of_auditor, run)

    def test_says_that_the_provider_does_not_answer_instead(self, desk_of_auditor: Client) -> None:
        run = workflow_run(planned=2)
        opened(run, 2)
        now = timezone.now()
        Run.objects.filter(pk=run.pk).update(started_at=now - dt.timedelta(minutes=5))
        Circuit.objects.create(
            provider=manifest.provider().host,
            failures=5,
            last_failure_at=now,
            last_reason="provider_unavailable",
            open_since=now,
            open_until=now + dt.timedelta(minutes=1),
        )
        page = page_of(desk_of_auditor, run)
        assert "The model provider is unavailable. One attempt tries again at" in page
        assert "Nothing has moved" not in page

    @pytest.mark.parametrize(
        ("seconds", "words"), [(3, "about 5 s"), (42, "about 40 s"), (61, "about 1 min"), (9000, "about 2 h")]
    )
    def test_is_no_finer_than_an_estimate(self, seconds: int, words: str) -> None:
        assert roughly(seconds) == words

    def test_a_span_is_exact(self) -> None:
        assert [span(seconds) for seconds in (42.9, 120, 190, 7300)] == ["42 s", "2 min", "3 min 10 s", "2 h 1 min"]


class TestCost:
    """Queries, whatever the runs hold."""

    def test_the_page_of_runs(self, desk_of_auditor: Client, django_assert_max_num_queries: Any) -> None:
        for number in range(4):
            run = workflow_run(planned=9)
            filed(run, number)
            failed(run, TIMEOUT, number)
            opened(run, number)
        with django_assert_max_num_queries(17):
            desk_of_auditor.get("/runs")

    def test_the_page_of_a_run(self, desk_of_auditor: Client, django_assert_max_num_queries: Any) -> None:
        run = workflow_run(planned=30)
        filed(run, 5)
        failed(run, TIMEOUT, 5)
        failed(run, RETARGET, 5)
        opened(run, 10)
        with django_assert_max_num_queries(11):
            page_of(desk_of_auditor, run)


def test_no_inline_script_handler_or_style(desk_of_auditor: Client) -> None:
    run = workflow_run(planned=4)
    failed(run, TIMEOUT)
    opened(run)
    for address in ("/runs", f"/runs/{run.pk}"):
        html = text_of(desk_of_auditor.get(address))
        assert not re.search(r"\son[a-z]+\s*=|\sstyle\s*=|<style|javascript:", html, re.IGNORECASE)
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", html))
