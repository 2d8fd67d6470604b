"""Names the audit event of a rotation of keys."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("receipts", "0004_allow_more_tools"),
    ]

    operations = [
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
                    ("rotate", "sealed anew under another key"),
                    ("role_change", "changed a role"),
                ],
                db_collation="C",
            ),
        ),
    ]
