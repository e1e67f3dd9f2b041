"""`manage.py migrate`, as the owner of the tables."""

from typing import Any

from django.core.management.commands import migrate

from boxoffice.tenancy.owner import grant_application_role, owner_connection


class Command(migrate.Command):
    """Django's command: the application role is made first and may use what was migrated."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the migrations under the login role."""
        alias = options["database"]
        with owner_connection(alias):
            grant_application_role(alias)
            super().handle(*args, **options)
            grant_application_role(alias)
