"""Versions of rules in the console: write, try, put in force, go back."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextareaWidget

from approvals.models import PolicyState, PolicyVersion
from approvals.policies import versions
from approvals.policies.checks import VARIABLES, rules_check
from approvals.policies.document import Problem, RulesInvalid
from approvals.policies.rules import Effect, Rule
from approvals.policies.trial import DAYS, Changed, Trial, as_text, what_if
from approvals.ports import calls
from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.tenancy.console import ADD, CHANGE, VIEW, ConsoleAdmin, SameTenantForm
from boxoffice.tenancy.models import Tenant, User
from boxoffice.tenancy.scope import tenant_scope

EXAMPLE = """\
rules:
  - name: large refunds need two people
    tools: [refund_order]
    when: preview.after.refunded_brl > 500.0
    effect: approve
    reviewers: 2
"""
DIFFERENCES_SHOWN = 200
REFUSAL = "policy_refusal"


def _spelled(variables: Mapping[str, frozenset[str] | None]) -> Iterator[str]:
    for name, fields in variables.items():
        yield name if fields is None else f"{name}.{{{', '.join(sorted(fields))}}}"


class PolicyForm(SameTenantForm):
    """The rules as YAML; what is wrong with them is said at its place.

    ``refusal`` is why they were not stored although they are right; ``seen`` is the version of the
    draft that its author has before them.
    """

    refusal = ""
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    source = forms.CharField(
        label=_("Rules"),
        required=False,
        strip=False,
        help_text=format_lazy(
            "{}: {}", _("Variables of a condition"), ", ".join(_spelled(VARIABLES))
        ),
        widget=UnfoldAdminTextareaWidget(
            attrs={
                "rows": 18,
                "spellcheck": "false",
                "autocapitalize": "off",
                "wrap": "off",
                "style": "font-family: ui-monospace, monospace",
            }
        ),
    )

    class Meta:
        model = PolicyVersion
        fields = ["tenant", "note", "source"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance._state.adding and "seen" in self.fields:
            self.fields["seen"].initial = self.instance.changed_at.isoformat()

    def clean(self) -> dict[str, Any]:
        """Hold the rules against the tenant's tiers and the tools."""
        cleaned = super().clean()
        if self.refusal:
            self.add_error(None, self.refusal)
        tenant = cleaned.get("tenant")
        tenant_id = tenant.pk if isinstance(tenant, Tenant) else self.instance.tenant_id
        source = cleaned.get("source")
        if tenant_id is None or source is None:
            return cleaned
        cleaned["source"] = source = source.replace("\r\n", "\n")
        try:
            with tenant_scope(tenant_id):
                rules_check(source)
        except RulesInvalid as error:
            found = [forms.ValidationError(shown(one, source)) for one in error.problems]
            self.add_error("source", forms.ValidationError(found))
        return cleaned


def shown(problem: Problem, source: str) -> SafeString:
    """A problem with the line that it is about, and a mark below its place."""
    lines = source.split("\n")
    line = lines[problem.line - 1] if problem.line <= len(lines) else ""
    where = " · ".join(part for part in (problem.rule, problem.field) if part)
    return format_html(
        '{}: {}{}<pre class="font-mono overflow-x-auto">{}\n{}^</pre>',
        gettext("Line %(line)d, column %(column)d")
        % {"line": problem.line, "column": problem.column},
        f"{where}: " if where else "",
        problem.message,
        line,
        " " * (problem.column - 1),
    )


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ConsoleAdmin):
    """All rules of a tenant, in versions. One is in force, one may be in shadow beside it."""

    tenant_admin_may = frozenset({VIEW, ADD, CHANGE})
    operator_may = frozenset({VIEW, ADD, CHANGE})  # verdicts name versions: none is removed
    form = PolicyForm
    deferred = ("source", "rules")
    list_display = [
        "__str__",
        "tenant",
        "state",
        "note",
        "author",
        "changed_at",
        "activated_at",
        "retired_at",
    ]
    list_filter = ["state", "tenant"]
    list_select_related = ["tenant", "author"]
    search_fields = ["=id", "note", "author__username"]
    ordering = ["tenant", "-number"]
    readonly_fields = [
        "state",
        "author",
        "copied_from",
        "changed_at",
        "shadowed_at",
        "activated_at",
        "retired_at",
    ]
    actions_detail = ["review_link"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """The rules first; how a version stands is read only."""
        written = ["tenant", "note", "source"]
        if obj is None:
            return written
        hidden = ["seen"] if self.has_change_permission(request, obj) else []
        return [*written, *hidden, *self.readonly_fields]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """A new draft begins with an example."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        return {"source": EXAMPLE} | initial

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """The form, which says why it was refused when it is shown again."""
        form = super().get_form(request, obj, change=change, **kwargs)
        refusal = getattr(request, REFUSAL, "")
        return type(form.__name__, (form,), {"refusal": refusal}) if refusal else form

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Only drafts are opened for writing.

        Whoever sends in what they wrote gets the service's answer: the version may have been put
        in force meanwhile, and a refused page would throw their text away.
        """
        is_open = obj is None or obj.state == PolicyState.DRAFT or request.method == "POST"
        return is_open and super().has_change_permission(request, obj)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponseBase:
        """The page; what the service refuses is said on it, above everything that was typed."""
        try:
            return self._form(request, object_id, form_url, extra_context)
        except BoxOfficeError as error:
            setattr(request, REFUSAL, error.message)
            return self._form(request, object_id, form_url, extra_context)

    def _form(self, *args: Any) -> HttpResponseBase:
        page: HttpResponseBase = super().changeform_view(*args)
        return page

    def save_model(self, request: HttpRequest, obj: PolicyVersion, form: Any, change: bool) -> None:
        """Write it through the service, which locks, checks and records."""
        by = _user(request)
        with tenant_scope(obj.tenant_id):
            if change:
                saved = versions.draft_change(
                    version_id=obj.pk,
                    source=obj.source,
                    note=obj.note,
                    by=by,
                    seen=_time(form.cleaned_data.get("seen", "")),
                )
            else:
                saved = versions.draft_create(source=obj.source, note=obj.note, by=by)
        obj.pk, obj.number = saved.pk, saved.number
        obj._state.adding = False

    @action(  # type: ignore[untyped-decorator]
        description=_("Try, compare, put in force"), url_path="review-link", icon="rule"
    )
    def review_link(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """To the page of what the rules do."""
        return HttpResponseRedirect(
            reverse("admin:approvals_policyversion_review", args=[object_id])
        )

    def get_urls(self) -> list[Any]:
        """The page of what the rules do, besides the stock ones."""
        view = self.admin_site.admin_view(self.review)
        name = "approvals_policyversion_review"
        return [path("<uuid:object_id>/review/", view, name=name), *super().get_urls()]

    def review(self, request: HttpRequest, object_id: Any) -> HttpResponse:
        """What a version would have done, does in shadow, and changes; and the buttons for it."""
        version = self.get_object(request, str(object_id))
        if version is None:
            raise Http404
        if not self.has_view_permission(request, version):
            raise PermissionDenied
        if request.method == "POST":
            return self._act(request, version)
        with tenant_scope(version.tenant_id):
            context = self.admin_site.each_context(request) | _review(version, _days(request))
        context |= {
            "title": f"{version.tenant} · {version.label}",
            "opts": self.opts,
            "may_change": self._may(request, CHANGE),
        }
        return TemplateResponse(request, "admin/approvals/policy_review.html", context)

    def _act(self, request: HttpRequest, version: PolicyVersion) -> HttpResponse:
        """A button was pressed."""
        if not self._may(request, CHANGE):
            raise PermissionDenied
        seen = _time(request.POST.get("seen", ""))
        done: dict[str, tuple[Callable[..., PolicyVersion], Any]] = {
            "shadow": (
                partial(versions.version_shadow, seen=seen),
                _("It runs in shadow from the next call on."),
            ),
            "activate": (
                partial(versions.version_activate, seen=seen),
                _("It is in force from the next call on."),
            ),
            "retire": (versions.version_retire, _("It is retired.")),
            "copy": (versions.draft_copy, _("This is a new draft with the same rules.")),
        }
        try:
            service, said = done[request.POST.get("do", "")]
        except KeyError:
            raise Http404 from None
        try:
            with tenant_scope(version.tenant_id):
                after = service(version_id=version.pk, by=_user(request))
        except BoxOfficeError as error:
            messages.error(request, error.message)
            after = version
        else:
            messages.success(request, said)
        name = "change" if after.pk != version.pk else "review"
        return HttpResponseRedirect(_address(name, after.pk))


def _address(page: str, version_id: Any) -> str:
    return reverse(f"admin:approvals_policyversion_{page}", args=[version_id])


def _user(request: HttpRequest) -> User | None:
    return request.user if isinstance(request.user, User) else None


def _time(text: str) -> datetime:
    """What a page was made of; text that is no time is older than every version."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def _days(request: HttpRequest) -> int:
    text = request.GET.get("days", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else DAYS


def _review(version: PolicyVersion, days: int) -> dict[str, Any]:
    active = versions.version_in(PolicyState.ACTIVE)
    is_open = version.state in (PolicyState.DRAFT, PolicyState.SHADOW)
    problems = versions.version_problems(version)
    is_broken = any(not one.is_warning for one in problems)
    trial = None if is_broken else what_if(_rules(version), days=days)
    in_shadow = calls().shadow_counts(version.label) if version.shadowed_at else []
    other = active if active is None or active.pk != version.pk else _before(version)
    return {
        "version": version,
        "active": active,
        "other": other,
        "is_open": is_open,
        "problems": [shown(one, version.source) for one in problems],
        "is_broken": is_broken,
        "trial": trial,
        "effects": _effects(trial) if trial else [],
        "changed": [_changed(one) for one in trial.changed] if trial else [],
        "days": trial.days if trial else days,
        "day_choices": [1, 7, 30, 90],
        "shadow_total": sum(one.calls for one in in_shadow),
        "shadow_rows": [
            (
                Effect(one.effect).label,
                Effect(one.shadow).label,
                one.calls,
                one.effect != one.shadow,
            )
            for one in in_shadow
            if one.effect and one.shadow
        ],
        "shadow_differences": _differences(version) if in_shadow else [],
        "diff": versions.versions_diff(other, version),
        "can_shadow": version.state == PolicyState.DRAFT and not is_broken,
        "can_activate": is_open and not is_broken,
        "can_retire": version.state != PolicyState.RETIRED,
    }


def _effects(trial: Trial) -> list[tuple[Any, int, int, bool]]:
    """Rows of ``_counts.html``."""
    return [
        (effect.label, trial.before[effect.value], trial.after[effect.value], False)
        for effect in Effect
    ]


def _changed(one: Changed) -> dict[str, Any]:
    """A row of ``_calls.html``, as is one of ``_differences``."""
    return {
        "call": one.call_id,
        "tool": one.tool,
        "created_at": one.created_at,
        "who": one.who,
        "before": one.before.label,
        "after": one.after.effect.label,
        "reviewers": one.after.reviewers,
        "rule": one.after.rule,
        "is_failed": one.after.code == "policy_error",
        "arguments": one.arguments_text,
    }


def _differences(version: PolicyVersion) -> list[dict[str, Any]]:
    return [
        row
        | {
            "before": _label(row["effect"]),
            "after": _label(row["shadow"]),
            "arguments": as_text(row["arguments"]),
        }
        for row in calls().shadow_differences(version.label, most=DIFFERENCES_SHOWN)
    ]


def _label(effect: str) -> str:
    return str(Effect(effect).label)


def _before(version: PolicyVersion) -> PolicyVersion | None:
    """The one that was in force before this one."""
    rows = PolicyVersion.objects.filter(activated_at__isnull=False).exclude(pk=version.pk)
    return rows.filter(activated_at__lt=version.activated_at).order_by("-activated_at").first()


def _rules(version: PolicyVersion) -> list[Rule]:
    return [Rule.from_data(data) for data in version.rules]
