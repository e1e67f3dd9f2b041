"""Where a forked run comes from."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0005_runs_in_line")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="forked_from",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="forks",
                to="agents.run",
                verbose_name="forked from",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="forked_step",
            field=models.PositiveIntegerField(null=True, verbose_name="forked at step"),
        ),
    ]
