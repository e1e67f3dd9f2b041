"""`manage.py flush`, as the owner of the tables (the application role may not truncate)."""

from typing import Any

from django.core.management.commands import flush

from boxoffice.tenancy.owner import owner_connection


class Command(flush.Command):
    """Django's command under the login role."""

    def handle(self, **options: Any) -> None:
        """Empty the tables."""
        with owner_connection(options["database"]):
            super().handle(**options)
