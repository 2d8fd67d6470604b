"""An index for the minute's look at runs that lost their job, and the event of one that the system gave up."""

from django.db import migrations, models

# Of the jobs that open a workflow's run, which are few: whether one waits, and how often one failed for good. An
# attempt's job is not in it and pays nothing.
BY_RUN = """
CREATE INDEX receipts_job_by_run ON procrastinate_jobs ((args ->> 'run_id'))
WHERE task_name = 'receipts.run_workflow'
"""


class Migration(migrations.Migration):
    dependencies = [
        ("receipts", "0006_plan_bulk_replays"),
        ("procrastinate", "0041_post_retry_failed_job"),
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
                    ("give_up", "gave up"),
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
        migrations.RunSQL(BY_RUN, "DROP INDEX receipts_job_by_run"),
    ]
