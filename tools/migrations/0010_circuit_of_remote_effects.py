"""Which circuit has let a remote effect in, for whoever goes on after a crash."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tools", "0009_from_outside")]

    operations = [
        migrations.AddField(
            "remoteeffect",
            "circuit",
            models.CharField(blank=True, db_default="", default="", max_length=300),
        ),
    ]
