"""The tools and their versions as rows, and what a tenant has switched off."""

import django.db.models.deletion
from django.db import migrations, models

import boxoffice.common.types
from boxoffice.tenancy.rls import append_only, enable_rls


class Migration(migrations.Migration):
    dependencies = [("tools", "0010_circuit_of_remote_effects")]

    operations = [
        migrations.CreateModel(
            name="Tool",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=128, unique=True, verbose_name="name")),
                ("owner", models.CharField(max_length=64, verbose_name="owner")),
                ("risk", models.CharField(max_length=32, verbose_name="risk")),
                ("version", models.CharField(max_length=16, verbose_name="version in use")),
                (
                    "successor",
                    models.CharField(
                        blank=True, default="", max_length=128, verbose_name="successor"
                    ),
                ),
                ("is_present", models.BooleanField(default=True, verbose_name="in use")),
                (
                    "registered_at",
                    models.DateTimeField(auto_now_add=True, verbose_name="registered at"),
                ),
            ],
            options={"verbose_name": "tool", "verbose_name_plural": "tools"},
        ),
        migrations.CreateModel(
            name="ToolVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "tool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="versions",
                        to="tools.tool",
                        verbose_name="tool",
                    ),
                ),
                ("digest", models.CharField(max_length=16, verbose_name="hash of the contract")),
                ("contract", models.JSONField(verbose_name="contract")),
                (
                    "registered_at",
                    models.DateTimeField(auto_now_add=True, verbose_name="registered at"),
                ),
            ],
            options={
                "verbose_name": "tool version",
                "verbose_name_plural": "tool versions",
                "constraints": [
                    models.UniqueConstraint(fields=("tool", "digest"), name="toolversion_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="ToolSwitch",
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
                ("tool", models.CharField(max_length=128, verbose_name="tool")),
                ("is_off", models.BooleanField(verbose_name="switched off")),
                ("reason", models.CharField(max_length=500, verbose_name="reason")),
                ("changed_by", models.CharField(max_length=100, verbose_name="changed by")),
                ("changed_at", models.DateTimeField(auto_now=True, verbose_name="changed at")),
            ],
            options={
                "verbose_name": "tool switch",
                "verbose_name_plural": "tool switches",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "tool"), name="toolswitch_once")
                ],
            },
        ),
        enable_rls("tools_toolswitch"),
        append_only("tools_toolversion"),
    ]
