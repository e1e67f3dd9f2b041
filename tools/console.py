"""The log of calls in the console: filters, views that are kept, and taking it away as a file."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import close_old_connections, models, transaction
from django.db.models import Q
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    QueryDict,
    StreamingHttpResponse,
)
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from boxoffice.common.clock import now
from boxoffice.tenancy.console import tenants_in_scope
from boxoffice.tenancy.models import Tenant, Tier
from boxoffice.tenancy.scope import (
    Scope,
    current_scope,
    operator_scope,
    tenant_scope,
    tenants_scope,
)
from tools import registry
from tools.calllog import Format, chunks, export_record, person_of, tokens_of, with_size
from tools.models import SavedView, ToolCall
from tools.privacy import masked, masked_error

EXPORT, PERSONAL = "export_calls", "view_personal_data"
TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
MOST_VIEWS = 30
# What a kept view may hold: not the page, not how a list is sorted.
NOT_KEPT = frozenset({"p", "o", "all", "e"})


class _Choice(admin.SimpleListFilter):
    """A filter whose choices are fixed: reading them from the ledger would read all of it."""

    choices_by_value: dict[str, tuple[Any, Q]] = {}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """The choices."""
        return [(value, label) for value, (label, _q) in self.choices_by_value.items()]

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[ToolCall]
    ) -> models.QuerySet[ToolCall]:
        """The calls of the chosen kind."""
        chosen = self.choices_by_value.get(self.value() or "")
        return queryset if chosen is None else queryset.filter(chosen[1])


class ToolFilter(admin.SimpleListFilter):
    """By tool: from the registry, because reading the names from the ledger reads all of it."""

    title = gettext_lazy("tool")
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The tools that exist."""
        return [(spec.name, spec.name) for spec in registry.all_tools()]

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[ToolCall]
    ) -> models.QuerySet[ToolCall]:
        """The calls of the chosen tool."""
        return queryset.filter(tool=self.value()) if self.value() else queryset


class TierFilter(admin.SimpleListFilter):
    """By the tier that the caller had then."""

    title = gettext_lazy("tier")
    parameter_name = "tier"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The tiers in scope."""
        slugs = Tier.objects.order_by("slug").values_list("slug", flat=True).distinct()
        return [(slug, slug) for slug in slugs]

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[ToolCall]
    ) -> models.QuerySet[ToolCall]:
        """The calls of callers of that tier."""
        return queryset.filter(seen__tier=self.value()) if self.value() else queryset


_REASONS = (
    "allowed",
    "risk_confirm",
    "risk_approve",
    "policy_allow",
    "policy_confirm",
    "policy_approve",
    "policy_deny",
    "policy_error",
    "outside_text",
    "needs_human",
    "unknown_tool",
    "invalid_arguments",
    "not_granted",
    "sign_in_required",
    "rate_limited",
    "circuit_open",
    "too_many_calls",
    "repeated_failure",
    "run_ended",
)


class ReasonFilter(_Choice):
    """By why the guard said what it said."""

    title = gettext_lazy("reason code")
    parameter_name = "reason"
    choices_by_value = {code: (code, Q(reason_code=code)) for code in _REASONS}


class ErrorFilter(_Choice):
    """By what may be done about an error."""

    title = gettext_lazy("error")
    parameter_name = "error"
    choices_by_value = {
        "none": (gettext_lazy("none"), Q(error__isnull=True)),
        "retryable": (gettext_lazy("may pass by itself"), Q(error__retryable=True)),
        "final": (gettext_lazy("will not pass by itself"), Q(error__retryable=False)),
    }


class TriesFilter(_Choice):
    """By how often it was tried."""

    title = gettext_lazy("attempts")
    parameter_name = "tries"
    choices_by_value = {
        "0": ("0", Q(attempts=0)),
        "1": ("1", Q(attempts=1)),
        "2": ("2", Q(attempts=2)),
        "3": (gettext_lazy("3 or more"), Q(attempts__gte=3)),
    }


class LatencyFilter(_Choice):
    """By how long it took."""

    title = gettext_lazy("latency")
    parameter_name = "latency"
    choices_by_value = {
        "fast": (gettext_lazy("below 0.1 s"), Q(latency_ms__lt=100)),
        "second": (gettext_lazy("0.1 s to 1 s"), Q(latency_ms__gte=100, latency_ms__lt=1000)),
        "slow": (gettext_lazy("1 s to 10 s"), Q(latency_ms__gte=1000, latency_ms__lt=10_000)),
        "very": (gettext_lazy("10 s or more"), Q(latency_ms__gte=10_000)),
    }


FILTERS: list[Any] = [
    "state",
    "verdict",
    ToolFilter,
    ReasonFilter,
    ErrorFilter,
    TriesFilter,
    LatencyFilter,
    TierFilter,
    "tenant",
    "created_at",
]


def tenants_with(request: HttpRequest, right: str) -> frozenset[UUID]:
    """The tenants in scope in which whoever asks has a right; asked once for each request."""
    known: dict[str, frozenset[UUID]] = request.__dict__.setdefault("_tenants_with", {})
    if right not in known:
        user: Any = request.user
        held = [one.pk for one in tenants_in_scope() if user.has_perm(f"tenancy.{right}", one)]
        known[right] = frozenset(held)
    return known[right]


class LogPages:
    """What the list of calls has besides its rows; for a ``ModelAdmin`` of calls."""

    admin_site: Any
    list_before_template = "admin/tools/call_log.html"

    def get_urls(self) -> list[Any]:
        """The doors, in front of the one that takes any path for an id."""
        doors = (
            ("export/<str:kind>/", self.export_view, "export"),
            ("views/keep/", self.view_keep, "view_keep"),
            ("views/<uuid:view_id>/remove/", self.view_remove, "view_remove"),
        )
        own = [
            path(
                route,
                self.admin_site.admin_view(require_POST(view)),
                name=f"tools_toolcall_{name}",
            )
            for route, view, name in doors
        ]
        return [*own, *super().get_urls()]  # type: ignore[misc]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[ToolCall]:
        """With the size of each result, and whether this person may know whose the call is."""
        rows: models.QuerySet[ToolCall] = super().get_queryset(request)  # type: ignore[misc]
        known = models.When(tenant_id__in=tenants_with(request, PERSONAL), then=True)
        is_known = models.Case(known, default=False, output_field=models.BooleanField())
        return with_size(rows).annotate(is_known=is_known)

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        """Nobody finds people by a name that they may not see."""
        fields = list(super().get_search_fields(request))  # type: ignore[misc]
        if tenants_with(request, PERSONAL):
            return fields
        return [field for field in fields if not field.startswith("user__")]

    @admin.display(description=gettext_lazy("on behalf of"), ordering="user")
    def who(self, call: ToolCall) -> str:
        """Whose it is."""
        return person_of(call, is_known=_is_known(call))

    @admin.display(description=gettext_lazy("tier"))
    def tier(self, call: ToolCall) -> str:
        """What the caller had then."""
        return str((call.seen or {}).get("tier", ""))

    @admin.display(description=gettext_lazy("tokens (about)"), ordering="result_chars")
    def tokens(self, call: ToolCall) -> int | None:
        """How long the result is for a model."""
        return tokens_of(call)

    @admin.display(description=gettext_lazy("error"))
    def error_code(self, call: ToolCall) -> str:
        """The class of the error."""
        return str((call.error or {}).get("code", ""))

    @admin.display(description=gettext_lazy("arguments"))
    def shown_arguments(self, call: ToolCall) -> str:
        """What was asked for."""
        return _data(call.arguments if _is_known(call) else masked(call, call.arguments))

    @admin.display(description=gettext_lazy("result"))
    def shown_result(self, call: ToolCall) -> str:
        """What it gave."""
        return _data(call.result if _is_known(call) else masked(call, call.result))

    @admin.display(description=gettext_lazy("error"))
    def shown_error(self, call: ToolCall) -> str:
        """What was said instead."""
        return _data(call.error if _is_known(call) else masked_error(call.error))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The list, with the views that this person has kept."""
        wish = _kept(request.GET)
        views = SavedView.objects.filter(user_id=_user_id(request)).select_related("tenant")
        context = {
            "kept_views": list(views.order_by("name")),
            "wish": wish,
            "may_export": bool(tenants_with(request, EXPORT)),
            "is_masked": not tenants_with(request, PERSONAL),
        }
        page: HttpResponse = super().changelist_view(  # type: ignore[misc]
            request, context | (extra_context or {})
        )
        return page

    def export_view(self, request: HttpRequest, kind: str) -> Any:
        """Exactly what is filtered, as a file, of the tenants whose log this person may take."""
        held = tenants_with(request, EXPORT)
        if kind not in TYPES:
            raise Http404
        if not held:
            raise PermissionDenied
        format_: Format = "csv" if kind == "csv" else "jsonl"
        known = tenants_with(request, PERSONAL)
        rows = self.get_changelist_instance(request).get_queryset(request)  # type: ignore[attr-defined]
        rows = rows.filter(tenant_id__in=held)
        for tenant_id in held:
            if not rows.filter(tenant_id=tenant_id).exists():
                continue
            with tenant_scope(tenant_id), transaction.atomic():
                export_record(
                    actor=f"user:{request.user.pk}",
                    kind=format_,
                    wish=_kept(request.GET),
                    is_known=tenant_id in known,
                )
        parts = chunks(rows, kind=format_, may_know=known.__contains__)
        response = StreamingHttpResponse(
            _streamed(parts, current_scope()), content_type=TYPES[format_]
        )
        name = f"calls-{now():%Y%m%d-%H%M%S}.{kind}"
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["Cache-Control"] = "no-store"
        return response

    def view_keep(self, request: HttpRequest) -> HttpResponse:
        """Keep the present filters under a name; the same name again replaces them."""
        wish = _kept(QueryDict(request.POST.get("wish", "")))
        name = " ".join(request.POST.get("name", "").split())[:80]
        tenant = _tenant_of(wish)
        if tenant is None:
            messages.error(request, _("Choose a tenant first: a view belongs to one."))
            return _back(wish)
        if not name or len(wish) > SavedView.MOST_WISH:
            messages.error(request, _("A view needs a name."))
            return _back(wish)
        with tenant_scope(tenant.pk), transaction.atomic():
            own = SavedView.objects.filter(user_id=_user_id(request))
            if own.exclude(name=name).count() >= MOST_VIEWS:
                text = _("At most %(count)d views are kept: remove one first.")
                messages.error(request, text % {"count": MOST_VIEWS})
                return _back(wish)
            SavedView.objects.update_or_create(
                user_id=_user_id(request), name=name, defaults={"wish": wish}
            )
        messages.success(request, _("The view “%(name)s” is kept.") % {"name": name})
        return _back(wish)

    def view_remove(self, request: HttpRequest, view_id: UUID) -> HttpResponse:
        """Remove one of one's own views."""
        removed, _rows = SavedView.objects.filter(pk=view_id, user_id=_user_id(request)).delete()
        if not removed:
            raise Http404
        return _back("")


def _user_id(request: HttpRequest) -> int:
    return request.user.pk or 0  # nobody comes here who has not signed in


def _is_known(call: ToolCall) -> bool:
    return bool(getattr(call, "is_known", False))


def _data(value: Any) -> str:
    if value is None:
        return "-"
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return format_html('<pre class="whitespace-pre-wrap break-words">{}</pre>', text)


def _kept(wish: QueryDict) -> str:
    kept = wish.copy()
    for name in NOT_KEPT:
        kept.pop(name, None)
    return kept.urlencode()


def _tenant_of(wish: str) -> Tenant | None:
    """The tenant that is filtered by, or the only one in scope."""
    chosen = QueryDict(wish).get("tenant__id__exact")
    tenants = tenants_in_scope()
    found = list(tenants.filter(pk=chosen) if chosen and _is_id(chosen) else tenants[:2])
    return found[0] if len(found) == 1 else None


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _back(wish: str) -> HttpResponse:
    address = reverse("admin:tools_toolcall_changelist")
    return HttpResponseRedirect(f"{address}?{wish}" if wish else address)


async def _streamed(parts: Iterator[str], scope: Scope | None) -> AsyncIterator[bytes]:
    """Part by part, each read in the scope of the request that has ended meanwhile."""

    def part() -> str | None:
        try:
            with _opened(scope):
                return next(parts, None)
        finally:
            close_old_connections()

    while (text := await sync_to_async(part)()) is not None:
        yield text.encode()


def _opened(scope: Scope | None) -> Any:
    if scope is None or scope.tenant_ids is None:
        return operator_scope("exporting the log of calls")
    return tenants_scope(scope.tenant_ids, "exporting the log of calls")
