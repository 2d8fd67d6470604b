"""Since when a workflow is on a schedule, what a run set out to do, and which provider does not answer."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("receipts", "0002_guard_the_ledger"),
    ]

    operations = [
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("workflow", models.TextField(db_collation="C")),
                ("cron", models.TextField(db_collation="C", help_text="five fields, in the zone")),
                ("zone", models.TextField(db_collation="C", help_text="IANA name")),
                ("since", models.DateTimeField()),
                (
                    "seen_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, help_text="a worker that goes by it last looked"
                    ),
                ),
            ],
            options={
                "db_table": "schedules",
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("workflow", "cron", "zone"), name="one_row_per_schedule")
                ],
            },
        ),
        migrations.CreateModel(
            name="Choice",
            fields=[
                ("workflow", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField()),
            ],
            options={"db_table": "workflow_choices", "default_permissions": ()},
        ),
        migrations.AddField(
            model_name="run",
            name="planned",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="how many receipts a workflow's run set out to open; empty until it has chosen",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="auditevent",
            name="verb",
            field=models.TextField(
                choices=[
                    ("retry", "retried"),
                    ("replay", "replayed"),
                    ("cancel", "cancelled"),
                    ("hold", "held back"),
                    ("retarget_refused", "the model tried to change the ticket"),
                    ("access_refused", "was refused"),
                    ("view_sealed_input", "looked at a sealed input"),
                    ("export", "exported"),
                    ("purge", "purged"),
                    ("role_change", "changed a role"),
                ],
                db_collation="C",
            ),
        ),
        migrations.CreateModel(
            name="Circuit",
            fields=[
                (
                    "provider",
                    models.TextField(
                        db_collation="C", help_text="its host, as receipts name it", primary_key=True, serialize=False
                    ),
                ),
                ("failures", models.PositiveIntegerField(help_text="in a row")),
                ("last_failure_at", models.DateTimeField()),
                ("last_reason", models.TextField(db_collation="C", help_text="`provider_unavailable` and the like")),
                (
                    "open_since",
                    models.DateTimeField(blank=True, help_text="unwatched attempts have waited since then", null=True),
                ),
                ("open_until", models.DateTimeField(blank=True, help_text="then one of them may try", null=True)),
                (
                    "probe_until",
                    models.DateTimeField(blank=True, help_text="one of them is trying, until then at most", null=True),
                ),
            ],
            options={
                "db_table": "circuits",
                "default_permissions": ("view",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("open_since__isnull", False), ("open_until__isnull", False)),
                            models.Q(
                                ("open_since__isnull", True),
                                ("open_until__isnull", True),
                                ("probe_until__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="open_circuit_has_an_end",
                    )
                ],
            },
        ),
    ]
