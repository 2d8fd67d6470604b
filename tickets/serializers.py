"""Tickets and follow-ups as JSON, and what a client may write."""

from __future__ import annotations

import re
from typing import Any

from rest_framework import serializers
from rest_framework.fields import empty

from receipts.lifecycle import outcome
from receipts.models import Receipt
from receipts.serializers import OUTCOMES, STATUSES
from receipts.told import API, instant
from tickets.models import Followup, Member, Message, OutgoingEmail, Resolution, Ticket

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}")


def ticket_json(ticket: Ticket) -> dict[str, Any]:
    """A ticket without its conversation."""
    return {
        "ticket_id": ticket.id,
        "subject": ticket.subject,
        "status": str(ticket.status),
        "priority": str(ticket.priority),
        "assignee": ticket.assignee_id,
        "requester_name": ticket.requester_name,
        "requester_email": ticket.requester_email,
        "language": ticket.language,
        "created_at": instant(ticket.created_at),
        "updated_at": instant(ticket.updated_at),
        "links": {
            "self": f"{API}/tickets/{ticket.id}",
            "followups": f"{API}/tickets/{ticket.id}/followups",
            "resolutions": f"{API}/tickets/{ticket.id}/resolutions",
            "emails": f"{API}/tickets/{ticket.id}/emails",
            "contact_checks": f"{API}/tickets/{ticket.id}/contact-checks",
            "receipts": f"{API}/receipts?ticket_id={ticket.id}",
            "page": f"/tickets/{ticket.id}",
        },
    }


def conversation_json(messages: list[Message]) -> list[dict[str, Any]]:
    """The turns of a ticket in the order in which they are given."""
    return [
        {
            "author": str(message.author),
            "author_name": message.author_name,
            "body": message.body,
            "created_at": instant(message.created_at),
        }
        for message in messages
    ]


def followup_json(followup: Followup) -> dict[str, Any]:
    """A filed follow-up. Needs `followup.created_by`."""
    return {
        "followup_id": followup.id,
        "ticket_id": followup.ticket_id,
        "summary": followup.summary,
        "assignee": followup.assignee,
        "due_on": followup.due_on.isoformat() if followup.due_on else None,
        "created_by": followup.created_by.username,
        "receipt_id": str(followup.receipt_id),
        "created_at": instant(followup.created_at),
    }


def resolution_json(resolution: Resolution) -> dict[str, Any]:
    """How a ticket ended. Needs `resolution.created_by`."""
    return {
        "resolution_id": resolution.id,
        "ticket_id": resolution.ticket_id,
        "text": resolution.text,
        "created_by": resolution.created_by.username,
        "receipt_id": str(resolution.receipt_id),
        "created_at": instant(resolution.created_at),
    }


def email_json(email: OutgoingEmail, delivery: Receipt | None) -> dict[str, Any]:
    """An e-mail of the outbox, and how its delivery stands. Needs `email.created_by`."""
    return {
        "message_id": email.id,
        "ticket_id": email.ticket_id,
        "to_address": email.to_address,
        "subject": email.subject,
        "body": email.body,
        "created_by": email.created_by.username,
        "receipt_id": str(email.receipt_id),
        "created_at": instant(email.created_at),
        "delivery": delivery_json(delivery) if delivery else None,
    }


def delivery_json(receipt: Receipt) -> dict[str, Any]:
    """How a delivery stands: `applied` says that the mail server took it, `outcome_unknown` that nobody knows."""
    came_to = outcome(receipt.status, receipt.retryable)
    return {
        "receipt_id": str(receipt.id),
        "status": str(receipt.status),
        "outcome": came_to.value if came_to else None,
        "error_code": receipt.error_code,
        "error_reason": receipt.error_reason,
        "settled_at": instant(receipt.settled_at),
    }


# ── what a client may write ──────────────────────────────────────────────────────────────────────────────────────


class Strict(serializers.Serializer[Any]):
    """Refuses fields that it does not know: a misspelt one must not be dropped in silence."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = [str(name) for name in data if name not in self.fields] if isinstance(data, dict) else []
        if unknown:
            raise serializers.ValidationError(dict.fromkeys(unknown, "is not a field of this request"))
        return super().to_internal_value(data)


class TextField(serializers.CharField):
    """Text, not a number that reads like text."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class MemberField(serializers.PrimaryKeyRelatedField[Member]):
    """A member by handle. Nobody is null; DRF would also take an empty text for it."""

    def run_validation(self, data: Any = empty) -> Any:
        if data == "":
            self.fail("does_not_exist", pk_value="")
        return super().run_validation(data)


def _assignee(**options: Any) -> MemberField:
    """An active member of support."""
    return MemberField(
        queryset=Member.objects.filter(active=True), pk_field=TextField(max_length=64), allow_null=True, **options
    )


class NewTicketSerializer(Strict):
    """A ticket to open."""

    subject = TextField(max_length=200)
    requester_name = TextField(max_length=200)
    requester_email = serializers.EmailField(max_length=254)
    message = TextField(max_length=20_000, required=False, help_text="the requester's first message")
    priority = serializers.ChoiceField(choices=Ticket.Priority.choices, required=False)
    assignee = _assignee(required=False)
    language = serializers.RegexField(rf"^(?:{_LANGUAGE.pattern})\Z", required=False, help_text="BCP 47 tag")


class TicketChangeSerializer(Strict):
    """What may be changed on a ticket."""

    subject = TextField(max_length=200, required=False)
    status = serializers.ChoiceField(choices=Ticket.Status.choices, required=False)
    priority = serializers.ChoiceField(choices=Ticket.Priority.choices, required=False)
    assignee = _assignee(required=False)


class PressSerializer(serializers.Serializer[Any]):
    """The body of a press. Declared for OpenAPI; the flow validates it."""

    notes = serializers.CharField(required=False, max_length=8000, help_text="a model fills the arguments from these")
    arguments = serializers.DictField(required=False, help_text="instead of notes: the arguments, given by hand")
    ticket_id = serializers.CharField(required=False, help_text="must equal the address's")


class EmptyPressSerializer(serializers.Serializer[Any]):
    """The body of a press that has nothing to say, because the route knows its arguments: `{}`."""

    ticket_id = serializers.CharField(required=False, help_text="must equal the address's")


# ── the shapes on the way out, declared ──────────────────────────────────────────────────────────────────────────


class TicketLinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()
    followups = serializers.CharField()
    resolutions = serializers.CharField()
    emails = serializers.CharField()
    contact_checks = serializers.CharField()
    receipts = serializers.CharField()
    page = serializers.CharField()


class TicketSerializer(serializers.Serializer[Any]):
    """A ticket."""

    ticket_id = serializers.CharField()
    subject = serializers.CharField()
    status = serializers.ChoiceField(choices=Ticket.Status.choices)
    priority = serializers.ChoiceField(choices=Ticket.Priority.choices)
    assignee = serializers.CharField(allow_null=True)
    requester_name = serializers.CharField()
    requester_email = serializers.CharField()
    language = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    links = TicketLinksSerializer()


class MessageSerializer(serializers.Serializer[Any]):
    author = serializers.ChoiceField(choices=Message.Author.choices)
    author_name = serializers.CharField()
    body = serializers.CharField()
    created_at = serializers.DateTimeField()


class TicketWithConversationSerializer(TicketSerializer):
    """A ticket with its newest turns, oldest of them first."""

    conversation = MessageSerializer(many=True)


class FollowupSerializer(serializers.Serializer[Any]):
    """A filed follow-up."""

    followup_id = serializers.CharField()
    ticket_id = serializers.CharField()
    summary = serializers.CharField()
    assignee = serializers.CharField()
    due_on = serializers.DateField(allow_null=True, help_text="from `file_followup@2` on")
    created_by = serializers.CharField()
    receipt_id = serializers.UUIDField()
    created_at = serializers.DateTimeField()


class ResolutionSerializer(serializers.Serializer[Any]):
    """How a ticket ended."""

    resolution_id = serializers.CharField()
    ticket_id = serializers.CharField()
    text = serializers.CharField()
    created_by = serializers.CharField()
    receipt_id = serializers.UUIDField()
    created_at = serializers.DateTimeField()


class DeliverySerializer(serializers.Serializer[Any]):
    """How a delivery stands."""

    receipt_id = serializers.UUIDField()
    status = serializers.ChoiceField(choices=STATUSES)
    outcome = serializers.ChoiceField(choices=OUTCOMES, allow_null=True)
    error_code = serializers.CharField(allow_null=True, help_text="`outcome_unknown`: it may have left, or not")
    error_reason = serializers.CharField(allow_null=True)
    settled_at = serializers.DateTimeField(allow_null=True)


class OutgoingEmailSerializer(serializers.Serializer[Any]):
    """An e-mail to the requester, in the outbox."""

    message_id = serializers.CharField()
    ticket_id = serializers.CharField()
    to_address = serializers.CharField()
    subject = serializers.CharField()
    body = serializers.CharField()
    created_by = serializers.CharField()
    receipt_id = serializers.UUIDField()
    created_at = serializers.DateTimeField()
    delivery = DeliverySerializer(allow_null=True)
