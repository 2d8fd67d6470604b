"""An index of the runs that no press started: without it a list of them read ten million presses, 2 s and more."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("receipts", "0008_keep_saved_views")]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("trigger", "press"), _negated=True),
                fields=["trigger", "-id"],
                name="run_by_trigger_but_presses",
            ),
        ),
    ]
