"""Packets are cut anywhere: for every case, any cut of the same bytes gives the same result."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receipts.fill import Facts, Limits
from receipts.fill.answer import Reader
from receipts.fill.gates import judge
from receipts.fill.verdict import Refusal
from tests.fill.catalogue import H_CHUNKED, Case, cases, chunked
from tests.fill.stub import Fin
from tests.fill.world import CONTEXT, TOOL, run

BODIES = [case for case in cases() if case.body is not None and case.any_split]
SMALL = [case for case in BODIES if len(case.body or b"") < 8_000]
LARGE = [case for case in BODIES if case not in SMALL]


def outcome(case: Case, packets: list[bytes]) -> tuple[object, ...]:
    """What these packets come to, without a socket."""
    drafted: list[str] = []
    facts = Facts(model="m", provider_host="h")
    reader = Reader(declared=case.content_type, limits=Limits(), on_text=drafted.append)
    try:
        for packet in packets:
            if reader.feed(packet):
                break
        arguments = judge(reader.end(), TOOL, CONTEXT, facts)
        ended: tuple[object, ...] = ("applied", str(arguments))
    except Refusal as refusal:
        ended = (refusal.gate, refusal.error.code, refusal.error.reason, refusal.error.retryable, refusal.path)
    answer = reader.answer
    return (*ended, "".join(drafted), answer.finish_reason, answer.usage, set(answer.notes), facts.notes)


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in SMALL])
@settings(max_examples=25, deadline=None)
@given(places=st.lists(st.integers(0, 2**31), max_size=40))
def test_any_split_comes_to_the_same(case: Case, places: list[int]):
    assert case.body is not None
    assert outcome(case, cut(case.body, places)) == outcome(case, [case.body])


@pytest.mark.parametrize("size", [997, 16_384])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in LARGE])
def test_large_answers_in_packets_come_to_the_same(case: Case, size: int):
    assert case.body is not None
    packets = [case.body[place : place + size] for place in range(0, len(case.body), size)]
    assert outcome(case, packets) == outcome(case, [case.body])


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in SMALL])
def test_every_byte_on_its_own_comes_to_the_same(case: Case):
    assert case.body is not None
    single = [case.body[place : place + 1] for place in range(len(case.body))]
    assert outcome(case, single) == outcome(case, [case.body])


STREAMED = [case for case in SMALL if case.stream]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in STREAMED])
@settings(max_examples=3, deadline=None)
@given(places=st.lists(st.integers(0, 2**31), min_size=1, max_size=8))
def test_any_split_comes_to_the_same_over_a_socket(case: Case, places: list[int]):
    assert case.body is not None
    head = case.responses[0][0]
    assert isinstance(head, bytes)
    opening = head[: head.index(b"\r\n\r\n") + 4]
    filled, _ = run((opening, *cut(case.body, places), Fin()), stream=True)
    error = filled.error
    assert ("applied" if error is None else (error.code, error.reason, error.retryable)) == case.expected


@settings(max_examples=20, deadline=None)
@given(places=st.lists(st.integers(0, 2**31), min_size=1, max_size=12), size=st.integers(1, 400))
def test_good_framing_may_be_cut_anywhere_too(places: list[int], size: int):
    """Status line, headers, chunk sizes and chunks: only broken framing depends on the cut."""
    [case] = [case for case in BODIES if case.id == "S01"]
    assert case.body is not None
    chunks = b"".join(chunked(case.body[at : at + size]) for at in range(0, len(case.body), size))
    filled, _ = run(cut(H_CHUNKED + chunks + b"0\r\n\r\n", places))
    assert filled.error is None
