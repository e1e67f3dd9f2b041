"""The ledger is append-only, and seen only inside its tenant's scope."""

from django.db import migrations

from boxoffice.tenancy.rls import append_only, enable_rls


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0001_initial"),
        ("tenancy", "0002_row_level_security"),
    ]

    operations = [
        enable_rls("billing_usageentry"),
        append_only("billing_usageentry"),
    ]
