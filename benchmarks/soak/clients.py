"""Clients as they should be: one key a press, sent again until its answer is certain; and what each was told.

Certain is an applied receipt, a failure for good, or that a retryable failure came so often that the person gave up:
each of them says that nothing is on its way any more. A broken line, a time-out, an unfinished stream say nothing.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp

#: Retryable failures after which somebody gives up.
PATIENCE = 15
#: Codes that say "not now" and of which no attempt has to bear witness.
NOT_NOW = {"idempotency_in_flight", "throttled", "overloaded", "database_unavailable"}
#: Codes that a press may come to for good.
FOR_GOOD = {"fill_invalid", "arg_mismatch", "ticket_conflict", "fill_failed", "delivery_failed", "outcome_unknown"}
#: Keys that no client should send: each is refused, and never with a 500 (I8).
HOSTILE_KEYS = (
    "",
    " ",
    "short",
    "x" * 256,
    "x" * 8000,
    "replay:12345678",
    "outbox:MSG-10000",
    "a b c d e f g",
    '"abcdefgh',
)


@dataclass
class Press:
    """One intention of one person, and what came of it."""

    name: str
    """`press-17`, also in its notes, so that the provider can count its calls."""
    token: str
    ticket: str
    what: str
    """`followups` or `emails`."""
    way: str
    """`json`, `stream` or `async`."""
    twice: bool
    """Pressed twice at once, as a double click does."""

    outcome: str = ""
    """`applied` or `failed`; empty: never certain."""
    result_ref: str | None = None
    receipt_id: str | None = None
    code: str = ""
    told: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Failures that an answer spoke of: receipt, code, reason."""
    attempts: list[int] = field(default_factory=list)
    """As answers named them, in their order."""
    results: set[str] = field(default_factory=set)
    """Every `result_ref` that an answer named: one, or something is wrong."""

    @property
    def key(self) -> str:
        return f"soak-{self.name}-key"


@dataclass
class Heard:
    """Over all clients."""

    answers: Counter[str] = field(default_factory=Counter)
    """By status and code."""
    broken_lines: int = 0
    """Answers that never came, or not whole."""
    deduplicated: int = 0
    unexpected: list[str] = field(default_factory=list)
    """Answers that a correct client must not get."""
    clock_lies: int = 0
    """Receipts that were called overdue before their deadline, which only a wrong clock can say."""


class Uncertain(Exception):
    """Nobody can know from this what happened."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: dict[str, Any]
    retry_after: float
    replayed: bool


class Clients:
    def __init__(self, bases: list[str], seed: int, patience_seconds: float) -> None:
        self.heard = Heard()
        self._bases = bases
        self._chance = random.Random(f"{seed} clients")
        self._timeout = aiohttp.ClientTimeout(total=patience_seconds, sock_connect=3)
        self.session: aiohttp.ClientSession

    async def __aenter__(self) -> Clients:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self.session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def carry(self, press: Press) -> None:
        """See one press to its certain end; afterwards now and then ask again, as clients do."""
        again = [self._until_certain(press) for _ in range(2 if press.twice else 1)]
        await asyncio.gather(*again)
        if press.outcome == "applied" and self._chance.random() < 0.2:
            await self._until_certain(press)
        if press.outcome == "applied" and self._chance.random() < 0.05:
            await self._reuse_key(press)
        if self._chance.random() < 0.1:
            await self._hostile(press)

    # ── until it is certain ──────────────────────────────────────────────────────────────────────────────────────

    async def _until_certain(self, press: Press) -> None:
        failures = 0
        while True:
            try:
                answer = await self._ask(press)
            except (aiohttp.ClientError, TimeoutError, OSError, Uncertain, ValueError):
                self.heard.broken_lines += 1
                await asyncio.sleep(self._chance.uniform(0.2, 1.0))
                continue
            if self._applied(press, answer):
                return
            code, reason = str(answer.body.get("code", "")), answer.body.get("reason")
            if code in NOT_NOW:
                await asyncio.sleep(min(answer.retry_after, 2.0) * self._chance.uniform(0.5, 1.0))
                continue
            receipt_id = answer.body.get("receipt_id")
            if receipt_id is None or (not answer.body.get("retryable") and code not in FOR_GOOD):
                self.heard.unexpected.append(f"{press.name}: {answer.status} {answer.body}"[:300])
                press.outcome = press.outcome or "failed"
                return
            press.told.append((receipt_id, code, reason))
            failures += 1
            if not answer.body["retryable"] or failures >= PATIENCE:
                press.outcome = press.outcome or "failed"
                press.code = f"{code}/{reason}" if reason else code
                press.receipt_id = receipt_id
                return
            await asyncio.sleep(self._chance.uniform(0.3, 1.5))

    def _applied(self, press: Press, answer: Answer) -> bool:
        if answer.body.get("status") != "applied":
            return False
        if answer.status not in (200, 201) or not answer.body["result_ref"]:
            self.heard.unexpected.append(f"{press.name}: {answer.status} {answer.body}"[:300])
        self.heard.deduplicated += answer.replayed
        press.outcome, press.receipt_id = "applied", answer.body["receipt_id"]
        press.result_ref = answer.body["result_ref"]
        press.results.add(answer.body["result_ref"])
        return True

    async def _ask(self, press: Press) -> Answer:
        """Press once, in the press's way. Raises: Uncertain, and what a broken line raises."""
        headers = {
            "Idempotency-Key": press.key,
            "Authorization": f"Token {press.token}",
            "Accept": "text/event-stream" if press.way == "stream" else "application/json",
        }
        if press.way == "async":
            headers["Prefer"] = "respond-async"
        base = self._chance.choice(self._bases)
        address = f"{base}/api/v1/tickets/{press.ticket}/{press.what}"
        notes = f"{press.name}: the customer is still blocked on SSO."
        async with self.session.post(address, json={"notes": notes}, headers=headers) as response:
            if response.content_type == "text/event-stream":
                body = await self._last_receipt(response, press)
                status = int(body.get("http_status") or 200)
            else:
                body, status = await response.json(content_type=None), response.status
                if not isinstance(body, dict):
                    raise Uncertain
            if response.status >= 400 and response.content_type != "application/problem+json":
                self.heard.unexpected.append(f"{press.name}: {response.status} is no problem document")
            replayed = response.headers.get("Idempotent-Replayed") == "true"
            retry_after = float(response.headers.get("Retry-After") or 1)
        self.heard.answers[f"{status} {body.get('code') or body.get('error_code') or body.get('status')}"] += 1
        self._notice(press, body)
        if status == 202:
            body, status = await self._poll(press, body), 200
        return Answer(status=status, body=_problem_of(body), retry_after=retry_after, replayed=replayed)

    async def _last_receipt(self, response: aiohttp.ClientResponse, press: Press) -> dict[str, Any]:
        """The last `receipt` event of a stream. Raises: Uncertain where it does not say how it ended."""
        told: dict[str, Any] = {}
        event = ""
        async for raw in response.content:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: ") and event == "receipt":
                told = json.loads(line.removeprefix("data: "))
                self._notice(press, told)
        if told.get("status") not in ("applied", "failed"):
            raise Uncertain
        return told

    async def _poll(self, press: Press, accepted: dict[str, Any]) -> dict[str, Any]:
        """Read a queued receipt until it is settled; a retryable end is given time for the system's own retry.

        Raises: Uncertain when that takes too long; pressing again is harmless.
        """
        give_up_at = time.monotonic() + 20
        address = self._chance.choice(self._bases) + accepted["links"]["self"]
        while time.monotonic() < give_up_at:
            await asyncio.sleep(self._chance.uniform(0.4, 1.0))
            async with self.session.get(address, headers={"Authorization": f"Token {press.token}"}) as response:
                told = await response.json(content_type=None)
                if response.status != 200:
                    continue
            self._notice(press, told)
            if told["status"] == "applied" or told["outcome"] == "failed":
                return dict(told)
        raise Uncertain

    def _notice(self, press: Press, told: dict[str, Any]) -> None:
        if "attempt" not in told:
            return
        press.attempts.append(told["attempt"])
        press.results |= {told["result_ref"]} if told["result_ref"] else set()
        # our clock is the database's: the same machine
        if told["overdue"] and dt.datetime.fromisoformat(told["deadline_at"]) > dt.datetime.now(dt.UTC):
            self.heard.clock_lies += 1

    # ── what must be refused ─────────────────────────────────────────────────────────────────────────────────────

    async def _reuse_key(self, press: Press) -> None:
        """Another request under the same key: refused, whatever fails meanwhile."""
        await self._refused(press, press.key, "something else altogether", {422})

    async def _hostile(self, press: Press) -> None:
        await self._refused(press, self._chance.choice(HOSTILE_KEYS), "hostile", {400})

    async def _refused(self, press: Press, key: str, notes: str, expected: set[int]) -> None:
        address = f"{self._chance.choice(self._bases)}/api/v1/tickets/{press.ticket}/{press.what}"
        headers = {"Idempotency-Key": key, "Authorization": f"Token {press.token}"}
        try:
            async with self.session.post(address, json={"notes": notes}, headers=headers) as response:
                body = await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return
        self.heard.answers[f"{response.status} {body.get('code')}"] += 1
        if response.status not in expected | {503}:
            self.heard.unexpected.append(f"key {key[:30]!r}: {response.status} {body}"[:300])


def _problem_of(body: dict[str, Any]) -> dict[str, Any]:
    """A settled receipt that failed, as the problem document that it would have been answered with."""
    if body.get("status") != "failed":
        return body
    return {
        "code": body["error_code"],
        "reason": body["error_reason"],
        "retryable": body["outcome"] == "retryable",
        "receipt_id": body["receipt_id"],
    }
