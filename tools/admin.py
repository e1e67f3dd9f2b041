"""The ledger of tool calls in the console, and what of it waits for a person."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin import ActionLocation
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from boxoffice.common.exceptions import BoxOfficeError, InvalidInput
from boxoffice.common.valkey import ValkeyAway
from boxoffice.tenancy.console import (
    MachineWritten,
    is_operator,
    tenants_in_scope,
)
from boxoffice.tenancy.models import Tenant, Tier
from boxoffice.tenancy.principals import Principal, principal_of_member
from boxoffice.tenancy.scope import tenant_scope
from tools import compensation, governance, settling
from tools.circuits import circuits_seen
from tools.console import FILTERS, LogPages
from tools.models import (
    CallState,
    RemoteEffect,
    SavedView,
    StoredOutput,
    Tool,
    ToolCall,
    ToolSwitch,
    ToolVersion,
    Undo,
    UndoState,
)
from tools.notes import NOTE_MOST


@admin.register(ToolCall)
class ToolCallAdmin(LogPages, MachineWritten):
    """Every call that a model proposed, allowed or not."""

    deferred = ("arguments", "result")
    list_display = [
        "created_at",
        "tenant",
        "tool",
        "who",
        "tier",
        "verdict",
        "reason_code",
        "state",
        "attempts",
        "latency_ms",
        "tokens",
        "error_code",
    ]
    list_filter = FILTERS
    list_select_related = ["tenant", "user"]
    search_fields = ["=id", "=run_ref", "=conversation_ref", "=error__code", "user__username"]
    ordering = ["-id"]
    exclude = ["user", "arguments", "result", "error"]
    readonly_fields = ["who", "shown_arguments", "shown_result", "shown_error"]

    def get_urls(self) -> list[Any]:
        """The page of the circuits, in front of the one that takes any path for an id."""
        view = self.admin_site.admin_view(self.circuits_view)
        return [path("circuits/", view, name="tools_circuits"), *super().get_urls()]

    def circuits_view(self, request: HttpRequest) -> HttpResponseBase:
        """Which tools are given a rest, and which have failed lately."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = self.admin_site.each_context(request) | {
            "title": _("Circuits"),
            "opts": self.opts,
            "opens_after": settings.CIRCUIT_FAILURES,
            "rows": [],
            "is_away": False,
        }
        try:
            for tenant in tenants_in_scope().order_by("name"):
                tiers = Tier.objects.filter(tenant_id=tenant.pk, dedicated_circuit=True)
                own = list(tiers.order_by("slug").values_list("slug", flat=True))
                seen = circuits_seen(tenant_id=tenant.pk, tiers=own)
                context["rows"] += [(tenant, row) for row in seen if row.sight.failures]
        except ValkeyAway:
            context["is_away"] = True
        return TemplateResponse(request, "admin/tools/circuits.html", context)


@admin.register(SavedView)
class SavedViewAdmin(MachineWritten):
    """Filters that people keep on the page of the calls."""

    list_display = ["created_at", "tenant", "user", "name"]
    list_filter = ["tenant"]
    list_select_related = ["tenant", "user"]
    search_fields = ["=id", "name", "user__username"]
    ordering = ["-id"]


@admin.register(StoredOutput)
class StoredOutputAdmin(MachineWritten):
    """Results that were too long to be shown to a model, whole."""

    deferred = ("text",)
    list_display = ["created_at", "tenant", "tool", "total_bytes", "total_lines"]
    list_filter = ["tenant", "created_at"]
    list_select_related = ["tenant", "call"]
    search_fields = ["=id", "=call__id", "=conversation_ref"]
    ordering = ["-id"]

    @admin.display(description=_("tool"), ordering="call__tool")
    def tool(self, output: StoredOutput) -> str:
        """What gave it."""
        return output.call.tool


@admin.register(RemoteEffect)
class RemoteEffectAdmin(MachineWritten):
    """What other parties were asked for; what nobody knows the outcome of is settled here."""

    deferred = ("request",)
    list_display = [
        "sent_at",
        "tenant",
        "tool",
        "user",
        "provider",
        "state",
        "unknown_at",
        "attempts",
        "last_heard",
        "settled_by",
    ]
    list_filter = ["call__state", "provider", "tenant", "sent_at"]
    list_select_related = ["tenant", "call__user"]
    search_fields = ["=id", "=call__id", "=call__idempotency_key", "=call__conversation_ref"]
    ordering = ["-id"]
    actions = ["happened", "did_not_happen", "look_up"]
    fields = readonly_fields = [
        "tool",
        "user",
        "state",
        "arguments",
        "provider",
        "key",
        "request",
        "sent_at",
        "attempts",
        "found",
        "found_at",
        "rounds",
        "due_at",
        "unknown_at",
        "conversation",
        "settled_by",
        "settled_note",
        "settled_at",
        "call",
    ]

    @admin.display(description=_("tool"), ordering="call__tool")
    def tool(self, effect: RemoteEffect) -> str:
        """What was to be done."""
        return effect.call.tool

    @admin.display(description=_("on behalf of"))
    def user(self, effect: RemoteEffect) -> Any:
        """Whose call it is."""
        return effect.call.user

    @admin.display(description=_("state"), ordering="call__state")
    def state(self, effect: RemoteEffect) -> str:
        """How the call stands."""
        return str(effect.call.get_state_display())

    @admin.display(description=_("arguments"))
    def arguments(self, effect: RemoteEffect) -> Any:
        """With what it was to be done."""
        return effect.call.arguments

    @admin.display(description=_("key at the other side"))
    def key(self, effect: RemoteEffect) -> str:
        """What to look for at the other side."""
        return effect.call.idempotency_key

    @admin.display(description=_("attempts"))
    def attempts(self, effect: RemoteEffect) -> int:
        """How often somebody took the call on."""
        return effect.call.attempts

    @admin.display(description=_("conversation"))
    def conversation(self, effect: RemoteEffect) -> Any:
        """Where it was asked for."""
        return effect.call.conversation_ref

    @admin.display(description=_("last heard"))
    def last_heard(self, effect: RemoteEffect) -> str:
        """What the other side, or the network, said last."""
        found = effect.found or {}
        return " · ".join(str(found[name]) for name in ("found", "why") if found.get(name))

    @admin.action(description=_("It happened"))
    def happened(
        self, request: HttpRequest, queryset: models.QuerySet[RemoteEffect]
    ) -> HttpResponseBase | None:
        """Somebody has found out that it was done."""
        return self._settle(request, queryset, happened=True)

    @admin.action(description=_("It did not happen"))
    def did_not_happen(
        self, request: HttpRequest, queryset: models.QuerySet[RemoteEffect]
    ) -> HttpResponseBase | None:
        """Somebody has found out that it was not done."""
        return self._settle(request, queryset, happened=False)

    @admin.action(description=_("Look it up again"))
    def look_up(self, request: HttpRequest, queryset: models.QuerySet[RemoteEffect]) -> None:
        """Ask the other side once more."""

        def act(call_id: UUID, by: Principal) -> ToolCall:
            return settling.call_look_up(call_id=call_id, by=by)

        self._each(request, queryset, act)

    def _settle(
        self,
        request: HttpRequest,
        queryset: models.QuerySet[RemoteEffect],
        *,
        happened: bool,
    ) -> HttpResponseBase | None:
        """First ask for a note; the answer comes back as the same action."""
        if "note" not in request.POST:
            context = self.admin_site.each_context(request) | {
                "title": _("It happened") if happened else _("It did not happen"),
                "happened": happened,
                "effects": queryset.select_related("call__user"),
                "action": "happened" if happened else "did_not_happen",
                "checkbox": ACTION_CHECKBOX_NAME,
                "opts": self.opts,
            }
            return TemplateResponse(request, "admin/tools/settle.html", context)
        note = request.POST["note"]

        def act(call_id: UUID, by: Principal) -> ToolCall:
            return settling.call_settle(call_id=call_id, happened=happened, note=note, by=by)

        self._each(request, queryset, act)
        return None

    def _each(
        self,
        request: HttpRequest,
        queryset: models.QuerySet[RemoteEffect],
        act: Callable[[UUID, Principal], ToolCall],
    ) -> None:
        """Do it for each of the chosen, and say what came of each."""
        for call_id, tenant_id in list(queryset.values_list("call_id", "tenant_id")):
            by = principal_of_member(tenant_id=tenant_id, user_id=request.user.pk or 0)
            if by is None:
                messages.error(request, f"{call_id}: {_('You are no member of this box office.')}")
                continue
            try:
                with tenant_scope(tenant_id):
                    call = act(call_id, by)
            except BoxOfficeError as error:
                messages.error(request, f"{call_id}: {error.message} {error.hint}".rstrip())
                continue
            level = messages.WARNING if call.state == CallState.UNKNOWN else messages.SUCCESS
            messages.add_message(request, level, f"{call_id}: {call.get_state_display()}")


@admin.register(Undo)
class UndoAdmin(MachineWritten):
    """What runs did that is taken back; what the machine gave up is for a person to see to."""

    deferred = ("note",)
    list_display = [
        "created_at",
        "tenant",
        "tool",
        "reason",
        "state",
        "attempts",
        "problem",
        "finished_at",
    ]
    list_filter = ["state", "reason", "tenant", "created_at"]
    list_select_related = ["tenant", "call"]
    search_fields = ["=id", "=call__id", "=run_ref", "=conversation_ref"]
    ordering = ["-id"]
    actions = ["retry", "settle"]

    @admin.display(description=_("tool"), ordering="call__tool")
    def tool(self, undo: Undo) -> str:
        """What was done."""
        return undo.call.tool

    @admin.display(description=_("problem"))
    def problem(self, undo: Undo) -> str:
        """Why the last try did not work."""
        return "" if undo.error is None else str(undo.error.get("message", ""))

    @admin.action(description=_("Try to undo the selected again"))
    def retry(self, request: HttpRequest, queryset: models.QuerySet[Undo]) -> None:
        """The machine tries again."""
        actor = _actor(request)
        self._each(
            request, queryset, lambda undo: compensation.undo_retry(undo_id=undo.pk, actor=actor)
        )

    @admin.action(description=_("Settle the selected with a note"))
    def settle(self, request: HttpRequest, queryset: models.QuerySet[Undo]) -> HttpResponse | None:
        """A person has seen to it: first asks how."""
        note, actor = request.POST.get("note"), _actor(request)
        stuck = list(queryset.filter(state=UndoState.STUCK).select_related("call"))
        if not stuck:
            messages.warning(request, _("None of these waits for a person."))
            return None
        if note is None:
            return self._ask_note(request, stuck)
        try:
            self._each(
                request,
                queryset,
                lambda undo: compensation.undo_settle(undo_id=undo.pk, note=note, actor=actor),
            )
        except InvalidInput as error:
            messages.error(request, f"{error.message} {error.hint}")
            return self._ask_note(request, stuck, note)
        return None

    def _ask_note(self, request: HttpRequest, rows: list[Undo], note: str = "") -> HttpResponse:
        context = self.admin_site.each_context(request) | {
            "title": _("Settle with a note"),
            "opts": self.opts,
            "rows": rows,
            "note": note,
            "note_max": NOTE_MOST,
            "checkbox": ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/tools/settle.html", context)

    def _each(
        self,
        request: HttpRequest,
        queryset: models.QuerySet[Undo],
        work: Callable[[Undo], None],
    ) -> None:
        done = 0
        for undo in queryset.filter(state=UndoState.STUCK).order_by("id"):
            try:
                with tenant_scope(undo.tenant_id):
                    work(undo)
            except InvalidInput:
                raise
            except BoxOfficeError as error:
                messages.warning(request, error.message)
            else:
                done += 1
        text = ngettext("%(count)d effect was seen to.", "%(count)d effects were seen to.", done)
        messages.success(request, text % {"count": done})


def _actor(request: HttpRequest) -> str:
    return f"user:{request.user.pk}"


BOTH_PAGES = [ActionLocation.CHANGE_LIST, ActionLocation.CHANGE_FORM]


@admin.register(Tool)
class ToolAdmin(MachineWritten):
    """What there is for the agent to use; each tenant switches for itself."""

    list_display = [
        "name",
        "owner",
        "risk",
        "version",
        "is_present",
        "successor",
        "registered_at",
    ]
    list_filter = ["risk", "owner", "is_present"]
    search_fields = ["name"]
    ordering = ["name"]
    actions = ["switch_off", "switch_on"]
    change_form_after_template = "admin/tools/tool.html"

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponseBase:
        """The list; what is switched off is read once for all of its rows."""
        off: dict[str, list[str]] = {}
        rows = ToolSwitch.objects.filter(is_off=True).select_related("tenant")
        for row in rows.order_by("tenant__name"):
            off.setdefault(row.tool, []).append(row.tenant.name)
        request.tools_off = off  # type: ignore[attr-defined]
        return super().changelist_view(request, extra_context)  # type: ignore[no-any-return]

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """With where it is off, as this request has read it."""

        @admin.display(description=_("switched off in"))
        def switched_off(tool: Tool) -> str:
            off: dict[str, list[str]] = getattr(request, "tools_off", {})
            return ", ".join(off.get(tool.name, []))

        return [*self.list_display, switched_off]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponseBase:
        """The tool with who may use it, how often, and who still does."""
        tool = self.get_object(request, object_id)
        rows = [] if tool is None else _as_tenants_have_it(tool.name)
        context = {
            "tool_rows": rows,
            "called_days": governance.CALLED_DAYS,
            "tool_versions": []
            if tool is None
            else tool.versions.defer("contract").order_by("-id"),
        }
        context |= extra_context or {}
        return super().change_view(request, object_id, form_url, context)  # type: ignore[no-any-return]

    @admin.action(description=_("Switch off"), location=BOTH_PAGES)
    def switch_off(
        self, request: HttpRequest, queryset: models.QuerySet[Tool]
    ) -> HttpResponseBase | None:
        """From the next call on."""
        return self._switch(request, queryset, is_off=True)

    @admin.action(description=_("Switch on"), location=BOTH_PAGES)
    def switch_on(
        self, request: HttpRequest, queryset: models.QuerySet[Tool]
    ) -> HttpResponseBase | None:
        """From the next call on."""
        return self._switch(request, queryset, is_off=False)

    def _switch(
        self, request: HttpRequest, queryset: models.QuerySet[Tool], *, is_off: bool
    ) -> HttpResponseBase | None:
        """First ask in which tenants, and why; the answer comes back as the same action."""
        tenants = list(tenants_in_scope().order_by("name"))
        reason = request.POST.get("reason")
        chosen = [one for one in tenants if str(one.pk) in request.POST.getlist("tenants")]
        if reason is None or not chosen:
            context = self.admin_site.each_context(request) | {
                "title": _("Switch off") if is_off else _("Switch on"),
                "is_off": is_off,
                "tools": queryset.order_by("name"),
                "tenants": tenants,
                "reason": reason or "",
                "reason_max": governance.REASON_MAX,
                "action": "switch_off" if is_off else "switch_on",
                "checkbox": ACTION_CHECKBOX_NAME,
                "opts": self.opts,
            }
            return TemplateResponse(request, "admin/tools/switch.html", context)
        for tenant in chosen:
            by = principal_of_member(tenant_id=tenant.pk, user_id=request.user.pk or 0)
            if by is None and not is_operator(request):
                continue
            for tool in queryset.order_by("name"):
                try:
                    with tenant_scope(tenant.pk):
                        governance.tool_switch(tool=tool.name, is_off=is_off, reason=reason, by=by)
                except BoxOfficeError as error:
                    messages.error(request, f"{tenant.name}, {tool.name}: {error.message}")
                else:
                    done = _("switched off") if is_off else _("switched on")
                    messages.success(request, f"{tenant.name}, {tool.name}: {done}")
        return None


def _as_tenants_have_it(tool: str) -> list[tuple[Tenant, governance.ToolRow]]:
    found = []
    for tenant in tenants_in_scope().order_by("name"):
        with tenant_scope(tenant.pk):
            row = governance.tool_of_tenant(tool)
        if row is not None:
            found.append((tenant, row))
    return found


@admin.register(ToolVersion)
class ToolVersionAdmin(MachineWritten):
    """Every contract that a tool has had; calls name them."""

    deferred = ("contract",)
    list_display = ["registered_at", "tool", "digest"]
    list_filter = ["tool"]
    list_select_related = ["tool"]
    search_fields = ["=digest", "tool__name"]
    ordering = ["-id"]


@admin.register(ToolSwitch)
class ToolSwitchAdmin(MachineWritten):
    """What tenants have switched; it is done on the page of the tools."""

    list_display = ["changed_at", "tenant", "tool", "is_off", "reason", "changed_by"]
    list_filter = ["is_off", "tenant", "changed_at"]
    list_select_related = ["tenant"]
    search_fields = ["tool", "reason"]
    ordering = ["-changed_at"]
