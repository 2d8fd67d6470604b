"""Filters of the console's list under a name: notes of their owners, and no part of the ledger."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("receipts", "0007_find_what_lost_its_job"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField()),
                ("query", models.TextField(blank=True, help_text="the list's address parameters")),
                ("shared", models.BooleanField(default=False, help_text="everybody in the console sees it")),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"db_table": "saved_views", "default_permissions": ()},
        ),
        migrations.AddIndex(
            model_name="savedview",
            index=models.Index(condition=models.Q(("shared", True)), fields=["name"], name="shared_view_by_name"),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.UniqueConstraint(fields=("owner", "name"), name="one_view_per_name"),
        ),
    ]
