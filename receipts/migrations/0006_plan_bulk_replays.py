"""Many replays as one object: what a plan showed, frozen when it was confirmed, and what became of each receipt."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import receipts.ids

REMOVAL = """
CREATE TRIGGER refuse_delete BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION receipts_refuse_removal();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION receipts_refuse_removal();
ALTER TABLE {table} ENABLE ALWAYS TRIGGER refuse_delete;
ALTER TABLE {table} ENABLE ALWAYS TRIGGER refuse_truncate;
"""
UNDO = """
DROP TRIGGER refuse_delete ON {table};
DROP TRIGGER refuse_truncate ON {table};
"""
HISTORY = ("bulk_replays", "bulk_replay_items")


def of_all(sql: str) -> str:
    return "".join(sql.format(table=table) for table in HISTORY)


class Migration(migrations.Migration):
    dependencies = [
        ("receipts", "0005_record_key_rotation"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name="auditevent",
            name="verb",
            field=models.TextField(
                choices=[
                    ("retry", "retried"),
                    ("replay", "replayed"),
                    ("bulk_replay", "started a bulk replay"),
                    ("bulk_stop", "stopped a bulk replay"),
                    ("cancel", "cancelled"),
                    ("hold", "held back"),
                    ("retarget_refused", "the model tried to change the ticket"),
                    ("access_refused", "was refused"),
                    ("view_sealed_input", "looked at a sealed input"),
                    ("export", "exported"),
                    ("purge", "purged"),
                    ("rotate", "sealed anew under another key"),
                    ("role_change", "changed a role"),
                ],
                db_collation="C",
            ),
        ),
        migrations.CreateModel(
            name="BulkReplay",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=receipts.ids.uuid7,
                        editable=False,
                        help_text="the plan's, made before it",
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("reason", models.TextField()),
                ("filter", models.JSONField(help_text="which receipts were meant, in words")),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(blank=True, help_text="a worker took it up", null=True)),
                ("stop_requested_at", models.DateTimeField(blank=True, null=True)),
                (
                    "finished_at",
                    models.DateTimeField(blank=True, help_text="every item has its end, every replay too", null=True),
                ),
                (
                    "actor",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "stop_requested_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "db_table": "bulk_replays",
                "ordering": ("-id",),
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="BulkReplayItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField(help_text="the oldest receipt comes first")),
                (
                    "verdict",
                    models.TextField(
                        db_collation="C", help_text="when planned: the mode, or the code of the exclusion"
                    ),
                ),
                ("expected_replay_no", models.PositiveIntegerField(help_text="the number that the plan showed")),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("planned", "waits"),
                            ("excluded", "left out by the plan"),
                            ("replayed", "replayed"),
                            ("refused", "refused"),
                            ("stopped", "stopped before its turn"),
                        ],
                        db_collation="C",
                    ),
                ),
                ("refusal_code", models.TextField(blank=True, db_collation="C", null=True)),
                ("refusal_reason", models.TextField(blank=True, db_collation="C", null=True)),
                (
                    "bulk",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="items",
                        to="receipts.bulkreplay",
                    ),
                ),
                (
                    "look_at",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        help_text="it explains why not",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="receipts.receipt",
                    ),
                ),
                (
                    "new_receipt",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="bulk_item",
                        to="receipts.receipt",
                    ),
                ),
                (
                    "receipt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="receipts.receipt"
                    ),
                ),
            ],
            options={
                "db_table": "bulk_replay_items",
                "ordering": ("bulk", "position"),
                "default_permissions": (),
            },
        ),
        migrations.AddIndex(
            model_name="bulkreplay",
            index=models.Index(
                condition=models.Q(("finished_at__isnull", True)), fields=["created_at"], name="bulk_replay_unfinished"
            ),
        ),
        migrations.AddConstraint(
            model_name="bulkreplay",
            constraint=models.CheckConstraint(
                condition=models.Q(("reason", ""), _negated=True), name="bulk_replay_has_a_reason"
            ),
        ),
        migrations.AddConstraint(
            model_name="bulkreplay",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("stop_requested_at__isnull", True), ("stop_requested_by__isnull", True)),
                    models.Q(("stop_requested_at__isnull", False), ("stop_requested_by__isnull", False)),
                    _connector="OR",
                ),
                name="bulk_stop_names_who",
            ),
        ),
        migrations.AddIndex(
            model_name="bulkreplayitem",
            index=models.Index(
                condition=models.Q(("state", "planned")), fields=["bulk", "position"], name="bulk_item_planned"
            ),
        ),
        migrations.AddConstraint(
            model_name="bulkreplayitem",
            constraint=models.UniqueConstraint(fields=("bulk", "receipt"), name="one_item_per_receipt"),
        ),
        migrations.AddConstraint(
            model_name="bulkreplayitem",
            constraint=models.UniqueConstraint(fields=("bulk", "position"), name="one_item_per_position"),
        ),
        migrations.AddConstraint(
            model_name="bulkreplayitem",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["planned", "excluded", "replayed", "refused", "stopped"])),
                name="bulk_item_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="bulkreplayitem",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("new_receipt__isnull", False), ("state", "replayed")),
                    models.Q(models.Q(("state", "replayed"), _negated=True), ("new_receipt__isnull", True)),
                    _connector="OR",
                ),
                name="replayed_item_names_its_receipt",
            ),
        ),
        migrations.AddConstraint(
            model_name="bulkreplayitem",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("refusal_code__isnull", False), ("state__in", ["excluded", "refused"])),
                    models.Q(
                        models.Q(("state__in", ["excluded", "refused"]), _negated=True),
                        ("look_at__isnull", True),
                        ("refusal_code__isnull", True),
                        ("refusal_reason__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="refused_item_names_its_code",
            ),
        ),
        migrations.RunSQL(of_all(REMOVAL), of_all(UNDO)),
    ]
