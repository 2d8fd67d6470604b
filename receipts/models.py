"""The rows. Fields, named constraints, permissions; no behaviour beyond reading.

Only `receipts.ledger` writes these tables. The constraints say the rules by name, and the triggers of migration
`0002_guard_the_ledger` hold what a constraint cannot: legal transitions, frozen identity, no DELETE.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from receipts import clock
from receipts.contracts import Effect
from receipts.ids import short_name, uuid7
from receipts.lifecycle import LIVE, Outcome, Status, outcome

#: The allow-list of tools that the database itself holds. A new tool stands here too, and in a migration.
ALLOWED_TOOLS = ["check_contact_email", "close_ticket", "deliver_email", "email_requester", "file_followup"]


class Trigger(models.TextChoices):
    """What started a run."""

    PRESS = "press", "a press"
    SCHEDULE = "schedule", "a schedule"
    REPLAY = "replay", "a replay"
    COMMAND = "command", "a command"


class Run(models.Model):
    """One execution of a workflow; a press is the workflow `file_followup`."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workflow = models.TextField(db_collation="C")
    trigger = models.TextField(choices=Trigger.choices, db_collation="C")
    parent = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="children", help_text="the workflow's run"
    )
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    slot = models.DateTimeField(null=True, blank=True, help_text="scheduled instant, UTC; one run a slot")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True, help_text="set for runs that hold others")
    planned = models.PositiveIntegerField(
        null=True, blank=True, help_text="how many receipts a workflow's run set out to open; empty until it has chosen"
    )
    manifest = models.JSONField(help_text="app version, contract hashes, provider host, model, mode, budgets")

    class Meta:
        db_table = "runs"
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["workflow", "slot"], name="one_run_per_slot"),
            models.CheckConstraint(condition=Q(trigger__in=Trigger.values), name="run_trigger_known"),
        ]
        indexes = [
            models.Index(fields=["workflow", "-started_at"], name="run_by_workflow"),
            # almost all are presses, and whoever asks for the others would read those
            models.Index(
                fields=["trigger", "-id"], condition=~Q(trigger=Trigger.PRESS.value), name="run_by_trigger_but_presses"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workflow} {self.started_at:%Y-%m-%d %H:%M}"


def _all_null(*fields: str) -> Q:
    return Q(**{f"{name}__isnull": True for name in fields})


def _none_null(*fields: str) -> Q:
    return Q(**{f"{name}__isnull": False for name in fields})


class Receipt(models.Model):
    """The durable row of one tool call. Unique per person and idempotency key, for good."""

    #: Seconds that the provider asked us to wait; known to the process that ran the attempt, not kept.
    retry_after: int | None = None
    #: What the tool found or did beyond the reference; kept in the attempt, here where somebody has just read it.
    output: dict[str, Any] | None = None

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="receipts", db_index=False, help_text="who pressed"
    )
    on_behalf_of = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        related_name="+",
        null=True,
        blank=True,
        db_index=False,
        db_column="on_behalf_of",
    )
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        related_name="+",
        db_index=False,
        help_text="who began this attempt: the owner, or the operator who retried",
    )
    idempotency_key = models.TextField(db_collation="C")
    request_fingerprint = models.BinaryField(help_text="HMAC-SHA-256 over route, ticket and canonical body")
    run = models.ForeignKey(Run, models.PROTECT, related_name="receipts", db_index=False)

    tool_name = models.TextField(db_collation="C")
    contract_version = models.PositiveIntegerField()
    contract_sha256 = models.TextField(db_collation="C")
    effect = models.TextField(choices=[(e.value, e.value) for e in Effect], db_collation="C")
    subject = models.TextField(db_collation="C", help_text="the ticket id; text, so that no ticket takes it along")
    input_hash = models.TextField(db_collation="C", help_text="16 hex of sha256 over the redacted input")
    arguments_json = models.JSONField(default=dict, help_text="validated arguments, redacted; {} until then")

    status = models.TextField(choices=[(s.value, s.value) for s in Status], db_collation="C")
    attempt = models.PositiveIntegerField(default=1)
    start_by = models.DateTimeField(null=True, blank=True, help_text="a queued receipt must begin by then")
    started_at = models.DateTimeField(null=True, blank=True, help_text="this attempt began")
    deadline_at = models.DateTimeField(help_text="this attempt's end of time; of a queued receipt its start_by")
    settled_at = models.DateTimeField(null=True, blank=True)
    applied_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    http_status = models.PositiveIntegerField(null=True, blank=True)
    error_code = models.TextField(null=True, blank=True, db_collation="C")  # noqa: DJ001 - NULL says "no error"
    error_reason = models.TextField(null=True, blank=True, db_collation="C")  # noqa: DJ001
    retryable = models.BooleanField(null=True, blank=True)
    result_ref = models.TextField(null=True, blank=True, db_collation="C")  # noqa: DJ001
    context_moved = models.BooleanField(
        default=False, help_text="the conversation changed while the model wrote; does not block"
    )

    next_attempt_at = models.DateTimeField(
        null=True, blank=True, help_text="the system continues it then by itself, where nobody watches"
    )

    root_id = models.UUIDField(help_text="the first receipt of the lineage; an original's is its own id")
    replay_of = models.ForeignKey(
        "self",
        models.PROTECT,
        related_name="replays",
        null=True,
        blank=True,
        db_index=False,
        db_column="replay_of",
    )
    replay_no = models.PositiveIntegerField(null=True, blank=True, help_text="counts from 1 per original")
    replay_reason = models.TextField(null=True, blank=True)  # noqa: DJ001

    # the last attempt's figures, here so that lists need no join
    model = models.TextField(null=True, blank=True)  # noqa: DJ001
    provider_host = models.TextField(null=True, blank=True)  # noqa: DJ001
    finish_reason = models.TextField(null=True, blank=True)  # noqa: DJ001
    prompt_tokens = models.PositiveIntegerField(null=True, blank=True)
    completion_tokens = models.PositiveIntegerField(null=True, blank=True)
    fill_ms = models.PositiveIntegerField(null=True, blank=True)
    apply_ms = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        db_table = "tool_receipts"
        default_permissions = ("view",)
        permissions = [
            ("file_followup", "Can file follow-ups"),
            ("retry_receipt", "Can retry others' receipts"),
            ("replay_receipt", "Can replay receipts as a new run"),
            ("export_receipt", "Can export receipts"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["idempotency_key", "user"], name="one_receipt_per_person_and_key"),
            models.UniqueConstraint(fields=["replay_of", "replay_no"], name="one_replay_per_number"),
            models.UniqueConstraint(
                fields=["root_id"],
                condition=Q(status__in=LIVE) & ~Q(effect=Effect.READ),
                name="one_live_write_per_lineage",
            ),
            models.CheckConstraint(condition=Q(status__in=list(Status)), name="receipt_status_known"),
            models.CheckConstraint(condition=Q(tool_name__in=ALLOWED_TOOLS), name="receipt_tool_allowed"),
            models.CheckConstraint(condition=Q(effect__in=list(Effect)), name="receipt_effect_known"),
            models.CheckConstraint(condition=Q(attempt__gte=1), name="receipt_attempt_counts_from_one"),
            models.CheckConstraint(
                condition=~Q(status=Status.PENDING)
                | _all_null(
                    "settled_at", "applied_at", "http_status", "error_code", "error_reason", "retryable", "result_ref"
                )
                & (_none_null("started_at") | _none_null("start_by")),
                name="pending_says_nothing_yet",
            ),
            models.CheckConstraint(
                condition=~Q(status=Status.APPLIED)
                | _none_null("started_at", "settled_at", "applied_at", "http_status", "result_ref")
                & _all_null("error_code", "error_reason", "retryable"),
                name="applied_names_its_result",
            ),
            models.CheckConstraint(
                condition=~Q(status=Status.FAILED)
                | _none_null("settled_at", "http_status", "error_code", "retryable")
                & _all_null("applied_at", "result_ref"),
                name="failed_names_its_error",
            ),
            models.CheckConstraint(
                condition=_all_null("replay_of", "replay_no", "replay_reason") & Q(root_id=F("id"))
                | _none_null("replay_of", "replay_no", "replay_reason") & ~Q(root_id=F("id")) & ~Q(replay_reason=""),
                name="replay_has_number_reason_and_root",
            ),
        ]
        # measured on ten million rows: each list, filter and pair stays under 150 ms; more indexes cost inserts
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="receipt_by_time"),
            models.Index(fields=["user", "-created_at", "-id"], name="receipt_by_user"),
            models.Index(fields=["subject", "-created_at", "-id"], name="receipt_by_subject"),
            models.Index(fields=["tool_name", "contract_version", "-created_at", "-id"], name="receipt_by_contract"),
            models.Index(fields=["run", "-created_at", "-id"], name="receipt_by_run"),
            models.Index(fields=["input_hash", "-created_at", "-id"], name="receipt_by_input_hash"),
            models.Index(fields=["root_id", "-created_at", "-id"], name="receipt_by_root"),
            models.Index(
                fields=["deadline_at"], condition=Q(status=Status.PENDING), name="receipt_pending_by_deadline"
            ),
            models.Index(
                fields=["on_behalf_of", "-created_at", "-id"],
                condition=Q(on_behalf_of__isnull=False),
                name="receipt_by_beneficiary",
            ),
            models.Index(fields=["result_ref"], condition=Q(result_ref__isnull=False), name="receipt_by_result"),
            models.Index(fields=["replay_of"], condition=Q(replay_of__isnull=False), name="receipt_replays"),
            models.Index(
                fields=["-created_at", "-id"], condition=Q(status=Status.FAILED), name="receipt_failed_by_time"
            ),
            models.Index(
                fields=["error_code", "error_reason", "-created_at"],
                condition=Q(status=Status.FAILED),
                name="receipt_failed_by_code",
            ),
            models.Index(
                fields=["error_reason", "-created_at"],
                condition=Q(status=Status.FAILED),
                name="receipt_failed_by_reason",
            ),
            models.Index(
                fields=["user", "-created_at", "-id"],
                condition=Q(status=Status.FAILED),
                name="receipt_failed_by_user",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def number(self) -> str:
        """`R-1f3a90bc`"""
        return short_name(self.id)

    @property
    def contract(self) -> str:
        """`file_followup@1`"""
        return f"{self.tool_name}@{self.contract_version}"

    @property
    def outcome(self) -> Outcome | None:
        return outcome(self.status, self.retryable)

    @property
    def overdue(self) -> bool:
        return self.is_overdue(clock.now())

    def is_overdue(self, now: dt.datetime) -> bool:
        """Pending and past its deadline: the next one to look may settle it `abandoned`."""
        return self.status == Status.PENDING and self.deadline_at <= now

    @property
    def ended(self) -> bool:
        """Settled for good: the same key is answered, and nothing but a replay runs it again."""
        return self.status == Status.APPLIED or (self.status == Status.FAILED and not self.retryable)

    @property
    def may_run_again(self) -> bool:
        """The same key, or a retry, would run the next attempt."""
        return self.overdue or (self.status == Status.FAILED and bool(self.retryable))

    @property
    def queued(self) -> bool:
        """Pending, and no process has begun it."""
        return self.status == Status.PENDING and self.started_at is None


class Attempt(models.Model):
    """One execution of a receipt: written once, when it ends, and never changed. Exported as the run receipt."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    receipt = models.ForeignKey(Receipt, models.PROTECT, related_name="attempts", db_index=False)
    attempt = models.PositiveIntegerField()
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False)
    started_at = models.DateTimeField(null=True, blank=True, help_text="empty: it waited and never began")
    finished_at = models.DateTimeField()
    status = models.TextField(choices=[(o.value, o.value) for o in Outcome], db_collation="C")
    http_status = models.PositiveIntegerField()
    error_code = models.TextField(null=True, blank=True, db_collation="C")  # noqa: DJ001
    error_reason = models.TextField(null=True, blank=True, db_collation="C")  # noqa: DJ001
    replayable = models.BooleanField(help_text="by the contract's rule, when it ended")
    model_decision = models.JSONField(null=True, help_text="what the model proposed (redacted) and how it was judged")
    tool_result = models.JSONField(help_text="what the tool did: effect, result_ref, error")

    class Meta:
        db_table = "attempts"
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["receipt", "attempt"], name="one_row_per_attempt"),
            models.CheckConstraint(condition=Q(status__in=list(Outcome)), name="attempt_outcome_known"),
        ]

    def __str__(self) -> str:
        return f"{self.receipt_id} #{self.attempt}"


class Verb(models.TextChoices):
    """What somebody did, as the audit event says it."""

    RETRY = "retry", "retried"
    REPLAY = "replay", "replayed"
    BULK_REPLAY = "bulk_replay", "started a bulk replay"
    BULK_STOP = "bulk_stop", "stopped a bulk replay"
    CANCEL = "cancel", "cancelled"
    HOLD = "hold", "held back"
    GIVE_UP = "give_up", "gave up"
    RETARGET_REFUSED = "retarget_refused", "the model tried to change the ticket"
    ACCESS_REFUSED = "access_refused", "was refused"
    VIEW_SEALED_INPUT = "view_sealed_input", "looked at a sealed input"
    EXPORT = "export", "exported"
    PURGE = "purge", "purged"
    ROTATE = "rotate", "sealed anew under another key"
    ROLE_CHANGE = "role_change", "changed a role"


class AuditEvent(models.Model):
    """Who did what, when and why; in the same transaction as the deed, never changed."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", null=True, help_text="empty: the system"
    )
    verb = models.TextField(choices=Verb.choices, db_collation="C")
    receipt = models.ForeignKey(Receipt, models.PROTECT, related_name="events", null=True)
    run = models.ForeignKey(Run, models.PROTECT, related_name="events", null=True)
    detail = models.JSONField(default=dict, help_text="reason, attempt and the like; redacted")

    class Meta:
        db_table = "audit_events"
        default_permissions = ("view",)
        indexes = [models.Index(fields=["actor", "verb", "-at"], name="event_by_actor")]

    def __str__(self) -> str:
        return f"{self.verb} {self.at:%Y-%m-%d %H:%M:%S}"


class SealedInput(models.Model):
    """The original private input, encrypted, with an expiry date. The one row of the ledger that may be deleted."""

    receipt = models.OneToOneField(Receipt, models.PROTECT, primary_key=True, related_name="sealed_input")
    token = models.BinaryField(help_text="MultiFernet over JSON: notes, and exact arguments once validated")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "sealed_inputs"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"sealed input of {self.receipt_id}"


class BulkReplay(models.Model):
    """Many replays with one reason: the receipts that a plan showed, frozen when it was confirmed."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False, help_text="the plan's, made before it")
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    reason = models.TextField()
    filter = models.JSONField(help_text="which receipts were meant, in words")
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True, help_text="a worker took it up")
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stop_requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", null=True, blank=True
    )
    finished_at = models.DateTimeField(null=True, blank=True, help_text="every item has its end, every replay too")

    class Meta:
        db_table = "bulk_replays"
        default_permissions = ()  # whoever sees all receipts sees them, whoever may replay makes them
        ordering = ("-id",)
        constraints = [
            models.CheckConstraint(condition=~Q(reason=""), name="bulk_replay_has_a_reason"),
            models.CheckConstraint(
                condition=_all_null("stop_requested_at", "stop_requested_by")
                | _none_null("stop_requested_at", "stop_requested_by"),
                name="bulk_stop_names_who",
            ),
        ]
        indexes = [
            models.Index(fields=["created_at"], condition=Q(finished_at__isnull=True), name="bulk_replay_unfinished")
        ]

    def __str__(self) -> str:
        return f"B-{str(self.id)[-8:]}"


class ItemState(models.TextChoices):
    """What has become of one item of a bulk replay."""

    PLANNED = "planned", "waits"
    EXCLUDED = "excluded", "left out by the plan"
    REPLAYED = "replayed", "replayed"
    REFUSED = "refused", "refused"
    STOPPED = "stopped", "stopped before its turn"


class BulkReplayItem(models.Model):
    """One receipt of a bulk replay: what the plan said of it, and what has become of it."""

    bulk = models.ForeignKey(BulkReplay, models.PROTECT, related_name="items", db_index=False)
    receipt = models.ForeignKey(Receipt, models.PROTECT, related_name="+")
    position = models.PositiveIntegerField(help_text="the oldest receipt comes first")
    verdict = models.TextField(db_collation="C", help_text="when planned: the mode, or the code of the exclusion")
    expected_replay_no = models.PositiveIntegerField(help_text="the number that the plan showed")
    state = models.TextField(choices=ItemState.choices, db_collation="C")
    new_receipt = models.OneToOneField(Receipt, models.PROTECT, related_name="bulk_item", null=True, blank=True)
    refusal_code = models.TextField(null=True, blank=True, db_collation="C")  # noqa: DJ001
    refusal_reason = models.TextField(null=True, blank=True, db_collation="C")  # noqa: DJ001
    look_at = models.ForeignKey(
        Receipt,
        models.PROTECT,
        related_name="+",
        null=True,
        blank=True,
        db_index=False,
        help_text="it explains why not",
    )

    class Meta:
        db_table = "bulk_replay_items"
        default_permissions = ()
        ordering = ("bulk", "position")
        constraints = [
            models.UniqueConstraint(fields=["bulk", "receipt"], name="one_item_per_receipt"),
            models.UniqueConstraint(fields=["bulk", "position"], name="one_item_per_position"),
            models.CheckConstraint(condition=Q(state__in=ItemState.values), name="bulk_item_state_known"),
            models.CheckConstraint(
                condition=Q(state=ItemState.REPLAYED, new_receipt__isnull=False)
                | ~Q(state=ItemState.REPLAYED) & Q(new_receipt__isnull=True),
                name="replayed_item_names_its_receipt",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[ItemState.EXCLUDED, ItemState.REFUSED], refusal_code__isnull=False)
                | ~Q(state__in=[ItemState.EXCLUDED, ItemState.REFUSED])
                & _all_null("refusal_code", "refusal_reason", "look_at"),
                name="refused_item_names_its_code",
            ),
        ]
        indexes = [
            models.Index(fields=["bulk", "position"], condition=Q(state="planned"), name="bulk_item_planned"),
        ]

    def __str__(self) -> str:
        return f"{self.bulk} #{self.position}"


class Schedule(models.Model):
    """Since when a workflow has been on a schedule: the slots that are owed begin there. It may know several."""

    id = models.BigAutoField(primary_key=True)
    workflow = models.TextField(db_collation="C")
    cron = models.TextField(db_collation="C", help_text="five fields, in the zone")
    zone = models.TextField(db_collation="C", help_text="IANA name")
    since = models.DateTimeField()
    seen_at = models.DateTimeField(default=timezone.now, help_text="a worker that goes by it last looked")

    class Meta:
        db_table = "schedules"
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint(fields=["workflow", "cron", "zone"], name="one_row_per_schedule")]

    def __str__(self) -> str:
        return f"{self.workflow} at {self.cron} ({self.zone})"


class Choice(models.Model):
    """How often a workflow's subjects have been chosen. What an earlier choice had in mind is not opened any more."""

    workflow = models.TextField(primary_key=True, db_collation="C")
    number = models.PositiveIntegerField()

    class Meta:
        db_table = "workflow_choices"
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.workflow} #{self.number}"


class Circuit(models.Model):
    """What the workers know together of a provider that does not answer. No row: nothing speaks against it."""

    provider = models.TextField(primary_key=True, db_collation="C", help_text="its host, as receipts name it")
    failures = models.PositiveIntegerField(help_text="in a row")
    last_failure_at = models.DateTimeField()
    last_reason = models.TextField(db_collation="C", help_text="`provider_unavailable` and the like")
    open_since = models.DateTimeField(null=True, blank=True, help_text="unwatched attempts have waited since then")
    open_until = models.DateTimeField(null=True, blank=True, help_text="then one of them may try")
    probe_until = models.DateTimeField(null=True, blank=True, help_text="one of them is trying, until then at most")

    class Meta:
        db_table = "circuits"
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                condition=_none_null("open_since", "open_until") | _all_null("open_since", "open_until", "probe_until"),
                name="open_circuit_has_an_end",
            )
        ]

    def __str__(self) -> str:
        return self.provider


class SavedView(models.Model):
    """A filter of the console's list of receipts, under a name. A note of its owner's, and no part of the ledger."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    name = models.TextField()
    query = models.TextField(blank=True, help_text="the list's address parameters")
    shared = models.BooleanField(default=False, db_index=False, help_text="everybody in the console sees it")

    class Meta:
        db_table = "saved_views"
        default_permissions = ()  # whoever sees the list may keep views of it
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="one_view_per_name")]
        indexes = [models.Index(fields=["name"], condition=Q(shared=True), name="shared_view_by_name")]

    def __str__(self) -> str:
        return self.name
