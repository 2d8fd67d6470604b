"""The stand-in does what its page says: a draft in every mode, and each failure by its name."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from receipts.contracts import Context
from receipts.fill import Client, Filled, Provider, fill
from receipts.fill.filling import forget_downgrades
from receipts.standin import FAILURES, StandIn, help_text
from tests.fill.world import CONTEXT, TOOL

ROOT = Path(__file__).resolve().parent.parent

PERMANENT_PROVIDER = {
    "provider_redirect",
    "provider_auth",
    "provider_quota",
    "provider_not_found",
    "provider_rejected_request",
    "provider_too_large",
}

OUT_OF_TIME = {"provider_timeout", "fill_budget", "deadline_exceeded"}


def press(
    *notes: str, context: Context = CONTEXT, budget: float = 10.0, pace: float = 0, **settings: Any
) -> list[Filled]:
    """One fill for each of `notes`, one after the other, by one stand-in."""

    async def presses() -> list[Filled]:
        standin = StandIn(pace=pace)
        async with standin.listening() as url, Client() as client:
            provider = Provider(url=url, **settings)
            done = [
                await fill(TOOL, context, note, provider=provider, client=client, budget_seconds=budget)
                for note in notes
            ]
        assert standin.calls == sum(filled.facts.calls for filled in done)
        return done

    forget_downgrades()
    return asyncio.run(presses())


def expected(name: str) -> tuple[str, str | None, bool]:
    if name == "arg_mismatch":
        return "arg_mismatch", None, False
    if name in ("fill_budget", "deadline_exceeded"):
        return "deadline_exceeded", "fill_budget", True
    name = {"fill_failed": "provider_unavailable", "fill_invalid": "model_output_invalid"}.get(name, name)
    if name.startswith("provider_"):
        return "fill_failed", name, name not in PERMANENT_PROVIDER
    if name in ("model_truncated", "model_output_empty"):
        return "fill_failed", name, True
    return "fill_invalid", name, False


class TestDraft:
    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize("mode", ["auto", "json_schema", "tool", "json_object", "prompt"])
    def test_fits_the_contract_in_every_mode(self, mode: str, stream: bool):
        [filled] = press("the printer on floor 3 jams every day, please ask Bob to look", mode=mode, stream=stream)
        assert filled.error is None
        assert filled.arguments == {
            "ticket_id": "TCK-0001",
            "summary": "Follow up on “Printer broken”: The printer on floor 3 jams every day, please ask Bob to look.",
            "assignee": "bob",
        }
        assert filled.facts.model == "standin"
        assert filled.facts.source == ("tool_call" if mode == "tool" else "content")

    @pytest.mark.parametrize("notes", ["x", "…", "word " * 1_600, "x" * 8_000, "line\n\nline", '"}{"', "😀" * 3_000])
    def test_of_any_notes_fits_the_contract(self, notes: str):
        [filled] = press(notes)
        assert filled.error is None

    def test_goes_to_who_spoke_last_when_the_notes_name_nobody(self):
        [filled] = press("Call the customer back.")
        assert filled.arguments is not None
        assert filled.arguments["assignee"] == "amy"

    def test_arrives_word_by_word(self):
        [filled] = press("a few words to be read slowly", pace=200)
        assert filled.error is None
        assert filled.facts.first_content_ms is not None
        assert filled.facts.fill_ms > filled.facts.first_content_ms


class TestFailures:
    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize("name", FAILURES)
    def test_come_to_their_name(self, name: str, stream: bool):
        budget = 0.5 if name in OUT_OF_TIME else 10.0
        [filled] = press(f"Call him.\nstandin: {name}", budget=budget, stream=stream)
        assert filled.error is not None
        assert (filled.error.code, filled.error.reason, filled.error.retryable) == expected(name)
        assert filled.facts.calls == 1

    @pytest.mark.parametrize("mode", ["tool", "json_object", "prompt"])
    @pytest.mark.parametrize("name", sorted(set(FAILURES) - OUT_OF_TIME))
    def test_come_to_their_name_in_every_mode(self, name: str, mode: str):
        [filled] = press(f"standin: {name}", mode=mode)
        assert filled.error is not None
        assert (filled.error.code, filled.error.reason) == expected(name)[:2]

    def test_need_not_be_named_in_full(self):
        [filled] = press("Standin: Refused")
        assert filled.error is not None
        assert filled.error.reason == "model_refused"

    def test_once_happens_once(self):
        notes = "standin: provider_unavailable once"
        first, second, other = press(notes, notes, f"{notes} more")
        assert first.error is not None
        assert second.error is None
        assert other.error is not None

    def test_slow_waits_first(self):
        [filled] = press("Call him. standin: slow 0.2")
        assert filled.error is None
        assert filled.facts.fill_ms >= 200

    @pytest.mark.parametrize("notes", ["standin: help", "standin: no_such_name"])
    def test_help_lists_every_name(self, notes: str):
        [filled] = press(notes)
        assert filled.arguments is not None
        assert filled.arguments["summary"] == help_text()
        assert all(name.removeprefix("provider_").removeprefix("model_") in help_text() for name in FAILURES)

    def test_are_asked_for_in_the_notes_alone(self):
        asking = "standin: provider_auth"
        [filled] = press("Call him.", context=replace(CONTEXT, title=asking, conversation=(("amy", asking),)))
        assert filled.error is None


class TestServer:
    def test_counts_its_calls_and_says_what_it_is(self):
        async def look() -> tuple[dict[str, Any], dict[str, Any]]:
            async with StandIn().listening() as url, Client() as client:
                await fill(TOOL, CONTEXT, "Call him.", provider=Provider(url=url), client=client)
                base = url.removesuffix("/v1/chat/completions")
                return await asyncio.to_thread(get, f"{base}/calls"), await asyncio.to_thread(get, f"{base}/")

        calls, about = asyncio.run(look())
        assert calls == {"calls": 1}
        assert about["model"] == "standin"

    def test_refuses_what_it_cannot_read(self):
        async def look() -> int:
            async with StandIn().listening() as url:
                return await asyncio.to_thread(post, url, b"[]")

        assert asyncio.run(look()) == 400

    @pytest.mark.processes
    @pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
    def test_command_prints_its_url_and_ends_when_told(self, end: signal.Signals):
        command = [sys.executable, "manage.py", "standin_provider", "--port", "0"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            url = running.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1/chat/completions", url)
            assert get(url.replace("/v1/chat/completions", "/calls")) == {"calls": 0}
            running.send_signal(end)
            assert running.wait(timeout=10) == 0


def get(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    connection.request("GET", parts.path)
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def post(url: str, body: bytes) -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    connection.request("POST", parts.path, body)
    status = connection.getresponse().status
    connection.close()
    return status
