"""What the demo's payment provider remembers; it knows no tenants."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Movement",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=200, unique=True, verbose_name="key")),
                (
                    "charge_key",
                    models.CharField(
                        blank=True, default="", max_length=200, verbose_name="of the charge"
                    ),
                ),
                ("amount_minor", models.PositiveIntegerField(verbose_name="amount (centavos)")),
                (
                    "refusal",
                    models.CharField(
                        blank=True, default="", max_length=64, verbose_name="refused because"
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(auto_now_add=True, verbose_name="created at"),
                ),
            ],
            options={
                "verbose_name": "movement of money",
                "verbose_name_plural": "movements of money",
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(refusal="") & ~models.Q(charge_key=""),
                        fields=["charge_key"],
                        name="movement_one_refund_per_charge",
                    )
                ],
            },
        ),
    ]
