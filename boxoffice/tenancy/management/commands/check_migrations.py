"""`manage.py check_migrations`: can the release before go on working over these tables?"""

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.db.migrations.loader import MigrationLoader

from boxoffice.common.commands import ProductCommand
from boxoffice.tenancy import upgrades

REFUSED = 3


class Command(ProductCommand):
    """Refuse migrations that the release before does not survive; no database is asked."""

    help = (
        "Refuse migrations since the newest release that would break it while it is still at "
        "work.\n\n"
        "Exit codes: 0 nothing to refuse, 2 wrong usage, 3 something is refused.\n\n"
        "Examples:\n"
        "  manage.py check_migrations\n"
        "  manage.py check_migrations --json\n"
        "  manage.py check_migrations --freeze --dry-run   (what a release would record)\n"
        "  manage.py check_migrations --freeze             (with each release)"
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the command line."""
        parser.add_argument("--json", action="store_true", help="print the findings as JSON")
        parser.add_argument("--quiet", action="store_true", help="print findings only")
        parser.add_argument(
            "--freeze", action="store_true", help="record all migrations as released"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="with --freeze: print, write nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what is refused; exit with 3 when there is something."""
        findings = upgrades.check()
        if options["json"]:
            rows = [{**asdict(one), "hint": one.hint} for one in findings]
            self.stdout.write(json.dumps(rows))
        else:
            for one in findings:
                self.stdout.write(f"{one.migration}: {one.code}: {one.what}\n  {one.hint}")
        if findings:
            sys.exit(REFUSED)
        if options["freeze"]:
            self._freeze(is_dry=options["dry_run"])
        elif not options["quiet"] and not options["json"]:
            self.stdout.write("The release before can go on over these tables.")

    def _freeze(self, *, is_dry: bool) -> None:
        text = upgrades.released_text(MigrationLoader(None), settings.VERSION)
        if is_dry:
            self.stdout.write(text, ending="")
        else:
            upgrades.released_path().write_text(text)
