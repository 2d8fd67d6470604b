"""Notes that are not filed yet, kept for whoever types them; with the sequence of their versions."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual


class Migration(migrations.Migration):
    dependencies = [
        ("tickets", "0003_close_and_mail"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL("CREATE SEQUENCE notes_draft_version;", "DROP SEQUENCE notes_draft_version;"),
        migrations.CreateModel(
            name="NotesDraft",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("what", models.TextField(db_collation="C", help_text="the form: `followups`, as in its address")),
                ("text", models.TextField()),
                (
                    "version",
                    models.BigIntegerField(
                        help_text="from one sequence, so that none comes twice: what a tab has seen"
                    ),
                ),
                ("saved_at", models.DateTimeField()),
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "ticket",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="tickets.ticket"
                    ),
                ),
            ],
            options={
                "db_table": "notes_drafts",
                "constraints": [
                    models.UniqueConstraint(fields=("person", "ticket", "what"), name="notes_draft_once"),
                    models.CheckConstraint(condition=LessThanOrEqual(Length("text"), 8000), name="notes_draft_fits"),
                ],
            },
        ),
    ]
