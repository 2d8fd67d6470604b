"""The tool, the context and the one call that these tests share."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from receipts.contracts import Context, Effect, Read, ReplayRule, Statement, Tool
from receipts.fill import Client, Filled, Limits, Provider, fill
from receipts.fill.filling import forget_downgrades
from tests.fill.stub import Response, Stub, playing

KEY = "sk-test-3f9c1d2e"
SCHEMA = Path(__file__).with_name("file_followup.json")

TOOL = Tool(
    name="file_followup",
    version=1,
    effect=Effect.WRITE,
    replay_rule=ReplayRule.UNLESS_APPLIED,
    schema_path=SCHEMA,
    schema_sha256=hashlib.sha256(SCHEMA.read_bytes()).hexdigest(),
    instruction="Draft one follow-up for the ticket from a colleague's notes.",
    route_field="ticket_id",
    subject_form=re.compile(r"TCK-\d+"),
    # a fill never reads or changes anything
    read=Read(sql="", build=lambda _subject, _read: CONTEXT),
    apply=Statement(sql=""),
)
CONTEXT = Context(
    subject="TCK-0001",
    title="Printer broken",
    conversation=(("bea", "It jams again."), ("amy", "Have you tried paper?")),
    choices={"assignee": ("amy", "bob")},
)
#: Plenty of time: no test passes or fails by the clock unless it asks for a short budget.
PLENTY = 10.0


def run(
    *responses: Response,
    notes: str = "The printer on floor 3 jams.",
    budget: float = PLENTY,
    on_draft: Callable[[str], None] | None = None,
    limits: Limits | None = None,
    tool: Tool = TOOL,
    context: Context = CONTEXT,
    presses: int = 1,
    **settings: Any,
) -> tuple[Filled, Stub]:
    """Fill against a stub that plays `responses`; the last press's result, and the stub."""

    async def press() -> tuple[Filled, Stub]:
        async with playing(*responses) as stub, Client() as client:
            provider = Provider(**{"url": stub.url, "api_key": KEY, **settings})
            for _ in range(presses):
                filled = await fill(
                    tool,
                    context,
                    notes,
                    provider=provider,
                    client=client,
                    budget_seconds=budget,
                    on_draft=on_draft,
                    limits=limits,
                )
        return filled, stub

    forget_downgrades()
    return asyncio.run(press())
