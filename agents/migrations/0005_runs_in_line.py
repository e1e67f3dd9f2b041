"""The order in which a tenant's queued runs are taken. Built while the site works."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("agents", "0004_who_asked")]

    operations = [
        AddIndexConcurrently(
            model_name="run",
            index=models.Index(
                condition=models.Q(state="queued"),
                fields=["tenant", "is_anonymous", "id"],
                name="run_in_line",
            ),
        ),
    ]
