"""Sequences behind `TCK-…` and `FUP-…`: numbers that never come twice, gaps allowed."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tickets", "0001_initial")]
    operations = [
        migrations.RunSQL(
            "CREATE SEQUENCE ticket_number START 1000; CREATE SEQUENCE followup_number START 1001;",
            "DROP SEQUENCE ticket_number; DROP SEQUENCE followup_number;",
        ),
    ]
