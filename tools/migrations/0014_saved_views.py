"""Filters of the log of calls that people keep."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import boxoffice.common.types
from boxoffice.tenancy.rls import enable_rls


class Migration(migrations.Migration):
    dependencies = [
        ("tools", "0013_ended_index"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedView",
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
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("name", models.CharField(max_length=80, verbose_name="name")),
                (
                    "wish",
                    models.CharField(
                        blank=True, default="", max_length=1000, verbose_name="filters"
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created at")),
            ],
            options={
                "verbose_name": "kept view",
                "verbose_name_plural": "kept views",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "user", "name"), name="savedview_name_once"
                    )
                ],
            },
        ),
        enable_rls("tools_savedview"),
    ]
