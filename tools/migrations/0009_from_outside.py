"""Which fields of a call's result were written by others."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tools", "0008_stored_outputs")]

    operations = [
        migrations.AddField(
            "toolcall",
            "outside",
            models.JSONField(blank=True, null=True, verbose_name="from outside"),
        ),
    ]
