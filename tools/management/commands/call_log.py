"""`manage.py call_log`: the log of tool calls of one tenant, as CSV or JSON Lines."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive

from approvals.policies.rules import Effect
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from tools.calllog import chunks, export_record
from tools.models import CallState, ToolCall
from tools.settling import OPERATOR

USAGE, UNKNOWN_TENANT = 2, 3
EXACT = {"tool": "tool", "state": "state", "verdict": "verdict", "reason": "reason_code"}
EXACT |= {"error": "error__code", "tier": "seen__tier"}


class Command(BaseCommand):
    """Print the calls that fit, newest first; that somebody took them is audited."""

    help = (
        "Print the log of tool calls, newest first. Names, addresses and what people wrote are\n"
        "hidden unless you ask for them. The export is written down in the audit log.\n\n"
        "Exit codes: 0 done, 2 wrong usage, 3 no such tenant.\n\n"
        "Examples:\n"
        "  manage.py call_log --tenant arena > calls.csv\n"
        "  manage.py call_log --tenant arena --format jsonl --verdict deny | jq .reason_code\n"
        "  manage.py call_log --tenant arena --tool send_email --since 2026-11-01T00:00-03:00"
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Keep the lines of the examples."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the command line."""
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="the tenant's slug")
        parser.add_argument("--format", choices=["csv", "jsonl"], default="csv")
        parser.add_argument("--tool", help="only calls of this tool")
        parser.add_argument("--state", choices=CallState.values)
        parser.add_argument("--verdict", choices=Effect.values)
        parser.add_argument("--reason", metavar="CODE", help="why the guard said so")
        parser.add_argument("--error", metavar="CODE", help="how it failed")
        parser.add_argument("--tier", metavar="SLUG", help="the caller's tier then")
        parser.add_argument("--since", metavar="TIME", help="proposed at or after (ISO 8601)")
        parser.add_argument("--until", metavar="TIME", help="proposed before (ISO 8601)")
        parser.add_argument("--with-personal-data", action="store_true", help="hide nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print part by part."""
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            raise CommandError(
                f"There is no tenant {options['tenant']!r}.", returncode=UNKNOWN_TENANT
            )
        wish = {EXACT[name]: options[name] for name in EXACT if options[name]}
        for name, lookup in (("since", "created_at__gte"), ("until", "created_at__lt")):
            if options[name]:
                wish[lookup] = _moment(name, options[name])
        is_known = options["with_personal_data"]
        with tenant_scope(tenant.pk):
            with transaction.atomic():
                said = "&".join(f"{key}={value}" for key, value in wish.items())
                export_record(actor=OPERATOR, kind=options["format"], wish=said, is_known=is_known)
            rows = ToolCall.objects.filter(**wish)
            for part in chunks(rows, kind=options["format"], may_know=lambda _: is_known):
                self.stdout.write(part, ending="")


def _moment(name: str, text: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or is_naive(moment):
        raise CommandError(f"--{name}: a time with its offset, not {text!r}.", returncode=USAGE)
    return moment
