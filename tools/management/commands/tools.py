"""`manage.py tools list|off|on|register`: the tools of the code, and a tenant's switches."""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from boxoffice.common.exceptions import BoxOfficeError, NotFound
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from tools import governance

USAGE, NOT_THERE, REFUSED = 2, 3, 4


class Command(BaseCommand):
    """Lists them, switches them for a tenant, and registers what the code has."""

    help = (
        "The tools that the agent may be given.\n\n"
        "off holds from the next call on, also for runs at work and for calls that a human has\n"
        "approved already. off and on are safe to repeat. register writes down the tools of this\n"
        "release with their versions; run it after migrate, at each deploy.\n"
        "Exit codes: 0 done, 2 wrong usage, 3 no such tenant or tool, 4 refused.\n\n"
        "Examples:\n"
        "  manage.py tools list --tenant arena --json\n"
        "  manage.py tools off send_email --tenant arena --reason 'wrong texts were sent'\n"
        "  manage.py tools on send_email --tenant arena --reason 'the texts are right again'\n"
        "  manage.py tools list --tenant arena --quiet |\n"
        "      manage.py tools off - --tenant arena --reason 'an attack' --dry-run\n"
        "  manage.py tools register --json"
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Keep the lines of the examples."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the command line."""
        parser.add_argument("what", choices=["list", "off", "on", "register"])
        parser.add_argument("tools", nargs="*", metavar="TOOL", help="names, or - for stdin")
        parser.add_argument("--tenant", metavar="SLUG", help="the tenant's slug")
        parser.add_argument("--reason", default="", help="why; kept, audited, shown to admins")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--quiet", action="store_true", help="names only, or nothing")
        parser.add_argument("--dry-run", action="store_true", help="say what would be switched")

    def handle(self, *args: Any, **options: Any) -> None:
        """Register, or work inside the tenant."""
        if options["what"] in ("list", "register") and options["tools"]:
            raise CommandError(f"{options['what']} takes no tools.", returncode=USAGE)
        if options["what"] == "register":
            self._register(options)
            return
        if not options["tenant"]:
            raise CommandError("Name the --tenant.", returncode=USAGE)
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']!r}.", returncode=NOT_THERE)
        with tenant_scope(tenant.pk):
            if options["what"] == "list":
                self._show([row.as_json() for row in governance.tools_of_tenant()], options)
            else:
                self._switch(options)

    def _register(self, options: dict[str, Any]) -> None:
        done = governance.tools_register().as_json()
        if options["json"]:
            self.stdout.write(json.dumps(done))
        elif not options["quiet"]:
            for what, names in done.items():
                self.stdout.write(f"{what}: {', '.join(names) or '-'}")

    def _switch(self, options: dict[str, Any]) -> None:
        names = sys.stdin.read().split() if options["tools"] == ["-"] else options["tools"]
        if not names:
            raise CommandError("Name at least one tool.", returncode=USAGE)
        rows = [self._one(name, options) for name in dict.fromkeys(names)]
        self._show(rows, options)
        codes = [row["exit"] for row in rows if row["exit"]]
        if codes:
            sys.exit(min(codes))

    def _one(self, name: str, options: dict[str, Any]) -> JsonObject:
        is_off = options["what"] == "off"
        row: JsonObject = {"tool": name, "is_off": is_off, "exit": 0}
        try:
            changed = governance.tool_switch(
                tool=name,
                is_off=is_off,
                reason=options["reason"],
                by=None,
                dry_run=options["dry_run"],
            )
        except NotFound as error:
            return {"tool": name, "error": error.message, "exit": NOT_THERE}
        except BoxOfficeError as error:
            return {"tool": name, "error": error.message, "exit": REFUSED}
        return row | {"would_change" if options["dry_run"] else "changed": changed}

    def _show(self, rows: list[JsonObject], options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(rows, ensure_ascii=False))
            return
        for row in rows:
            if options["quiet"]:
                if options["what"] == "list":
                    self.stdout.write(row["tool"])
                continue
            self.stdout.write("  ".join(f"{k}={v}" for k, v in row.items() if k != "exit"))
