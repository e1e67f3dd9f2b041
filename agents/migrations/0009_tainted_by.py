"""Which call brought a run the text from outside that marks it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0008_undo_requested")]

    operations = [
        migrations.AddField(
            "run",
            "tainted_by",
            models.UUIDField(null=True, verbose_name="call that brought it"),
        ),
    ]
