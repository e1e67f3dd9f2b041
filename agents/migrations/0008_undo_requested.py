"""Whether what a stopped run did is to be undone as well."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0007_replays")]

    operations = [
        migrations.AddField(
            "run", "undo_requested_at", models.DateTimeField(null=True, editable=False)
        ),
    ]
