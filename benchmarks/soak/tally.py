"""What came of a soak: figures, and a verdict for each rule that nothing may break."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.processes import ROOT
from benchmarks.soak.clients import Heard, Press
from benchmarks.soak.mailbox import Mailbox
from benchmarks.soak.plan import Options
from benchmarks.soak.product import Product
from benchmarks.soak.provider import Provider
from benchmarks.soak.watch import Watch

if TYPE_CHECKING:
    from benchmarks.soak.engine import Course

#: Broken rows that a verdict names.
NAMED = 5


@dataclass(frozen=True)
class Verdict:
    rule: str
    broken: tuple[str, ...]
    """Whatever breaks it; nothing: it holds."""

    @property
    def holds(self) -> bool:
        return not self.broken

    def __str__(self) -> str:
        if self.holds:
            return f"ok      {self.rule}"
        more = f" and {len(self.broken) - NAMED} more" if len(self.broken) > NAMED else ""
        return f"BROKEN  {self.rule}: {'; '.join(self.broken[:NAMED])}{more}"


@dataclass(frozen=True)
class Tally:
    seed: int
    figures: dict[str, Any]
    verdicts: tuple[Verdict, ...]
    tracebacks: dict[str, int] = field(default_factory=dict)
    """Last lines of stack traces in the processes' logs: what died under a fault says so there."""

    @property
    def broken(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if not verdict.holds]

    def as_json(self) -> dict[str, Any]:
        verdicts = [{**asdict(verdict), "holds": verdict.holds} for verdict in self.verdicts]
        return {"seed": self.seed, "figures": self.figures, "verdicts": verdicts, "tracebacks": self.tracebacks}

    def __str__(self) -> str:
        width = max(map(len, self.figures))
        lines = [f"{name:{width}}  {_words(value)}" for name, value in self.figures.items()]
        return "\n".join([*lines, "", *map(str, self.verdicts)])


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} × {name}" for name, count in value.items()) or "none"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


#: Each row it finds breaks the rule.
RULES = {
    "every receipt is settled": "SELECT id::text FROM tool_receipts WHERE status = 'pending'",
    "no retry is owed": """
        SELECT id::text FROM tool_receipts WHERE status = 'failed' AND next_attempt_at IS NOT NULL""",
    "follow-ups = applied receipts, one to one": """
        SELECT coalesce(r.id, f.receipt_id)::text
        FROM (SELECT * FROM tool_receipts WHERE tool_name = 'file_followup' AND status = 'applied') r
        FULL JOIN followups f ON f.receipt_id = r.id AND f.id = r.result_ref AND f.ticket_id = r.subject
        WHERE r.id IS NULL OR f.id IS NULL""",
    "mails = applied receipts, and each has one delivery": """
        SELECT coalesce(r.id, m.receipt_id)::text
        FROM (SELECT * FROM tool_receipts WHERE tool_name = 'email_requester' AND status = 'applied') r
        FULL JOIN outbox m ON m.receipt_id = r.id AND m.id = r.result_ref
        LEFT JOIN tool_receipts d ON d.idempotency_key = 'outbox:' || m.id AND d.user_id = m.created_by
        WHERE r.id IS NULL OR m.id IS NULL OR d.id IS NULL""",
    "no key has two receipts": """
        SELECT idempotency_key FROM tool_receipts GROUP BY user_id, idempotency_key HAVING count(*) > 1""",
    "each slot has one run, and every run has ended": """
        SELECT workflow || ' ' || coalesce(slot::text, id::text) FROM runs
        WHERE workflow LIKE 'nightly%' AND parent_id IS NULL AND finished_at IS NULL
        UNION ALL SELECT workflow || ' ' || count(*) FROM runs WHERE slot IS NOT NULL GROUP BY workflow, slot
        HAVING count(*) > 1""",
    "no ticket was followed up twice by schedules": """
        SELECT r.subject FROM tool_receipts r JOIN runs run ON run.id = r.run_id
        WHERE run.parent_id IS NOT NULL AND r.tool_name = 'file_followup' AND r.status = 'applied'
        GROUP BY r.subject HAVING count(*) > 1""",
}
INVARIANTS = {
    "I1 at most one change a receipt": """
        SELECT receipt_id::text FROM followups GROUP BY receipt_id HAVING count(*) > 1
        UNION ALL SELECT receipt_id::text FROM outbox GROUP BY receipt_id HAVING count(*) > 1""",
    "I2 applied if and only if its change is there and result_ref names it": """
        SELECT r.id::text FROM tool_receipts r
        LEFT JOIN followups f ON f.receipt_id = r.id LEFT JOIN outbox m ON m.receipt_id = r.id
        WHERE r.tool_name IN ('file_followup', 'email_requester')
          AND CASE WHEN r.status = 'applied' THEN r.result_ref ELSE NULL END IS DISTINCT FROM coalesce(f.id, m.id)""",
    "I3 nothing was committed by an attempt that was answered as failed": """
        SELECT a.receipt_id::text FROM attempts a
        GROUP BY a.receipt_id HAVING count(*) FILTER (WHERE a.status = 'ok') > 1
            OR max(a.attempt) FILTER (WHERE a.status = 'ok') < max(a.attempt)""",
    "I5 pending has a deadline": "SELECT id::text FROM tool_receipts WHERE status = 'pending' AND deadline_at IS NULL",
    "I6 attempts only grow, by one": """
        SELECT receipt_id::text FROM attempts GROUP BY receipt_id
        HAVING min(attempt) <> 1 OR max(attempt) <> count(*)""",
    "I7 at most two provider calls an attempt": """
        SELECT receipt_id::text FROM attempts WHERE (model_decision ->> 'calls')::int > 2""",
}

_BY_END = """
SELECT tool_name, status, coalesce(error_code || coalesce('/' || error_reason, ''), ''), count(*)
FROM tool_receipts GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3
"""
_ATTEMPTS = """
SELECT count(*), count(*) FILTER (WHERE attempt > 1), count(*) FILTER (WHERE error_code = 'abandoned'),
       count(*) FILTER (WHERE error_code = 'deadline_exceeded' AND error_reason = 'attempt_deadline'),
       coalesce(max((model_decision ->> 'calls')::int), 0), max(attempt)
FROM attempts
"""


async def tally(
    options: Options,
    course: Course,
    presses: list[Press],
    heard: Heard,
    watch: Watch,
    provider: Provider,
    mailbox: Mailbox,
    product: Product,
) -> Tally:
    """Ask the tables, and compare with what clients, provider and mail server know for themselves."""
    ends = await product.ask(_BY_END)
    attempts, again, abandoned, fenced, most_calls, most_attempts = (await product.ask(_ATTEMPTS))[0]
    rows = {
        key: (str(receipt_id), status, result_ref, attempt)
        for key, receipt_id, status, result_ref, attempt in await product.ask(
            "SELECT idempotency_key, id, status, result_ref, attempt FROM tool_receipts"
        )
    }
    told = {
        (str(receipt_id), code, reason)
        for receipt_id, code, reason in await product.ask("SELECT receipt_id, error_code, error_reason FROM attempts")
    }
    (followups,), (mails,) = (
        await product.ask("SELECT count(*) FROM followups"),
        await product.ask("SELECT count(*) FROM outbox"),
    )
    applied = Counter(name for name, status, _why, count in ends if status == "applied" for _ in range(count))
    failed = {f"{name} {why}": count for name, status, why, count in ends if status == "failed"}
    figures = {
        "seed": options.seed,
        "pressed": f"{len(presses)} keys ({_words(Counter(press.way for press in presses))})",
        "certain to their clients": dict(Counter(press.outcome or "NOT CERTAIN" for press in presses)),
        "receipts applied": dict(applied),
        "receipts failed": failed,
        "attempts": f"{attempts}, {again} of them retries, at most {most_attempts} of one receipt",
        "abandoned, fenced": f"{abandoned}, {fenced}",
        "answers": dict(heard.answers.most_common()),
        "lines broken under clients": heard.broken_lines,
        "answered from the ledger": heard.deduplicated,
        "provider calls": f"{sum(provider.calls.values())}, at most {most_calls} an attempt",
        "follow-ups, mails": f"{followups[0]}, {mails[0]} ({sum(mailbox.taken.values())} taken by the mail server)",
        "faults": dict(sorted(course.faults.items())),
        "faults that found nothing to break": course.missed,
        "ended by themselves": dict(product.ended_by_themselves),
        "jobs that failed for good": dict(
            await product.ask("SELECT task_name, count(*) FROM procrastinate_jobs WHERE status = 'failed' GROUP BY 1")
        ),
        "looks at the tables meanwhile": watch.looks,
        "load, then quiet after": f"{course.load_seconds:.0f} s, "
        + ("NEVER" if course.quiet_after is None else f"{course.quiet_after:.0f} s"),
    }

    verdicts = [
        _verdict("all was quiet in the end", [course.left or "?"] if course.quiet_after is None else []),
        *[_verdict(rule, _texts(await product.ask(query))) for rule, query in RULES.items()],
        _verdict("every client came to a certain answer", (p.name for p in presses if not p.outcome)),
        _verdict("every success that a client was told is there, with the same result", _successes(presses, rows)),
        _verdict("every failure for good that a client was told is one", _failures(presses, rows)),
        _verdict("no message was delivered twice", (name for name, count in mailbox.taken.items() if count > 1)),
        _verdict("manage.py verify_ledger finds nothing", await asyncio.to_thread(_verified, product)),
        _verdict("no receipt was called overdue before its deadline", _counted(heard.clock_lies, "times")),
    ]
    seen = {
        "I3 nothing was committed by an attempt that was answered as failed": (
            f"{press.name} {code}/{reason}"
            for press in presses
            for receipt_id, code, reason in press.told
            if (receipt_id, code, reason) not in told
        ),
        "I5 pending has a deadline": map(str, watch.without_deadline),
        "I6 attempts only grow, by one": [*map(str, watch.went_back), *_fell(presses)],
        "I7 at most two provider calls an attempt": (
            f"{press.name}: {provider.calls[press.name]} calls"
            for press in presses
            if provider.calls[press.name] > 2 * (rows[press.key][3] if press.key in rows else 0)
        ),
    }
    invariants = {
        rule: _verdict(rule, [*_texts(await product.ask(query)), *seen.get(rule, ())])
        for rule, query in INVARIANTS.items()
    }
    sitting = "I4 nothing sits in an open transaction"
    invariants[sitting] = _verdict(sitting, (f"{seconds:.1f} s" for seconds in watch.sitting))
    wrong = "I8 no 500 and no other answer that a correct client must not get"
    invariants[wrong] = _verdict(wrong, heard.unexpected)
    verdicts += [invariants[rule] for rule in sorted(invariants)]
    return Tally(
        seed=options.seed,
        figures=figures,
        verdicts=tuple(verdicts),
        tracebacks=dict(product.tracebacks().most_common()),
    )


def _verdict(rule: str, broken: Iterable[str]) -> Verdict:
    return Verdict(rule, tuple(broken))


def _texts(rows: list[tuple[Any, ...]]) -> list[str]:
    return [str(row[0]) for row in rows]


def _counted(count: int, of: str) -> list[str]:
    return [f"{count} {of}"] if count else []


def _successes(presses: list[Press], rows: dict[str, tuple[str, str, str | None, int]]) -> Iterable[str]:
    for press in presses:
        if press.results and press.outcome != "applied":
            yield f"{press.name} was told {press.results} and then {press.code}"
        if press.outcome != "applied":
            continue
        row = rows.get(press.key)
        if row is None or row[:3] != (press.receipt_id, "applied", press.result_ref) or len(press.results) != 1:
            yield f"{press.name} was told {press.results}, and the row says {row}"


def _failures(presses: list[Press], rows: dict[str, tuple[str, str, str | None, int]]) -> Iterable[str]:
    """A press that its client took for failed is failed: nothing was filed behind its back.

    But for queued receipts, which the system may continue after its client has given up.
    """
    for press in presses:
        row = rows.get(press.key)
        if press.outcome == "failed" and row is not None and row[1] != "failed" and press.way != "async":
            yield f"{press.name} was told {press.code}, and the row says {row}"


def _fell(presses: list[Press]) -> Iterable[str]:
    """Presses whose answers named a smaller attempt after a greater one. Double clicks hear two voices at once."""
    for press in presses:
        if not press.twice and press.attempts != sorted(press.attempts):
            yield f"{press.name}: {press.attempts}"


def _verified(product: Product) -> list[str]:
    done = subprocess.run(
        [sys.executable, "manage.py", "verify_ledger", "--no-color"],
        cwd=ROOT,
        env=product.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return []
    return [line for line in done.stdout.splitlines() if line.startswith("BROKEN")] or [done.stderr[-300:]]
