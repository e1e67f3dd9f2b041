"""How much of the workers a tenant gets. Rows of the release before get the defaults."""

import django.core.validators
from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0002_row_level_security")]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="share",
            field=models.PositiveSmallIntegerField(
                db_default=10,
                default=10,
                help_text=(
                    "When answers have to wait: twice the share gets twice as many at once."
                ),
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1000),
                ],
                verbose_name="share",
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="max_concurrent_runs",
            field=models.PositiveSmallIntegerField(
                db_default=100,
                default=100,
                help_text="Further ones wait in line; visitors get at most half of them.",
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(10000),
                ],
                verbose_name="answers at once at most",
            ),
        ),
        AddConstraintNotValid(
            model_name="tenant",
            constraint=models.CheckConstraint(
                condition=models.Q(share__gte=1), name="tenant_has_a_share"
            ),
        ),
        AddConstraintNotValid(
            model_name="tenant",
            constraint=models.CheckConstraint(
                condition=models.Q(max_concurrent_runs__gte=1), name="tenant_may_work"
            ),
        ),
        ValidateConstraint(model_name="tenant", name="tenant_has_a_share"),
        ValidateConstraint(model_name="tenant", name="tenant_may_work"),
    ]
