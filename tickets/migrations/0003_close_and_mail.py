"""Resolutions, the outbox of e-mails, and a day by which a follow-up is due; with the sequences of their numbers."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("receipts", "0004_allow_more_tools"),
        ("tickets", "0002_number_tickets_and_followups"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(
            "CREATE SEQUENCE resolution_number START 1001; CREATE SEQUENCE outgoing_email_number START 1001;",
            "DROP SEQUENCE resolution_number; DROP SEQUENCE outgoing_email_number;",
        ),
        migrations.AddField(
            model_name="followup",
            name="due_on",
            field=models.DateField(
                blank=True, help_text="from version 2 of the contract on; empty: no date", null=True
            ),
        ),
        migrations.CreateModel(
            name="OutgoingEmail",
            fields=[
                ("id", models.TextField(db_collation="C", help_text="`MSG-…`", primary_key=True, serialize=False)),
                ("to_address", models.TextField(help_text="the requester's, as it was when the message was written")),
                ("subject", models.TextField()),
                ("body", models.TextField()),
                ("created_at", models.DateTimeField()),
                (
                    "created_by",
                    models.ForeignKey(
                        db_column="created_by",
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "receipt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="outgoing_email",
                        to="receipts.receipt",
                    ),
                ),
                (
                    "ticket",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="emails",
                        to="tickets.ticket",
                    ),
                ),
            ],
            options={
                "verbose_name": "e-mail to send",
                "verbose_name_plural": "e-mails to send",
                "db_table": "outbox",
                "ordering": ["-created_at"],
                "indexes": [models.Index(fields=["ticket", "-created_at", "-id"], name="outgoing_email_by_ticket")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("subject__regex", "[\\r\\n]"), _negated=True),
                            models.Q(("to_address__regex", "[\\r\\n]"), _negated=True),
                        ),
                        name="mail_headers_are_one_line",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Resolution",
            fields=[
                ("id", models.TextField(db_collation="C", help_text="`RES-…`", primary_key=True, serialize=False)),
                ("text", models.TextField()),
                ("created_at", models.DateTimeField()),
                (
                    "created_by",
                    models.ForeignKey(
                        db_column="created_by",
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "receipt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="resolution", to="receipts.receipt"
                    ),
                ),
                (
                    "ticket",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="resolutions",
                        to="tickets.ticket",
                    ),
                ),
            ],
            options={
                "db_table": "resolutions",
                "ordering": ["-created_at"],
                "indexes": [models.Index(fields=["ticket", "-created_at", "-id"], name="resolution_by_ticket")],
            },
        ),
    ]
