"""Who asked, to count runs at work by person; when a fan was told that the answer has to wait."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("agents", "0003_prompt_versions"), ("tenancy", "0003_share_and_cap")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="asked_by",
            field=models.CharField(
                db_default="", default="", max_length=80, verbose_name="asked by"
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="is_anonymous",
            field=models.BooleanField(
                db_default=False, default=False, verbose_name="asked by a visitor"
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="told_to_wait_at",
            field=models.DateTimeField(null=True),
        ),
    ]
