"""The whole of results that are too long to be shown."""

import django.db.models.deletion
from django.db import migrations, models

import boxoffice.common.types
from boxoffice.tenancy.rls import append_only, enable_rls


class Migration(migrations.Migration):
    dependencies = [("tools", "0007_undo")]

    operations = [
        migrations.CreateModel(
            name="StoredOutput",
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
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenancy.tenant",
                    ),
                ),
                (
                    "call",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="stored_output",
                        to="tools.toolcall",
                    ),
                ),
                ("conversation_ref", models.UUIDField(null=True, verbose_name="conversation")),
                ("text", models.TextField(verbose_name="text")),
                ("total_bytes", models.PositiveIntegerField(verbose_name="bytes")),
                ("total_lines", models.PositiveIntegerField(verbose_name="lines")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="stored at")),
            ],
            options={
                "verbose_name": "stored output",
                "verbose_name_plural": "stored outputs",
                "indexes": [models.Index(fields=["tenant", "-id"], name="storedoutput_tenant")],
            },
        ),
        enable_rls("tools_storedoutput"),
        append_only("tools_storedoutput"),
    ]
