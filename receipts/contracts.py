"""What a tool is: an allow-listed action with a frozen input schema.

A contract is frozen: its schema lives in a JSON file whose sha256 is pinned beside the declaration. Changing the
file without changing the version stops the process at start-up (`receipts.E001`), because a receipt of version 1
must mean the same thing in ten years.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from receipts.lifecycle import Outcome


class Effect(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    WRITE = "write"
    OUTBOX = "outbox"


class ReplayRule(StrEnum):
    """Whether an operator may run it again as a new run: a property of the operation, not of the button."""

    FREELY = "freely"
    UNLESS_APPLIED = "unless_applied"
    NEVER = "never"


Arguments = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the route and the domain know before the model speaks: built by `Tool.read`, never by the model."""

    subject: str
    """The ticket id: compared with the model's `ticket_id`, never corrected."""
    title: str
    """The ticket's subject line."""
    conversation: tuple[tuple[str, str], ...]
    """(author, text), newest first, already cut to the prompt's budget."""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Argument name → the values allowed for this subject now (`{"assignee": ("ada", "alan")}`)."""
    version: str = ""
    """Opaque mark of the conversation's state, to say afterwards whether it moved while the model wrote."""
    refusal: str | None = None
    """A reason (`ticket_closed`) why a press would be refused at apply; informs, does not decide."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The domain's own data for `Tool.derive` and the change; never shown to a model."""


@dataclass(frozen=True, kw_only=True)
class FollowOn:
    """The next tool call that a change asks for: its receipt is opened, queued, with the stamp that applies the change.

    A change that has to leave the database asks for its delivery so: the outbox row, the applied receipt and the
    pending delivery are one commit.
    """

    tool: str
    subject: str
    key: str
    """The idempotency key, with a prefix that clients may not send (`outbox:`)."""
    arguments: Arguments


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What a tool hands back from inside the apply transaction."""

    result_ref: str
    """The changed thing's id: `FUP-…`."""
    context_moved: bool = False
    """The conversation changed while the model wrote; said on the receipt, does not block."""
    output: dict[str, Any] | None = None
    """What the tool found or did beyond the reference, JSON-safe; kept, redacted, in the attempt's `tool_result`."""
    follow_on: FollowOn | None = None


@dataclass(frozen=True, kw_only=True)
class Read:
    """How the context of a subject is read: in SQL, so that commit 1 can read it in its own statement."""

    sql: str
    """One row with one json column named `context`; no row where there is no such subject `%(subject)s`."""
    build: Callable[[str, Any], Context]
    """(subject, that json) → Context."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A change that is SQL all the way: the ledger runs it and the stamp as one statement.

    Worth it on the hot path only; other tools give a function instead. Each round trip between fence, change and
    stamp costs a press about a tenth of its time.
    """

    sql: str
    """Common table expressions; the last is `change (result_ref, refusal, moved)`, one row.

    They draw on `fence (id, beneficiary)`, which is empty when the attempt no longer owns its receipt: then nothing
    may be changed. `refusal` is a reason as in `ToolRefusal` and excludes any change; `moved` says whether the
    conversation changed while the model wrote. Parameters: `%(subject)s`, `%(context_version)s`, and each argument as
    `%(argument_summary)s`.
    """


@dataclass(frozen=True, kw_only=True)
class Handover:
    """A change outside the database, made between the two commits: at most once.

    `hand_over(arguments, receipt)` runs without a transaction. It may read the database first, and closes its
    connection before it talks to the outside. It raises NotHandedOver where it is certain that nothing left; after
    anything else that it raises, and where its process dies, the receipt is settled `outcome_unknown`: said, not
    guessed, and never run again.
    """

    hand_over: Callable[[Arguments, Any], Applied]


class NotHandedOver(Exception):
    """Nothing has left: certain, because the other side was not reached or said no.

    `reason` is a key of `receipts.errors.REASONS`, below the code `delivery_failed`.
    """

    def __init__(self, reason: str, *, retryable: bool) -> None:
        self.reason = reason
        self.retryable = retryable
        super().__init__(reason)


class ToolRefusal(Exception):
    """Raised by a tool's function when the domain will not take the change; the transaction rolls back.

    `reason` is a key of `receipts.errors.REASONS`: `ticket_closed`, `ticket_gone`, `policy_assignee`.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One version of one allow-listed action."""

    name: str
    """`file_followup`: the row's `tool_name`."""
    version: int
    """Counts from 1. A changed schema is a new version."""
    effect: Effect
    replay_rule: ReplayRule
    schema_path: Path
    """The frozen JSON Schema 2020-12."""
    schema_sha256: str
    """Hex digest of the file's bytes, pinned here so that the file cannot drift."""
    instruction: str = ""
    """What the model is told to do, in the system message. Never holds anybody's text. Empty: no model."""
    route_field: str
    """The argument that the route owns: `ticket_id`."""
    subject_form: re.Pattern[str]
    """What a subject looks like; anything else is no subject, and never reaches the database."""
    read: Read
    apply: Statement | Handover | Callable[[Arguments, Context, Any], Applied]
    """The change: a Statement, or (arguments, context, receipt) → Applied inside the apply transaction.

    Locks and re-checks the subject itself. A function raises ToolRefusal. A Handover leaves the database.
    """
    derive: Callable[[Context], Arguments] | None = None
    """The arguments that the route itself knows: no model, and a press has nothing to say.

    None: a model fills them from a person's notes, or the person gives them.
    """

    policy: Callable[[Arguments], str | None] | None = None
    """What the domain still asks of arguments that fit the schema: a reason (`policy_due_on`), or None."""
    evidence: str = ""
    """SQL: (receipt_id, result_ref) of every change of this tool that is there, for `manage.py verify_ledger`."""

    @property
    def contract(self) -> str:
        """`file_followup@1`, as the wire and the admin show it."""
        return f"{self.name}@{self.version}"

    @property
    def wire_name(self) -> str:
        """The name given to providers: `[A-Za-z0-9_-]{1,64}`, the same in every mode."""
        return f"{self.name}_v{self.version}"

    @cached_property
    def schema_bytes(self) -> bytes:
        return self.schema_path.read_bytes()

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The frozen schema. Do not change what this returns."""
        loaded: dict[str, Any] = json.loads(self.schema_bytes)
        return loaded

    @cached_property
    def validator(self) -> Draft202012Validator:
        return Draft202012Validator(self.schema)

    def replayable(self, outcome: Outcome) -> bool:
        """Whether a run that came to this may be replayed, by the contract's rule alone."""
        match self.replay_rule:
            case ReplayRule.FREELY:
                return True
            case ReplayRule.UNLESS_APPLIED:
                return outcome is not Outcome.OK
            case ReplayRule.NEVER:
                return False

    def digest(self) -> str:
        """The sha256 of the file as it is now."""
        return hashlib.sha256(self.schema_bytes).hexdigest()


class Registry:
    """The tools this process may run, by name and version. Filled at start-up, never by a request."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, int], Tool] = {}
        self.duplicates: list[Tool] = []

    def register(self, tool: Tool) -> Tool:
        """Add a tool. A second one of the same name and version is kept aside for the start-up check."""
        key = (tool.name, tool.version)
        if key in self._tools and self._tools[key] is not tool:
            self.duplicates.append(tool)
        else:
            self._tools[key] = tool
        return tool

    def get(self, name: str, version: int) -> Tool:
        """Raises: KeyError when this process does not hold that version."""
        return self._tools[name, version]

    def newest(self, name: str) -> Tool:
        """Raises: KeyError when there is no such tool."""
        versions = [version for (known, version) in self._tools if known == name]
        if not versions:
            raise KeyError(name)
        return self._tools[name, max(versions)]

    def current(self, name: str, chosen: Mapping[str, int]) -> Tool:
        """The version that new presses open: the one chosen (the setting CONTRACTS), else the newest.

        Raises: KeyError when there is no such tool, or not that version of it.
        """
        return self.get(name, chosen[name]) if name in chosen else self.newest(name)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted({name for name, _ in self._tools}))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())


registry = Registry()
