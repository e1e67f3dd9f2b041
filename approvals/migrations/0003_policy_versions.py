"""The rules of tenants, in versions."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import boxoffice.common.types


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0002_guards"),
        ("tenancy", "0002_row_level_security"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PolicyVersion",
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
                ("number", models.PositiveIntegerField(verbose_name="number")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("draft", "draft"),
                            ("shadow", "in shadow"),
                            ("active", "in force"),
                            ("retired", "retired"),
                        ],
                        default="draft",
                        max_length=8,
                        verbose_name="state",
                    ),
                ),
                ("source", models.TextField(blank=True, verbose_name="rules")),
                ("rules", models.JSONField(default=list, verbose_name="rules, as they are read")),
                (
                    "note",
                    models.CharField(blank=True, default="", max_length=500, verbose_name="note"),
                ),
                (
                    "copied_from",
                    models.PositiveIntegerField(blank=True, null=True, verbose_name="copy of"),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created at")),
                ("changed_at", models.DateTimeField(auto_now=True, verbose_name="changed at")),
                (
                    "shadowed_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="in shadow since"),
                ),
                (
                    "activated_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="in force since"),
                ),
                (
                    "retired_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="retired at"),
                ),
                (
                    "author",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="author",
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
            ],
            options={
                "verbose_name": "policy version",
                "verbose_name_plural": "policy versions",
                "ordering": ["-number"],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "number"), name="policy_number_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "active")),
                        fields=("tenant",),
                        name="policy_one_active",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "shadow")),
                        fields=("tenant",),
                        name="policy_one_shadow",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["draft", "shadow", "active", "retired"])),
                        name="policy_state_known",
                    ),
                ],
            },
        ),
    ]
