"""What each model call was asked with: one row per distinct prompt, and its name on the step."""

import django.db.models.deletion
from django.db import migrations, models

import boxoffice.common.types
from boxoffice.tenancy.rls import append_only, enable_rls


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0002_guards"),
        ("tenancy", "0002_row_level_security"),
    ]

    operations = [
        migrations.AddField(
            model_name="step",
            name="sent",
            field=models.JSONField(null=True),
        ),
        migrations.CreateModel(
            name="PromptVersion",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=boxoffice.common.types.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("digest", models.CharField(max_length=32, verbose_name="digest")),
                ("model", models.CharField(max_length=100, verbose_name="model")),
                ("system", models.JSONField(verbose_name="system prompt")),
                ("tools", models.JSONField(verbose_name="offered tools")),
                (
                    "created_at",
                    models.DateTimeField(auto_now_add=True, verbose_name="first used at"),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenancy.tenant",
                    ),
                ),
            ],
            options={
                "verbose_name": "prompt version",
                "verbose_name_plural": "prompt versions",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "digest"), name="promptversion_once")
                ],
            },
        ),
        enable_rls("agents_promptversion"),
        append_only("agents_promptversion"),
    ]
