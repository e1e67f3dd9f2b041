"""Replays and forks in the console: a run's steps, the walk through them, the way to a fork."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _

from agents.models import RUN_MACHINE, Replay, ReplayState, Run, Step, StepKind
from agents.replay.dry import replay_dry
from agents.replay.fork import fork_plan, run_fork
from agents.replay.record import RIGHT, over_run_get
from agents.replay.service import replay_ask
from boxoffice.common.exceptions import BoxOfficeError, NotFound
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.principals import Principal, principal_of_member
from boxoffice.tenancy.scope import tenant_scope
from tools.effects import calls_of_run

LISTED = 10
SUMMARY = 160
REFRESH_SECONDS = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One step of a run, as the console lists it."""

    seq: int
    kind: str
    at: datetime
    measured: str
    summary: str
    is_copied: bool


class RunPages:
    """What a run's page in the console has besides its fields; for a ``ModelAdmin`` of runs."""

    admin_site: Any
    change_form_outer_before_template = "agents/console/steps.html"

    def get_urls(self) -> list[Any]:
        """The pages, in front of the one that takes any path for an id."""
        own = [
            path(
                f"<uuid:run_id>/{name}/",
                self.admin_site.admin_view(view),
                name=f"agents_run_{name}",
            )
            for name, view in (("replay", self.replay_view), ("fork", self.fork_view))
        ]
        return [*own, *super().get_urls()]  # type: ignore[misc]

    def render_change_form(
        self, request: HttpRequest, context: JsonObject, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """The run's fields, below its steps."""
        run: Run = kwargs["obj"]
        with tenant_scope(run.tenant_id):
            principal = _principal(request, run)
            context["rows"] = _rows(run)
            context["replays"] = list(Replay.objects.filter(run=run).order_by("-pk")[:LISTED])
        may = principal is not None and principal.may(RIGHT)
        context["may_replay"] = may and run.state in RUN_MACHINE.terminal
        response: HttpResponse = super().render_change_form(  # type: ignore[misc]
            request, context, *args, **kwargs
        )
        return response

    def replay_view(self, request: HttpRequest, run_id: UUID) -> HttpResponse:
        """The walk through a run; a POST has the model asked again."""
        with _opened(request, run_id) as (run, principal):
            seq = _seq(request)
            if request.method == "POST":
                self._tried(
                    request,
                    lambda: replay_ask(principal=principal, run_id=run.pk, from_step=seq),
                    _("A worker is asking the model again; the page shows what it says."),
                )
                return redirect(f"{request.path}?from={seq}")
            try:
                report = replay_dry(
                    run=over_run_get(principal=principal, run_id=run_id), from_step=seq
                )
            except BoxOfficeError as error:
                return self._refused(request, run, error)
            replays = list(Replay.objects.filter(run=run, from_step=seq).order_by("-pk")[:LISTED])
            page = self._page(
                request, run, "replay", {"report": report, "replays": replays, "from_step": seq}
            )
            if any(one.state in (ReplayState.QUEUED, ReplayState.RUNNING) for one in replays):
                page["Refresh"] = REFRESH_SECONDS
            return page

    def fork_view(self, request: HttpRequest, run_id: UUID) -> HttpResponse:
        """What a fork would be; a POST makes it and opens its conversation."""
        with _opened(request, run_id) as (run, principal):
            seq = _seq(request)
            try:
                if request.method == "POST":
                    made = run_fork(
                        principal=principal,
                        run_id=run_id,
                        from_step=seq,
                        accept_changes=request.POST.get("accept_changes") == "on",
                    )
                    return redirect(f"/t/{run.tenant.slug}/c/{made.conversation_id}/")
                plan = fork_plan(principal=principal, run_id=run_id, from_step=seq)
            except BoxOfficeError as error:
                return self._refused(request, run, error)
            return self._page(request, run, "fork", {"plan": plan, "from_step": seq})

    def _tried(self, request: HttpRequest, act: Callable[[], Any], done: str) -> None:
        try:
            act()
        except BoxOfficeError as error:
            messages.error(request, _words(error))
        else:
            messages.success(request, done)

    def _refused(self, request: HttpRequest, run: Run, error: BoxOfficeError) -> HttpResponse:
        if isinstance(error, NotFound):
            raise Http404(error.message) from error
        messages.error(request, _words(error))
        return redirect(reverse("admin:agents_run_change", args=[run.pk]))

    def _page(
        self, request: HttpRequest, run: Run, name: str, about: JsonObject
    ) -> TemplateResponse:
        titles = {
            "replay": _("Replay from step %(step)d"),
            "fork": _("Fork from step %(step)d"),
        }
        context = {
            **self.admin_site.each_context(request),
            **about,
            "run": run,
            "title": titles[name] % {"step": about["from_step"]},
        }
        page = TemplateResponse(request, f"agents/console/{name}.html", context)
        page.render()  # here, while the tenant's scope is open
        return page


@contextmanager
def _opened(request: HttpRequest, run_id: UUID) -> Iterator[tuple[Run, Principal]]:
    """The run in the scope of its tenant, and who is asking; 404 for whom it is not there."""
    run = Run.objects.select_related("tenant", "conversation").filter(pk=run_id).first()
    if run is None:
        raise Http404
    with tenant_scope(run.tenant_id):
        principal = _principal(request, run)
        if principal is None or not principal.may(RIGHT):
            raise Http404
        yield run, principal


def _principal(request: HttpRequest, run: Run) -> Principal | None:
    user_id = request.user.pk
    if user_id is None:
        return None
    return principal_of_member(tenant_id=run.tenant_id, user_id=user_id)


def _seq(request: HttpRequest) -> int:
    text = request.POST.get("from") or request.GET.get("from", "1")
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise Http404
    return int(text)


def _words(error: BoxOfficeError) -> str:
    changes = " ".join(change["message"] for change in error.extra.get("changes", []))
    return f"{error.message} {changes} {error.hint}".strip()


def _rows(run: Run) -> list[Row]:
    calls = calls_of_run(run.pk).values_list("pk", "tool", "outside")
    tools = {str(pk): _named(tool, outside) for pk, tool, outside in calls}
    rows: list[Row] = []
    before = run.created_at
    for step in run.steps.order_by("seq"):
        rows.append(
            Row(
                seq=step.seq,
                kind=str(StepKind(step.kind).label),
                at=step.created_at,
                measured=_measured(step, before),
                summary=_summary(step, tools)[:SUMMARY],
                is_copied=bool(step.content.get("copied")),
            )
        )
        before = step.created_at
    return rows


def _named(tool: str, outside: list[str] | None) -> str:
    """A tool, and which fields of its result came from outside."""
    if outside is None:
        return tool
    return _("%(tool)s (from outside: %(fields)s)") % {"tool": tool, "fields": " ".join(outside)}


def _measured(step: Step, before: datetime) -> str:
    """How long after the step before, and what a model step has used."""
    after = max(0, int((step.created_at - before).total_seconds() * 1000))
    parts = [f"+{after} ms"]
    if step.usage:
        parts.append(_("%(count)d tokens") % {"count": sum(step.usage.values())})
        parts.append(f"US$ {step.cost_micros / 1_000_000:,.6f}")
    return " · ".join(parts)


def _summary(step: Step, tools: dict[str, str]) -> str:
    content = step.content
    if step.kind == StepKind.INPUT:
        return " · ".join(said["text"] for said in content["messages"])
    if step.kind == StepKind.FINAL:
        return str(content.get("answer", ""))
    if step.kind == StepKind.MODEL:
        blocks = content["blocks"]
        asked = [f"→ {block['name']}" for block in blocks if block["type"] == "tool_use"]
        said = [block["text"].strip() for block in blocks if block["type"] == "text"]
        return " ".join([*said, *asked])
    return ", ".join(tools[call] for call in content.get("calls", []) if call in tools)
