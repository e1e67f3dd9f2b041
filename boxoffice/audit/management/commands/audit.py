"""`manage.py audit verify`: is the audit log as it was written?"""

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from boxoffice.audit import chain
from boxoffice.common.commands import ProductCommand
from boxoffice.tenancy.models import Tenant

USAGE, UNKNOWN_TENANT, BROKEN = 2, 3, 4


class Command(ProductCommand):
    """Walk the chains; exit with 0 when they are whole, 3 for an unknown tenant, 4 when broken."""

    help = (
        "Check that nobody has changed, added or removed audit records since they were sealed,\n"
        "nor tool calls since they ended.\n\n"
        "Exit codes: 0 whole, 2 wrong usage, 3 no such tenant, 4 a chain is broken.\n\n"
        "Examples:\n"
        "  manage.py audit verify\n"
        "  manage.py audit verify --tenant arena --json\n"
        "  manage.py audit verify --tenant arena --head 3f1c…   (a head noted earlier)"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the command line."""
        parser.add_argument("what", choices=["verify"], help="walk the chains of seals")
        parser.add_argument("--tenant", metavar="SLUG", help="only this tenant (default: all)")
        parser.add_argument("--head", default="", help="a digest that must be in the chain")
        parser.add_argument("--json", action="store_true", help="print the reports as JSON")
        parser.add_argument("--quiet", action="store_true", help="print broken chains only")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print one report for each tenant."""
        if options["head"] and not options["tenant"]:
            raise CommandError("--head needs --tenant.", returncode=USAGE)
        tenants = Tenant.objects.order_by("slug")
        if options["tenant"]:
            tenants = tenants.filter(slug=options["tenant"])
            if not tenants:
                raise CommandError(
                    f"There is no tenant {options['tenant']!r}.", returncode=UNKNOWN_TENANT
                )
        reports = [chain.chain_verify(tenant=one, noted=options["head"]) for one in tenants]
        if options["json"]:
            rows = [{**asdict(one), "whole": one.is_whole} for one in reports]
            self.stdout.write(json.dumps(rows))
        else:
            self._print([one for one in reports if not (options["quiet"] and one.is_whole)])
        if not all(one.is_whole for one in reports):
            sys.exit(BROKEN)

    def _print(self, reports: list[chain.Report]) -> None:
        for one in reports:
            verdict = "whole" if one.is_whole else "BROKEN"
            self.stdout.write(
                f"{one.tenant}: {verdict}, {one.records} records under {one.seals} seals, "
                f"{one.unsealed} not sealed yet, {one.covered} calls covered, "
                f"{one.waiting} not yet, head {one.head or 'none'}"
            )
            for found in one.breaks:
                self.stdout.write(f"  seal {found.seal}: {found.problem}")
