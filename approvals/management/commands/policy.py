"""`manage.py policy`: the rules of a tenant, for people at a terminal and for CI."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import override

from approvals.models import PolicyState, PolicyVersion
from approvals.policies import versions
from approvals.policies.checks import rules_check
from approvals.policies.document import RulesInvalid
from approvals.policies.rules import Rule
from approvals.policies.trial import DAYS, MAX_DAYS, Trial, what_if
from boxoffice.common.commands import ProductCommand
from boxoffice.common.exceptions import BoxOfficeError, Conflict, NotFound
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope

USAGE, UNKNOWN, INVALID, CONFLICT, DIFFERENT = 2, 3, 4, 5, 6
STDIN = "-"
MOST_SHOWN = 20
SECONDS = 300.0  # for a trial; nobody waits before a page


class Command(ProductCommand):
    """List, check, import, try and activate rules."""

    help = (
        "The rules of one tenant, in versions: list and show them, check a file, import it as a\n"
        "draft, see what it would have done to the real calls of the last days, run it in shadow,\n"
        "put it in force. A file may be “-” for standard input.\n\n"
        "Exit codes: 0 done, 2 wrong usage, 3 no such tenant, version or file, 4 the rules are\n"
        "refused, 5 the version is not in the state that this needs, 6 (what-if --fail-on-change)\n"
        "some calls would go another way.\n\n"
        "Examples:\n"
        "  manage.py policy --tenant arena list --json\n"
        "  manage.py policy --tenant arena show 3\n"
        "  manage.py policy --tenant arena validate rules.yaml\n"
        "  cat rules.yaml | manage.py policy --tenant arena what-if - --days 30 --json\n"
        "  manage.py policy --tenant arena import rules.yaml --note 'refunds' --json\n"
        "  manage.py policy --tenant arena export > rules.yaml\n"
        "  manage.py policy --tenant arena shadow 4\n"
        "  manage.py policy --tenant arena activate 4 --yes\n"
        "  manage.py policy --tenant arena activate 4 --dry-run"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the command line."""
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="whose rules")
        parts = parser.add_subparsers(dest="part", required=True, parser_class=ArgumentParser)

        def part(name: str, help: str) -> ArgumentParser:
            one: ArgumentParser = parts.add_parser(name, help=help, description=help)
            one.add_argument("--json", action="store_true", help="print JSON")
            one.add_argument("--quiet", action="store_true", help="print nothing but errors")
            return one

        part("list", "the versions, newest first")
        part("show", "one version with its rules").add_argument("number", type=int)
        export = part("export", "the rules of a version as YAML (default: the one in force)")
        export.add_argument("number", type=int, nargs="?")
        part("validate", "check a file against this tenant").add_argument("file")
        bring = part("import", "store a file as a new draft")
        bring.add_argument("file")
        bring.add_argument("--note", default="", help="what it is for")
        bring.add_argument("--dry-run", action="store_true", help="only check it")
        trial = part("what-if", "what a file would have done to the calls of the last days")
        trial.add_argument("file")
        trial.add_argument("--days", type=int, default=DAYS, help=f"1 to {MAX_DAYS}")
        trial.add_argument("--fail-on-change", action="store_true", help="exit with 6 if any")
        for name, help in (
            ("shadow", "evaluate a version beside the one in force, without effect"),
            ("activate", "put a version in force, from the next call on"),
            ("retire", "end a version"),
        ):
            one = part(name, help)
            one.add_argument("number", type=int)
            one.add_argument("--dry-run", action="store_true", help="only say what would be done")
            one.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do one part in the tenant's scope; errors of the rules go out with a code each."""
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']!r}.", returncode=UNKNOWN)
        part = options["part"].replace("-", "_")
        try:
            # The parts of a pipeline read messages as well: they are not in the tenant's language.
            with tenant_scope(tenant.pk), override("en"):
                getattr(self, f"do_{part}")(options)
        except RulesInvalid as error:
            self._refuse(error, options)
        except NotFound as error:
            raise CommandError(error.message, returncode=UNKNOWN) from None
        except Conflict as error:
            raise CommandError(error.message, returncode=CONFLICT) from None
        except BoxOfficeError as error:
            raise CommandError(error.message, returncode=USAGE) from None

    def _refuse(self, error: RulesInvalid, options: JsonObject) -> None:
        if options["json"]:
            rows = [
                {
                    "line": one.line,
                    "column": one.column,
                    "rule": one.rule,
                    "field": one.field,
                    "message": one.message,
                }
                for one in error.problems
            ]
            self.stdout.write(json.dumps({"valid": False, "problems": rows}, ensure_ascii=False))
        else:
            for one in error.problems:
                self.stderr.write(f"{options.get('file') or options.get('number')}:{one}")
        sys.exit(INVALID)

    def _say(self, options: JsonObject, data: Any, *lines: str) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(data, ensure_ascii=False))
        elif not options["quiet"]:
            for line in lines:
                self.stdout.write(line)

    def do_list(self, options: JsonObject) -> None:
        """All versions."""
        rows = [_row(one) for one in PolicyVersion.objects.defer("source").order_by("-number")]
        columns = "{number:>4}  {state:<8}  {rules:>3} rules  {note}"
        self._say(options, rows, *(columns.format(**row).rstrip() for row in rows))

    def do_show(self, options: JsonObject) -> None:
        """One version."""
        version = versions.version_get(options["number"])
        data = _row(version) | {"rules": version.rules, "source": version.source}
        lines = [f"# {version.label}, {version.state}", version.source.rstrip("\n")]
        self._say(options, data, *lines)

    def do_export(self, options: JsonObject) -> None:
        """The YAML of a version, as it was written."""
        if options["number"] is None:
            version = versions.version_in(PolicyState.ACTIVE)
            if version is None:
                raise NotFound("No version is in force.")
        else:
            version = versions.version_get(options["number"])
        data = {"number": version.number, "source": version.source}
        self._say(options, data, version.source.rstrip("\n"))

    def do_validate(self, options: JsonObject) -> None:
        """Check a file."""
        rules, warnings = rules_check(_text(options["file"]))
        data = {"valid": True, "rules": len(rules), "warnings": [str(one) for one in warnings]}
        lines = [f"warning: {one}" for one in warnings]
        self._say(options, data, *lines, f"{len(rules)} rules, valid")

    def do_import(self, options: JsonObject) -> None:
        """Store a file, unless the newest version that is not retired has these rules."""
        source = _text(options["file"])
        rules, _ = rules_check(source)
        kept = PolicyVersion.objects.exclude(state=PolicyState.RETIRED)
        newest = kept.order_by("-number").first()
        if newest is not None and newest.source == source:
            said = f"{newest.label} has these rules already"
            self._say(options, _row(newest) | {"created": False}, said)
            return
        if options["dry_run"]:
            data = {"created": False, "rules": len(rules)}
            self._say(options, data, f"would store {len(rules)} rules as a draft")
            return
        version = versions.draft_create(source=source, note=options["note"])
        data = _row(version) | {"created": True}
        self._say(options, data, f"{version.label}: a draft of {len(rules)} rules")

    def do_what_if(self, options: JsonObject) -> None:
        """Try a file on real calls."""
        if not 1 <= options["days"] <= MAX_DAYS:
            raise CommandError(f"--days: between 1 and {MAX_DAYS}.", returncode=USAGE)
        rules, _ = rules_check(_text(options["file"]))
        trial = what_if(rules, days=options["days"], seconds=SECONDS)
        self._say(options, trial.as_data(), *_told(trial, rules))
        if options["fail_on_change"] and trial.changes:
            sys.exit(DIFFERENT)

    def do_shadow(self, options: JsonObject) -> None:
        """Begin a shadow."""
        self._bring(options, PolicyState.SHADOW, "run it in shadow")

    def do_activate(self, options: JsonObject) -> None:
        """Put in force."""
        self._bring(options, PolicyState.ACTIVE, "put it in force")

    def do_retire(self, options: JsonObject) -> None:
        """End it."""
        self._bring(options, PolicyState.RETIRED, "retire it")

    def _bring(self, options: JsonObject, state: PolicyState, wish: str) -> None:
        version = versions.version_get(options["number"])
        if version.state == state:
            self._say(options, _row(version), f"{version.label} is {version.state} already")
            return
        before = versions.version_in(state) if state != PolicyState.RETIRED else None
        if options["dry_run"]:
            versions.version_check(version, state)
            more = f", in place of {before.label}" if before else ""
            self._say(options, _row(version), f"would {wish}: {version.label}{more}")
            return
        if not options["yes"]:
            _confirm(f"{version.label}: {wish}?")
        version = self._moved(version, state)
        self._say(options, _row(version), f"{version.label} is {version.state}")

    def _moved(self, version: PolicyVersion, state: PolicyState) -> PolicyVersion:
        seen = version.changed_at  # a human may have thought about it for a while
        if state == PolicyState.SHADOW:
            return versions.version_shadow(version_id=version.pk, seen=seen)
        if state == PolicyState.ACTIVE:
            return versions.version_activate(version_id=version.pk, seen=seen)
        return versions.version_retire(version_id=version.pk)


def _row(version: PolicyVersion) -> JsonObject:
    return {
        "number": version.number,
        "state": version.state,
        "rules": len(version.rules),
        "note": version.note,
        "copied_from": version.copied_from,
        "changed_at": version.changed_at.isoformat(),
        "activated_at": version.activated_at.isoformat() if version.activated_at else None,
    }


def _told(trial: Trial, rules: list[Rule]) -> list[str]:
    counts = ", ".join(
        f"{effect} {trial.before[effect]} → {trial.after[effect]}" for effect in trial.after
    )
    lines = [
        f"{trial.calls} calls of {trial.days} days: {counts}; {trial.changes} would change"
        + (" (only the newest were looked at)" if trial.is_cut else "")
    ]
    if trial.failed:
        lines.append(f"on {trial.failed} a condition could not be evaluated: held for a reviewer")
    lines += [f"  rule {rule.name!r} decides {trial.by_rule[rule.name]}" for rule in rules]
    lines += [
        f"  {one.created_at:%Y-%m-%d %H:%M} {one.tool} {one.who or '-'}: "
        f"{one.before.value} → {one.after.effect.value} ({one.after.rule or one.after.code}) "
        f"{one.arguments_text}"
        for one in trial.changed[:MOST_SHOWN]
    ]
    return lines


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == STDIN else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}.", returncode=UNKNOWN) from None
    except UnicodeDecodeError:
        raise CommandError(f"{name}: not UTF-8.", returncode=INVALID) from None


def _confirm(question: str) -> None:
    """Ask at a terminal; without one nothing is done unasked."""
    if not sys.stdin.isatty():
        raise CommandError("Nobody can be asked here: say --yes.", returncode=USAGE)
    if input(f"{question} [y/N] ").strip().lower() not in {"y", "yes"}:
        raise CommandError("Nothing was done.", returncode=USAGE)
