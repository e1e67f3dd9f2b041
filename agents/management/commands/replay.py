"""`manage.py replay RUN`: walk through a run again, ask its model again, or fork it."""

import json
import sys
import time
from argparse import ArgumentParser
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.core.serializers.json import DjangoJSONEncoder

from agents.models import REPLAY_MACHINE, Replay, ReplayState, Run
from agents.replay.again import KEEPS_TO_IT
from agents.replay.dry import Report, replay_dry
from agents.replay.errors import ThingsChanged
from agents.replay.fork import fork_plan, run_fork
from agents.replay.service import replay_ask, replay_check
from boxoffice.common.commands import ProductCommand
from boxoffice.common.exceptions import BoxOfficeError, Conflict, Forbidden, InvalidInput
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Tenant, User
from boxoffice.tenancy.principals import Principal, principal_of_member
from boxoffice.tenancy.scope import tenant_scope

USAGE, NOT_FOUND, CONFLICT, CHANGED, FORBIDDEN, DIVERGED, FAILED, TOO_LATE = range(2, 10)
POLL_SECONDS = 0.2
WAIT_SECONDS = 120
HELP = """\
Walk through a run that is over: what was sent, what was said, what the guard says today.
Nothing is done and nothing is written. With --ask-model a worker asks the model again, with the
recorded results; no tool runs, and USER (--as) pays. With --fork the run goes on for real in a new
conversation of USER, with USER's own rights.

Exit codes: 0 done (asked again: the model kept to the record), 2 wrong usage, 3 no such tenant,
run, step or user, 4 the run is not over, or cannot be done from that step, 5 a fork or a model
needs what has changed or is gone (fork: --accept-changes), 6 USER may not, 7 the model left the
record, 8 asking it failed, 9 no worker was through in time (the replay goes on).

Examples:
  manage.py replay 01890a5d-ac96-774b-bcce-b302099a8057 --tenant arena
  manage.py replay 01890a5d-ac96-774b-bcce-b302099a8057 --tenant arena --from 4 --json
  echo 01890a5d-ac96-774b-bcce-b302099a8057 | manage.py replay - --tenant arena --quiet
  manage.py replay 01890a5d-… --tenant arena --from 4 --ask-model --as ada --wait 60
  manage.py replay 01890a5d-… --tenant arena --from 4 --fork --as ada --dry-run
  manage.py replay 01890a5d-… --tenant arena --from 4 --fork --as ada --yes --accept-changes
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What to print, what to print of it without --json, and how to exit."""

    data: JsonObject
    lines: list[str]
    exit_code: int = 0


class Command(ProductCommand):
    """A dry replay changes nothing; asking twice while one is under way is asking once."""

    help = HELP

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Define the command line."""
        parser.add_argument("run", metavar="RUN", help="the run's id; - reads it from stdin")
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="the tenant's slug")
        parser.add_argument(
            "--from", dest="from_step", type=int, default=1, metavar="N", help="begin at this step"
        )
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument("--ask-model", action="store_true", help="ask the model again")
        kind.add_argument("--fork", action="store_true", help="go on for real, as USER")
        parser.add_argument("--as", dest="user", metavar="USER", help="who pays, or who forks")
        parser.add_argument(
            "--accept-changes", action="store_true", help="fork although things have changed"
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would be done")
        parser.add_argument("--yes", action="store_true", help="do not ask before a fork")
        parser.add_argument(
            "--wait",
            type=int,
            default=WAIT_SECONDS,
            metavar="S",
            help="seconds to wait for a worker",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--quiet", action="store_true", help="print what differs only")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it, print it, and exit with the code that says how it went."""
        if not 0 <= options["wait"] <= 3600:
            raise CommandError("--wait: between 0 and 3600 seconds.", returncode=USAGE)
        if (options["ask_model"] or options["fork"]) and not options["user"]:
            raise CommandError("--ask-model and --fork need --as USER.", returncode=USAGE)
        tenant = Tenant.objects.filter(slug=options["tenant"], is_active=True).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']!r}.", returncode=NOT_FOUND)
        run_id = _run_id(options["run"])
        try:
            with tenant_scope(tenant.pk):
                done = self._do(tenant, run_id, options)
        except BoxOfficeError as error:
            self._refuse(error, options)
        else:
            self._print(done, options)
            if done.exit_code:
                sys.exit(done.exit_code)

    def _do(self, tenant: Tenant, run_id: UUID, options: JsonObject) -> Done:
        step: int = options["from_step"]
        if options["ask_model"]:
            return self._ask(_principal(tenant, options["user"]), run_id, options)
        if options["fork"]:
            return self._fork(_principal(tenant, options["user"]), run_id, options)
        run = Run.objects.select_related("conversation").filter(pk=run_id).first()
        if run is None:
            raise CommandError(f"There is no run {run_id}.", returncode=NOT_FOUND)
        report = replay_dry(run=run, from_step=step)
        return Done(data=report.as_data(), lines=_report_lines(report, options["quiet"]))

    def _ask(self, principal: Principal, run_id: UUID, options: JsonObject) -> Done:
        step: int = options["from_step"]
        if options["dry_run"]:
            replay_check(principal=principal, run_id=run_id, from_step=step)
            data = {"run": str(run_id), "from_step": step, "would": "ask_model"}
            return Done(data=data, lines=[f"The model would be asked from step {step} on."])
        replay = replay_ask(principal=principal, run_id=run_id, from_step=step)
        until = time.monotonic() + options["wait"]
        while replay.state not in REPLAY_MACHINE.terminal and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
            replay.refresh_from_db()
        return Done(
            data=_replay_data(replay),
            lines=_replay_lines(replay, options["quiet"]),
            exit_code=_replay_code(replay),
        )

    def _fork(self, principal: Principal, run_id: UUID, options: JsonObject) -> Done:
        step: int = options["from_step"]
        plan = fork_plan(principal=principal, run_id=run_id, from_step=step)
        told = [f"{one.code}: {one.message}" for one in (*plan.changes, *plan.notes)]
        if options["dry_run"]:
            needs = plan.changes and not options["accept_changes"]
            lines = [*told, f"{len(plan.copied)} steps would be taken over from {run_id}."]
            code = CHANGED if needs else 0
            return Done(data=plan.as_data() | {"would": "fork"}, lines=lines, exit_code=code)
        if plan.changes and not options["accept_changes"]:
            run_fork(principal=principal, run_id=run_id, from_step=step)  # says what has changed
        self._confirm(told, principal, step, options)
        fork = run_fork(
            principal=principal,
            run_id=run_id,
            from_step=step,
            accept_changes=options["accept_changes"],
        )
        data = {
            "run": str(fork.pk),
            "conversation": str(fork.conversation_id),
            "forked_from": str(run_id),
            "from_step": step,
        }
        return Done(data=plan.as_data() | data, lines=[str(fork.pk)])

    def _confirm(
        self, told: list[str], principal: Principal, step: int, options: JsonObject
    ) -> None:
        if options["yes"]:
            return
        if not sys.stdin.isatty():
            raise CommandError("Without a terminal a fork needs --yes.", returncode=USAGE)
        for line in told:
            self.stderr.write(line)
        answer = input(f"Go on for real from step {step}, as {principal.username}? [y/N] ")
        if answer.strip().lower() not in {"y", "yes", "s", "sim"}:
            raise CommandError("Nothing was done.", returncode=USAGE)

    def _print(self, done: Done, options: JsonObject) -> None:
        if options["json"]:
            self.stdout.write(json.dumps(done.data, ensure_ascii=False, cls=DjangoJSONEncoder))
            return
        for line in done.lines:
            self.stdout.write(line)

    def _refuse(self, error: BoxOfficeError, options: JsonObject) -> None:
        if options["json"]:
            data = error.as_data()
            self.stdout.write(
                json.dumps({"error": data["error"] | error.extra}, ensure_ascii=False)
            )
        changes = "".join(
            f"\n  {c['code']}: {c['message']}" for c in error.extra.get("changes", [])
        )
        raise CommandError(
            f"{error.message}{changes}\n{error.hint}".strip(), returncode=_code_of(error)
        )


def _code_of(error: BoxOfficeError) -> int:
    if isinstance(error, ThingsChanged):
        return CHANGED
    for kind, code in ((Conflict, CONFLICT), (Forbidden, FORBIDDEN), (InvalidInput, NOT_FOUND)):
        if isinstance(error, kind):
            return code
    return NOT_FOUND


def _run_id(text: str) -> UUID:
    if text == "-":
        text = sys.stdin.readline().strip()
    try:
        return UUID(text)
    except ValueError:
        raise CommandError(f"RUN: {text[:80]!r} is no id of a run.", returncode=USAGE) from None


def _principal(tenant: Tenant, username: str) -> Principal:
    user = User.objects.filter(username=username, is_active=True).first()
    found = principal_of_member(tenant_id=tenant.pk, user_id=user.pk) if user else None
    if found is None:
        raise CommandError(f"There is no member {username!r}.", returncode=NOT_FOUND)
    return found


def _report_lines(report: Report, quiet: bool) -> list[str]:
    lines = []
    for step in report.steps:
        if not quiet:
            calls = ", ".join(f"{c.tool} {c.recorded.effect} → {c.state}" for c in step.calls)
            lines.append(f"{step.seq:>4}  {step.kind:<8} {calls}".rstrip())
        lines += [f"      {step.seq} {change.code}: {change.message}" for change in step.changes]
    if report.next_step is not None and not quiet:
        lines.append(f"More: --from {report.next_step}")
    return lines


def _replay_data(replay: Replay) -> JsonObject:
    return {
        "replay": str(replay.pk),
        "run": str(replay.run_id),
        "from_step": replay.from_step,
        "state": replay.state,
        "outcome": replay.outcome,
        "turns": replay.turns,
        "error": replay.error,
        "cost_usd": replay.cost_micros / 1_000_000,
    }


def _replay_lines(replay: Replay, quiet: bool) -> list[str]:
    lines = []
    for turn in replay.turns:
        if quiet and turn["outcome"] in KEEPS_TO_IT:
            continue
        lines.append(f"{turn['seq']:>4}  {turn['outcome']}")
        lines += [f"      {json.dumps(one, ensure_ascii=False)}" for one in turn["differences"]]
        lines += [f"      {line}" for line in turn["text_diff"]]
    if replay.error:
        lines.append(f"{replay.error['code']}: {replay.error['message']}")
    if replay.state not in REPLAY_MACHINE.terminal:
        lines.append(f"No worker was through in time; look at replay {replay.pk} later.")
    return lines


def _replay_code(replay: Replay) -> int:
    if replay.state == ReplayState.FAILED:
        return FAILED
    if replay.state != ReplayState.FINISHED:
        return TOO_LATE
    return 0 if replay.outcome in KEEPS_TO_IT else DIVERGED
