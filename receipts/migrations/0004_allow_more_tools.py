"""Widens `receipt_tool_allowed`: contact checks, closing with a resolution, and e-mail with its delivery."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("receipts", "0003_keep_schedules_and_circuits"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="receipt",
            name="receipt_tool_allowed",
        ),
        migrations.AddConstraint(
            model_name="receipt",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "tool_name__in",
                        ["check_contact_email", "close_ticket", "deliver_email", "email_requester", "file_followup"],
                    )
                ),
                name="receipt_tool_allowed",
            ),
        ),
    ]
