"""The domain: tickets, what was said on them, and what was done: follow-ups, resolutions, e-mails to send."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from receipts.presses import NOTES_MAX

#: The form of a ticket's id, `TCK-1008`, in the dialect that Python, PostgreSQL and OpenAPI share.
TICKET_ID = r"TCK-[A-Z0-9]{1,32}"

#: A delivery's receipt has the key `outbox:MSG-1001`. Clients may not send keys that begin so.
OUTBOX_KEY = "outbox:"


class Member(models.Model):
    """A colleague in support who can be given a follow-up."""

    handle = models.TextField(primary_key=True, db_collation="C", help_text="`ada`: what assignee fields hold")
    name = models.TextField()
    active = models.BooleanField(default=True)

    class Meta:
        db_table = "members"
        ordering = ["handle"]
        verbose_name = "member of support"
        verbose_name_plural = "members of support"

    def __str__(self) -> str:
        return self.name


class Ticket(models.Model):
    class Status(models.TextChoices):
        OPEN = "open", "Open"
        WAITING = "waiting", "Waiting"
        CLOSED = "closed", "Closed"

    class Priority(models.TextChoices):
        LOW = "low", "Low"
        NORMAL = "normal", "Normal"
        HIGH = "high", "High"

    id = models.TextField(primary_key=True, db_collation="C", help_text="`TCK-1008`")
    subject = models.TextField()
    status = models.TextField(choices=Status.choices, default=Status.OPEN, db_collation="C")
    priority = models.TextField(choices=Priority.choices, default=Priority.NORMAL, db_collation="C")
    assignee = models.ForeignKey(Member, models.PROTECT, null=True, blank=True, related_name="tickets")
    requester_name = models.TextField()
    requester_email = models.EmailField()
    language = models.TextField(default="en", help_text="BCP 47 tag of the conversation, for screen readers")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField(help_text="the last message or change; filings do not touch it")

    class Meta:
        db_table = "tickets"
        constraints = [
            models.CheckConstraint(condition=Q(status__in=["open", "waiting", "closed"]), name="ticket_status_known"),
            models.CheckConstraint(condition=Q(priority__in=["low", "normal", "high"]), name="ticket_priority_known"),
            models.CheckConstraint(condition=Q(id__regex=f"^{TICKET_ID}$"), name="ticket_id_form"),
        ]
        indexes = [
            models.Index(fields=["-updated_at", "-id"], name="ticket_by_update"),
            models.Index(fields=["status", "-updated_at", "-id"], name="ticket_by_status"),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.subject}"

    @property
    def place(self) -> str:
        """`open/ada`, `waiting/`: where it is on the board, and with whom."""
        return f"{self.status}/{self.assignee_id or ''}"

    @property
    def is_closed(self) -> bool:
        return self.status == self.Status.CLOSED


class Message(models.Model):
    """One turn of a ticket's conversation. Written once."""

    class Author(models.TextChoices):
        REQUESTER = "requester", "Requester"
        SUPPORT = "support", "Support"

    id = models.BigAutoField(primary_key=True)
    ticket = models.ForeignKey(Ticket, models.CASCADE, related_name="messages", db_index=False)
    author = models.TextField(choices=Author.choices, db_collation="C")
    author_name = models.TextField()
    body = models.TextField()
    created_at = models.DateTimeField()

    class Meta:
        db_table = "messages"
        ordering = ["id"]
        indexes = [models.Index(fields=["ticket", "-id"], name="message_by_ticket")]

    def __str__(self) -> str:
        return f"{self.ticket_id} {self.author_name}"


class Followup(models.Model):
    """A filed follow-up. One receipt stands for exactly one."""

    id = models.TextField(primary_key=True, db_collation="C", help_text="`FUP-…`")
    ticket = models.ForeignKey(Ticket, models.PROTECT, related_name="followups", db_index=False)
    summary = models.TextField()
    assignee = models.TextField(db_collation="C")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False, db_column="created_by"
    )
    receipt = models.OneToOneField("receipts.Receipt", models.PROTECT, related_name="followup")
    created_at = models.DateTimeField()
    due_on = models.DateField(null=True, blank=True, help_text="from version 2 of the contract on; empty: no date")

    class Meta:
        db_table = "followups"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["ticket", "-created_at"], name="followup_by_ticket")]

    def __str__(self) -> str:
        return self.id


class Resolution(models.Model):
    """How a ticket came to its end; written with the change that closes it. A reopened ticket may get another."""

    id = models.TextField(primary_key=True, db_collation="C", help_text="`RES-…`")
    ticket = models.ForeignKey(Ticket, models.PROTECT, related_name="resolutions", db_index=False)
    text = models.TextField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False, db_column="created_by"
    )
    receipt = models.OneToOneField("receipts.Receipt", models.PROTECT, related_name="resolution")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "resolutions"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["ticket", "-created_at", "-id"], name="resolution_by_ticket")]

    def __str__(self) -> str:
        return self.id


class OutgoingEmail(models.Model):
    """One message in the transactional outbox: written once, never changed.

    Whether it left, its delivery's receipt says: the one whose idempotency key is `outbox:` and this id.
    """

    id = models.TextField(primary_key=True, db_collation="C", help_text="`MSG-…`")
    ticket = models.ForeignKey(Ticket, models.PROTECT, related_name="emails", db_index=False)
    to_address = models.TextField(help_text="the requester's, as it was when the message was written")
    subject = models.TextField()
    body = models.TextField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False, db_column="created_by"
    )
    receipt = models.OneToOneField("receipts.Receipt", models.PROTECT, related_name="outgoing_email")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "outbox"
        ordering = ["-created_at"]
        verbose_name = "e-mail to send"
        verbose_name_plural = "e-mails to send"
        constraints = [
            # a line break in a header would begin another header
            models.CheckConstraint(
                condition=~Q(subject__regex=r"[\r\n]") & ~Q(to_address__regex=r"[\r\n]"),
                name="mail_headers_are_one_line",
            ),
        ]
        indexes = [models.Index(fields=["ticket", "-created_at", "-id"], name="outgoing_email_by_ticket")]

    def __str__(self) -> str:
        return self.id


class NotesDraft(models.Model):
    """What one person has typed into one form of a ticket's page and not filed yet. Theirs alone: no list, console or
    API shows it to anybody else.

    It lives here and in that person's browser until it is filed, emptied, or `notes.KEPT_DAYS` old. Redaction is for
    what the ledger keeps; this is the domain's own data, like the conversation, and stays as it was typed.
    """

    id = models.BigAutoField(primary_key=True)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    ticket = models.ForeignKey(Ticket, models.CASCADE, related_name="+")
    what = models.TextField(db_collation="C", help_text="the form: `followups`, as in its address")
    text = models.TextField()
    version = models.BigIntegerField(help_text="from one sequence, so that none comes twice: what a tab has seen")
    saved_at = models.DateTimeField()

    class Meta:
        db_table = "notes_drafts"
        constraints = [
            models.UniqueConstraint(fields=["person", "ticket", "what"], name="notes_draft_once"),
            models.CheckConstraint(condition=LessThanOrEqual(Length("text"), NOTES_MAX), name="notes_draft_fits"),
        ]

    def __str__(self) -> str:
        return f"{self.ticket_id} {self.what}"
