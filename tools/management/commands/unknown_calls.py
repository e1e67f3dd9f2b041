"""`manage.py unknown_calls list|settle|look-up`: calls whose outcome nobody knows."""

import json
import sys
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from boxoffice.common.commands import ProductCommand
from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from tools import settling
from tools.models import RemoteEffect, ToolCall

USAGE, NOT_THERE, REFUSED, STILL_UNKNOWN = 2, 3, 4, 5


class Command(ProductCommand):
    """List them, and write down what became of them, as the platform's operator."""

    help = (
        "Calls that another party may have done or not, because its answer was lost.\n\n"
        "settle is safe to repeat: a call that is settled the same way already is no error.\n"
        "Exit codes: 0 done, 2 wrong usage, 3 no such tenant or call, 4 refused (for example\n"
        "settled otherwise already), 5 still unknown after looking it up.\n\n"
        "Examples:\n"
        "  manage.py unknown_calls list --tenant arena --json\n"
        "  manage.py unknown_calls look-up 019b… --tenant arena\n"
        "  manage.py unknown_calls settle 019b… --tenant arena --happened \\\n"
        "      --note 'seen in the statement' --yes\n"
        "  manage.py unknown_calls list --tenant arena --quiet |\n"
        "      manage.py unknown_calls look-up - --tenant arena --json"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the command line."""
        parser.add_argument("what", choices=["list", "settle", "look-up"])
        parser.add_argument("calls", nargs="*", metavar="CALL", help="ids, or - for stdin")
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="the tenant's slug")
        verdict = parser.add_mutually_exclusive_group()
        verdict.add_argument("--happened", action="store_true", help="it was done")
        verdict.add_argument("--did-not-happen", action="store_true", help="it was not done")
        parser.add_argument("--note", default="", help="how you know; kept and audited")
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--quiet", action="store_true", help="ids only, or nothing")
        parser.add_argument("--dry-run", action="store_true", help="say what would be settled")
        parser.add_argument("--yes", action="store_true", help="settle without asking")

    def handle(self, *args: Any, **options: Any) -> None:
        """Work inside the tenant."""
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']!r}.", returncode=NOT_THERE)
        with tenant_scope(tenant.pk):
            if options["what"] == "list":
                if options["calls"]:
                    raise CommandError("list takes no calls.", returncode=USAGE)
                self._show([_row(effect) for effect in settling.unknown_calls()], options)
            else:
                self._work(_ids(options["calls"]), options)

    def _work(self, ids: list[UUID], options: dict[str, Any]) -> None:
        is_settling = options["what"] == "settle"
        if not ids:
            raise CommandError("Name at least one call.", returncode=USAGE)
        if is_settling and not (options["happened"] or options["did_not_happen"]):
            raise CommandError("Say --happened or --did-not-happen.", returncode=USAGE)
        if is_settling and not options["yes"] and not options["dry_run"]:
            self._confirm(len(ids))
        rows = [self._one(call_id, is_settling, options) for call_id in ids]
        self._show(rows, options)
        codes = [row["exit"] for row in rows if row["exit"]]
        if codes:
            sys.exit(min(codes))

    def _one(self, call_id: UUID, is_settling: bool, options: dict[str, Any]) -> JsonObject:
        known = ToolCall.objects.filter(pk=call_id).first()
        row: JsonObject = {"call": str(call_id), "exit": 0}
        if known is None:
            return row | {"error": "There is no such call.", "exit": NOT_THERE}
        wanted = "succeeded" if options["happened"] else "failed"
        if is_settling and known.state == wanted:
            return row | {"state": known.state}  # settled before
        if options["dry_run"]:
            would = wanted if is_settling else "looked up"
            return row | {"state": known.state, "would_be": would}
        try:
            if is_settling:
                call = settling.call_settle(
                    call_id=call_id, happened=options["happened"], note=options["note"], by=None
                )
            else:
                call = settling.call_look_up(call_id=call_id, by=None)
        except BoxOfficeError as error:
            return row | {"state": known.state, "error": error.message, "exit": REFUSED}
        return row | {"state": call.state, "exit": STILL_UNKNOWN if call.state == "unknown" else 0}

    def _confirm(self, count: int) -> None:
        if not sys.stdin.isatty():
            raise CommandError("Say --yes to settle without a terminal.", returncode=USAGE)
        if input(f"Settle {count} calls? [y/N] ").strip().lower() != "y":
            raise CommandError("Nothing was settled.", returncode=REFUSED)

    def _show(self, rows: list[JsonObject], options: dict[str, Any]) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(rows, ensure_ascii=False))
            return
        for row in rows:
            if options["quiet"]:
                if options["what"] == "list":
                    self.stdout.write(row["call"])
                continue
            self.stdout.write("  ".join(f"{k}={v}" for k, v in row.items() if k != "exit"))


def _ids(given: list[str]) -> list[UUID]:
    texts = sys.stdin.read().split() if given == ["-"] else given
    try:
        return list(dict.fromkeys(UUID(text) for text in texts))
    except ValueError:
        raise CommandError("A call is named by its id.", returncode=USAGE) from None


def _row(effect: RemoteEffect) -> JsonObject:
    call = effect.call
    return {
        "call": str(call.pk),
        "tool": call.tool,
        "arguments": call.arguments,
        "user": None if call.user is None else call.user.get_username(),
        "provider": effect.provider,
        "key": call.idempotency_key,
        "request": effect.request,
        "sent_at": effect.sent_at.isoformat(),
        "unknown_at": effect.unknown_at.isoformat() if effect.unknown_at else None,
        "attempts": call.attempts,
        "last_heard": effect.found,
        "conversation": str(call.conversation_ref) if call.conversation_ref else None,
    }
