"""`manage.py seed_demo`: tenants, people, events and sold seats to look at."""

import json
from argparse import ArgumentParser
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from boxoffice.common import clock
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.demo import maps, programme, stock
from boxoffice.ticketing.models import Event
from tools.demo import cast

# Any number will do, as long as two runs at once take the same.
_LOCK = 7_302_026

HOUSES = (
    (cast.ARENA, maps.ARENA, programme.ARENA_SLOTS),
    (cast.TEATRO, maps.TEATRO, programme.TEATRO_SLOTS),
)


class Command(BaseCommand):
    """Seeds the demo; run again, it only adds the events of the days that came nearer."""

    help = (
        "Fill the database with the demo's tenants (arena, teatro), people (password: demo), "
        "seat maps, events of the coming six weeks and sold seats. Safe to run again: what "
        "exists is left as it is, and only events of new days are added.\n\n"
        "Examples:\n"
        "  manage.py seed_demo\n"
        "  manage.py seed_demo --json\n"
        "Exit codes: 0 done, 4 refused because DEBUG is off and --yes was not given."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the command line."""
        parser.add_argument("--json", action="store_true", help="print what there is as JSON")
        parser.add_argument("--quiet", action="store_true", help="print nothing")
        parser.add_argument(
            "--yes", action="store_true", help="seed although DEBUG is off (known passwords!)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Seed, and say what there is now."""
        if not settings.DEBUG and not options["yes"]:
            raise CommandError(
                "seed_demo makes users with a known password, one of them all-powerful. "
                "Outside DEBUG it wants --yes.",
                returncode=4,
            )
        with transaction.atomic():
            connection.allow_pauses()  # type: ignore[attr-defined]
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            cast.operator_seed()
            group = cast.admin_group_seed()
            report = [_seed(who, where, what, group) for who, where, what in HOUSES]
        if options["quiet"]:
            return
        if options["json"]:
            self.stdout.write(json.dumps({"tenants": report}))
            return
        for line in report:
            self.stdout.write(
                f"{line['slug']}: {line['events']} coming events ({line['new_events']} new)"
            )


def _seed(who: cast.House, where: maps.House, what: Any, group: Any) -> dict[str, Any]:
    tenant = cast.tenant_seed(who, group)
    with tenant_scope(tenant.pk):
        venue = stock.venue_stock(where)
        new = stock.programme_stock(
            venue, what, zone=ZoneInfo(tenant.time_zone), fans=cast.crowd_ids(who)
        )
        coming = Event.objects.filter(starts_at__gt=clock.now()).count()
    return {
        "slug": tenant.slug,
        "name": tenant.name,
        "users": [person.username for person in who.people],
        "events": coming,
        "new_events": new,
    }
