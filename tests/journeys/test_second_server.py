"""What only the second server can show: it judges our requests by its own reading of the protocol.

It makes its answers up from the schema that it finds in a request, so a schema in the wrong place shows here; and it
can be told to refuse, break off or answer as a small model does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from receipts.models import Attempt
from tests.journeys.conftest import NOTES, TICKET, Desk
from tests.journeys.servers import LLMock, Web
from tickets.models import Followup

pytestmark = pytest.mark.processes
KEY = "follow-7f3a"
DRAFT = f'{{"ticket_id": "{TICKET}", "summary": "Call about SSO.", "assignee": "grace"}}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLMock]:
    running = LLMock(tmp_path_factory.mktemp("provider"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def llmock(server: LLMock) -> LLMock:
    server.reset()
    return server


@pytest.fixture(scope="module")
def web(server: LLMock, serve: Callable[..., Any]) -> Iterator[Web]:
    """With the settings that a first try has: the URL and the model."""
    with serve(server.settings) as running:
        yield running


def test_is_sent_the_prompt_and_the_schema_and_nothing_that_others_refuse(web: Web, llmock: LLMock, desk: Desk) -> None:
    assert desk.press(web).status_code == 201

    (request,) = llmock.requests()
    assert sorted(request["body"]) == ["messages", "model", "response_format", "stream"]
    assert (request["stream"], request["completed"]) == (True, True)
    schema = request["body"]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["ticket_id"] == {"type": "string", "enum": [TICKET]}
    assert NOTES in request["body"]["messages"][1]["content"]


def test_fills_a_forced_tool_call(serve: Callable[..., Any], llmock: LLMock, desk: Desk) -> None:
    with serve({**llmock.settings, "COMPLETIONS_MODE": "tool"}) as web:
        receipt = desk.press(web).json()

    assert (receipt["status"], receipt["model_decision"]["finish_reason"]) == ("applied", "tool_calls")
    (request,) = llmock.requests()
    assert "response_format" not in request["body"]
    assert Followup.objects.get().id == receipt["result_ref"]


def test_a_box_that_knows_only_the_basics_files_by_prompt_alone(
    serve: Callable[..., Any], llmock: LLMock, desk: Desk
) -> None:
    llmock.script(type="reply", text=f"```json\n{DRAFT}\n```")

    basics = {**llmock.settings, "COMPLETIONS_MODE": "prompt", "COMPLETIONS_STREAM": "false"}
    with serve(basics) as web:
        receipt = desk.press(web).json()

    assert (receipt["status"], receipt["arguments"]["assignee"]) == ("applied", "grace")
    (request,) = llmock.requests()
    assert sorted(request["body"]) == ["messages", "model", "stream"]
    assert request["stream"] is False


def test_a_refused_format_steps_down_once_and_is_remembered(
    serve: Callable[..., Any], llmock: LLMock, desk: Desk
) -> None:
    llmock.script(type="fail", status=400, message="Unknown parameter: response_format")

    with serve(llmock.settings) as web:
        first, second = desk.press(web).json(), desk.press(web).json()

    assert [receipt["status"] for receipt in (first, second)] == ["applied", "applied"]
    assert (first["model_decision"]["mode"], first["model_decision"]["calls"]) == ("tool", 2)
    assert (second["model_decision"]["mode"], second["model_decision"]["calls"]) == ("tool", 1)
    assert llmock.calls() == 3


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("truncate", "provider_truncated"), ("disconnect", "provider_truncated"), ("malformed", "provider_protocol")],
)
def test_half_a_stream_is_no_answer_and_the_same_key_files_later(
    web: Web, llmock: LLMock, desk: Desk, kind: str, reason: str
) -> None:
    llmock.script(type="stream_fault", kind=kind, after_chunks=3)

    refused = desk.press(web, key=KEY)

    assert (refused.status_code, refused.json()["reason"]) == (502, reason), refused.text
    assert refused.json()["retryable"] is True
    assert not Followup.objects.exists()
    assert desk.press(web, key=KEY).status_code == 201
    assert [attempt.status for attempt in Attempt.objects.order_by("attempt")] == ["retryable", "ok"]


@pytest.mark.parametrize(
    ("status", "code", "reason", "retryable"),
    [
        (401, "invalid_api_key", "provider_auth", False),
        (404, "model_not_found", "provider_not_found", False),
        (429, "insufficient_quota", "provider_quota", False),
        (429, "rate_limit_exceeded", "provider_rate_limited", True),
        (503, None, "provider_unavailable", True),
    ],
)
def test_its_errors_keep_their_meaning(
    web: Web, llmock: LLMock, desk: Desk, status: int, code: str | None, reason: str, retryable: bool
) -> None:
    llmock.script(type="fail", status=status, code=code, times=None)

    problem = desk.press(web).json()

    assert (problem["code"], problem["reason"], problem["retryable"]) == ("fill_failed", reason, retryable)
    assert not Followup.objects.exists()
