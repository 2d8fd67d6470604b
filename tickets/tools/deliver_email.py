"""`deliver_email`: hands one message of the outbox to the mail server, at most once.

Between begin and stamp nothing holds a transaction. Refusals that the server itself has spoken are certain; anything
that breaks on the way is not, and is never guessed away: the receipt then says `outcome_unknown`.
"""

from __future__ import annotations

import smtplib
from contextlib import suppress
from email.utils import parseaddr
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import DatabaseError, InterfaceError, connection

from receipts.contracts import Applied, Arguments, Effect, Handover, NotHandedOver, ReplayRule, Tool
from tickets.models import OutgoingEmail
from tickets.tools.reading import ANY_TICKET, CONTRACTS, SUBJECT


class Doubt(Exception):
    """The mail backend did not say that it took the message, nor that it did not."""


def hand_over(arguments: Arguments, _receipt: Any) -> Applied:
    """Send the message that the outbox holds.

    Raises: NotHandedOver where nothing has left: `mail_unreachable` before the server could be spoken to,
        `mail_refused` by the server's own word, `mail_unsound` and `message_gone` before anything was tried.
        Anything else leaves the outcome unknown.
    """
    try:
        message = OutgoingEmail.objects.filter(pk=arguments["message_id"]).first()
    except (DatabaseError, InterfaceError) as error:
        raise NotHandedOver("outbox_unreadable", retryable=True) from error
    finally:
        connection.close()  # a mail server may take its time
    if message is None:
        raise NotHandedOver("message_gone", retryable=False)
    mail = _mail(message)
    try:
        mail.message()
    except ValueError as error:  # a header that would begin another one, an address that is none
        raise NotHandedOver("mail_unsound", retryable=False) from error
    backend = _opened()
    try:
        taken = backend.send_messages([mail])
    except smtplib.SMTPRecipientsRefused as refused:
        raise _refused(*refused.recipients.values()) from refused
    except smtplib.SMTPDataError as answered:
        # raised for anything but 250, and the server has the whole message by then: only a plain no is a no
        if not 400 <= answered.smtp_code < 600:
            raise
        raise _refused((answered.smtp_code, answered.smtp_error)) from answered
    except (smtplib.SMTPSenderRefused, smtplib.SMTPHeloError) as refused:
        raise _refused((refused.smtp_code, refused.smtp_error)) from refused
    except smtplib.SMTPNotSupportedError as refused:
        raise NotHandedOver("mail_refused", retryable=False) from refused
    finally:
        # it was taken or not whatever comes of the goodbye
        with suppress(Exception):
            backend.close()
    if taken != 1:
        raise Doubt(f"{settings.EMAIL_BACKEND} answered {taken!r}")
    return Applied(result_ref=message.pk, output={"handed_to": _server()})


def _mail(message: OutgoingEmail) -> EmailMessage:
    """The message; its Message-ID follows from the row, so that doubles can be found, and found to be none."""
    sender = settings.DEFAULT_FROM_EMAIL
    domain = parseaddr(sender)[1].rpartition("@")[2] or "localhost"
    return EmailMessage(
        subject=message.subject,
        body=message.body,
        from_email=sender,
        to=[message.to_address],
        headers={"Message-ID": f"<{message.pk}.{message.receipt_id}@{domain}>"},
    )


def _opened() -> Any:
    """A mail backend that is connected and has been greeted: until here nothing can have left.

    Raises: NotHandedOver.
    """
    try:
        backend = get_connection()
        backend.open()
        smtp = getattr(backend, "connection", None)
        if isinstance(smtp, smtplib.SMTP):
            smtp.ehlo_or_helo_if_needed()
    except smtplib.SMTPResponseException as refused:
        raise _refused((refused.smtp_code, refused.smtp_error)) from refused
    except smtplib.SMTPNotSupportedError as refused:
        raise NotHandedOver("mail_refused", retryable=False) from refused
    except Exception as error:
        raise NotHandedOver("mail_unreachable", retryable=True) from error
    return backend


def _refused(*answers: tuple[int, Any]) -> NotHandedOver:
    """4xx: not now, the same may work later. 5xx: not like this. A code that is neither is no SMTP, and no promise."""
    return NotHandedOver("mail_refused", retryable=all(400 <= code < 500 for code, _ in answers))


def _server() -> str:
    """Who took it, for whoever looks for it there."""
    if settings.EMAIL_BACKEND.endswith("smtp.EmailBackend"):
        return f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    return str(settings.EMAIL_BACKEND).split(".")[-2]


DELIVER_EMAIL = Tool(
    name="deliver_email",
    version=1,
    effect=Effect.OUTBOX,
    replay_rule=ReplayRule.NEVER,
    schema_path=CONTRACTS / "deliver_email.v1.json",
    schema_sha256="9dedff74c032ba952ecb60abb863af133b9354b6cab3196a7f2e700b46e3322b",
    route_field="ticket_id",
    subject_form=SUBJECT,
    read=ANY_TICKET,
    apply=Handover(hand_over=hand_over),
    # what left cannot be counted from here; that each delivery names its own message can
    evidence="""
        SELECT d.id, m.id FROM tool_receipts d JOIN outbox m ON d.idempotency_key = 'outbox:' || m.id
        WHERE d.tool_name = 'deliver_email' AND d.status = 'applied'""",
)
