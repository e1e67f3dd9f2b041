"""`manage.py create_token USER --tenant SLUG`: a bearer token for the REST API."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from boxoffice.common.exceptions import NotFound
from boxoffice.tenancy.models import Tenant, User
from boxoffice.tenancy.principals import TOKEN_DAYS, principal_for, token_create


class Command(BaseCommand):
    """Make a token; it is printed once and cannot be read again."""

    help = (
        "Make a bearer token for a member of a tenant. It is printed once.\n\n"
        "Examples:\n"
        "  manage.py create_token ana --tenant arena --json\n"
        "  manage.py create_token rita --tenant arena --name inbox --days 7"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the command line."""
        parser.add_argument("user", metavar="USER", help="the user's name")
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="the tenant's slug")
        parser.add_argument("--name", default="", help="what the token is for")
        parser.add_argument("--days", type=int, default=TOKEN_DAYS, help="days until it expires")
        parser.add_argument("--json", action="store_true", help='print {"token": …}')

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the token."""
        tenant = Tenant.objects.filter(slug=options["tenant"], is_active=True).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']!r}.", returncode=3)
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}.", returncode=3)
        if not 1 <= options["days"] <= 366:
            raise CommandError("--days: between 1 and 366.", returncode=2)
        try:
            principal_for(tenant=tenant, user=user)
        except NotFound:
            raise CommandError(f"{user} is no member of {tenant.slug}.", returncode=3) from None
        token = token_create(tenant=tenant, user=user, name=options["name"], days=options["days"])
        self.stdout.write(json.dumps({"token": token}) if options["json"] else token)
