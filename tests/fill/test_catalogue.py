"""What providers really send, over a real socket: every case of the catalogue."""

from __future__ import annotations

import dataclasses

import pytest

from tests.fill.catalogue import APPLIED, Case, cases, document, http, msg
from tests.fill.stub import Fin
from tests.fill.world import KEY, run

CASES = cases()


def test_every_case_has_its_own_name():
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_comes_to_its_named_end(case: Case, caplog: pytest.LogCaptureFixture):
    filled, stub = run(*case.responses, notes=case.notes, budget=case.budget, stream=case.stream)
    error, facts = filled.error, filled.facts

    assert (APPLIED if error is None else (error.code, error.reason, error.retryable)) == case.expected
    assert (filled.arguments is None) == (case.expected != APPLIED)
    assert (facts.gate is None) == (case.expected == APPLIED)
    assert len(stub.requests) == facts.calls == case.calls
    assert {name: getattr(facts, name) for name in case.facts} == case.facts
    assert set(case.noted) <= set(facts.notes)
    assert (error.retry_after if error else None) == case.retry_after
    shown = f"{error} {error and error.detail} {error and error.fields} {caplog.text} {filled.facts.path}"
    assert KEY not in f"{shown} {facts}"
    assert "Printer on" not in shown
    assert "sk-abc" not in shown


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES if case.expected == APPLIED])
def test_hands_over_exactly_what_the_model_sent(case: Case):
    filled, _ = run(*case.responses, notes=case.notes, stream=case.stream)
    assert filled.arguments is not None
    assert filled.arguments == filled.facts.proposed
    assert filled.arguments["ticket_id"] == "TCK-0001"
    assert filled.arguments["assignee"] == "amy"


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id) for case in CASES if case.body is not None and case.budget > 1]
)
def test_does_not_care_what_was_asked_for(case: Case):
    """Providers answer in the other framing than the one asked for."""
    other = dataclasses.replace(case, stream=not case.stream)
    filled, _ = run(*other.responses, notes=other.notes, stream=other.stream)
    error = filled.error
    assert (APPLIED if error is None else (error.code, error.reason, error.retryable)) == case.expected


class TestLadder:
    unavailable = document({"error": {"message": "This response_format type is unavailable now"}}, status="400 x")
    ok = document(msg('{"ticket_id":"TCK-0001","summary":"Printer on floor 3 jams","assignee":"amy"}'))

    def test_j48_steps_down_once_and_is_applied(self):
        filled, stub = run(self.unavailable, self.ok)
        assert filled.error is None
        assert (filled.facts.mode, len(stub.requests)) == ("tool", 2)
        assert b'"tools"' in stub.requests[1]
        assert b'"response_format"' not in stub.requests[1]

    def test_remembers_the_step_for_the_next_press(self):
        filled, stub = run(self.unavailable, self.ok, presses=2)
        assert (filled.facts.mode, filled.facts.calls, len(stub.requests)) == ("tool", 1, 3)

    def test_goes_on_from_press_to_press_down_to_the_prompt_alone(self):
        filled, stub = run(self.unavailable, presses=3)
        assert filled.error is not None
        assert filled.error.reason == "provider_rejected_request"
        assert (filled.facts.mode, filled.facts.calls, len(stub.requests)) == ("prompt", 1, 5)

    def test_stays_where_an_operator_put_it(self):
        filled, stub = run(self.unavailable, self.ok, mode="json_schema")
        assert filled.error is not None
        assert len(stub.requests) == 1

    @pytest.mark.parametrize("status", ["400 x", "422 x", "501 x"])
    def test_takes_the_refusal_with_any_of_its_statuses(self, status: str):
        refused = document({"error": {"message": "unknown field tool_choice or grammar"}}, status=status)
        filled, _ = run(refused, self.ok)
        assert filled.error is None

    def test_does_not_step_down_for_another_refusal(self):
        filled, stub = run(document({"error": {"message": "context too long"}}, status="400 x"), self.ok)
        assert filled.error is not None
        assert len(stub.requests) == 1

    def test_501_about_anything_else_is_an_outage(self):
        filled, _ = run(http(b"nope", status="501 x"))
        assert filled.error is not None
        assert filled.error.reason == "provider_unavailable"


class TestSecondCall:
    def test_is_made_when_the_connection_broke_before_an_answer(self):
        filled, stub = run((Fin(),), TestLadder.ok)
        assert filled.error is None
        assert (filled.facts.calls, len(stub.requests)) == (2, 2)

    def test_is_not_made_after_a_whole_answer(self):
        filled, stub = run(document(msg("no")), TestLadder.ok)
        assert filled.error is not None
        assert len(stub.requests) == 1

    def test_is_not_made_for_a_busy_provider(self):
        filled, stub = run(http(b"", status="503 x"), TestLadder.ok)
        assert filled.error is not None
        assert len(stub.requests) == 1

    def test_is_the_last_one(self):
        filled, stub = run((Fin(),), (Fin(),), TestLadder.ok)
        assert filled.error is not None
        assert (filled.error.reason, len(stub.requests)) == ("provider_truncated", 2)
