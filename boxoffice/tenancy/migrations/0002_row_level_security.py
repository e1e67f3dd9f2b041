"""Rows of a tenant are seen only inside its scope."""

from django.db import migrations

from boxoffice.tenancy.rls import enable_rls


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0001_initial")]

    operations = [
        enable_rls(
            "tenancy_tier",
            "tenancy_membership",
            "tenancy_apitoken",
            "tenancy_idempotencyrecord",
        )
    ]
