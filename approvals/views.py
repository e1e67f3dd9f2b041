"""The reviewers' inbox."""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import get_script_prefix, reverse
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from approvals import presentation, selectors, services
from approvals.models import ApprovalRequest, Gate, State
from approvals.permissions import decider_refusal
from boxoffice.common.exceptions import BoxOfficeError, InvalidInput, NotFound
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.principals import Principal

PAGE_SIZE = 50
ALL = "all"
type View = Callable[..., HttpResponse]


def for_reviewers(view: View) -> View:
    """Let reviewers through: a visitor signs in first, anybody else is refused."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        principal = _principal(request)
        if principal.is_anonymous:
            return redirect_to_login(request.get_full_path())
        if not principal.may("review_actions"):
            raise PermissionDenied
        response = view(request, *args, **kwargs)
        # The same address answers with a page or with a part of it.
        patch_vary_headers(response, ["HX-Request"])
        response["Cache-Control"] = "no-store"
        return response

    return guarded


@require_GET
@for_reviewers
def inbox(request: HttpRequest) -> HttpResponse:
    """The list, filtered by ``state`` and ``tool``."""
    template = "approvals/_list.html" if _wants_part(request) else "approvals/inbox.html"
    return render(request, template, _list_context(request))


@require_GET
@for_reviewers
def detail(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """One request beside the list."""
    return _show(request, _reviewers_request(request, request_id))


@require_POST
@for_reviewers
def approve(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """Approve, or edit the arguments and approve."""

    def act() -> ApprovalRequest:
        return services.approve(
            request_id=request_id,
            principal=_principal(request),
            note=request.POST.get("note", ""),
            arguments=_edited(request.POST.get("arguments", "")),
        )

    return _decide(request, request_id, act)


@require_POST
@for_reviewers
def deny(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """Deny with a reason."""

    def act() -> ApprovalRequest:
        return services.deny(
            request_id=request_id,
            principal=_principal(request),
            reason=request.POST.get("reason", ""),
        )

    return _decide(request, request_id, act)


def _decide(
    request: HttpRequest, request_id: UUID, act: Callable[[], ApprovalRequest]
) -> HttpResponse:
    _reviewers_request(request, request_id)
    try:
        done = act()
    except BoxOfficeError as error:
        row = _reviewers_request(request, request_id)
        return _show(request, row, error=error, status=error.status)
    if _wants_part(request):
        response = _show(request, _reviewers_request(request, request_id))
        response["HX-Trigger"] = "approvals:refresh"
        return response
    messages.success(request, _said(done))
    return redirect(_detail_url(request, request_id))


def _said(done: ApprovalRequest) -> str:
    if done.state == State.PENDING:
        return _("Your approval counts; another reviewer has to approve too.")
    return _("Approved.") if done.state == State.APPROVED else _("Denied.")


def _show(
    request: HttpRequest,
    row: ApprovalRequest,
    *,
    error: BoxOfficeError | None = None,
    status: int = 200,
) -> HttpResponse:
    context = _detail_context(request, row, error)
    if _wants_part(request):
        return render(request, "approvals/_panel.html", context, status=status)
    context |= _list_context(request)
    return render(request, "approvals/inbox.html", context, status=status)


def _reviewers_request(request: HttpRequest, request_id: UUID) -> ApprovalRequest:
    try:
        row = selectors.request_get(principal=_principal(request), request_id=request_id)
    except NotFound as error:
        raise Http404(str(error)) from error
    if row.gate != Gate.REVIEWER:  # a reviewer's own confirmation belongs to their chat
        raise Http404
    return row


def _list_context(request: HttpRequest) -> JsonObject:
    principal = _principal(request)
    state = request.GET.get("state", State.PENDING)
    if state != ALL and state not in State.values:
        state = State.PENDING
    action = request.GET.get("tool", "")
    rows = selectors.inbox_list(
        principal=principal, state=None if state == ALL else state, action=action or None
    )
    before = _uuid(request.GET.get("before"))
    if before is not None:
        rows = rows.filter(pk__lt=before)
    page = list(rows[: PAGE_SIZE + 1])
    shown = page[:PAGE_SIZE]
    inbox_url = reverse("approvals:inbox")
    query = {"state": state} | ({"tool": action} if action else {})
    older = query | {"before": str(shown[-1].pk)} if len(page) > PAGE_SIZE else None
    current = query | ({"before": str(before)} if before else {})
    return {
        "rows": shown,
        "state": state,
        "action": action,
        "states": State.choices,
        "actions": selectors.actions_seen(principal=principal),
        "pending_count": selectors.inbox_list(principal=principal, state=State.PENDING).count(),
        "query": urlencode(query),
        "list_url": f"{inbox_url}?{urlencode(current)}",
        "older_url": f"{inbox_url}?{urlencode(older)}" if older else "",
        "socket_path": f"{get_script_prefix()}ws/approvals/",
    }


def _detail_context(
    request: HttpRequest, row: ApprovalRequest, error: BoxOfficeError | None
) -> JsonObject:
    preview = row.effective_preview
    is_open = row.effective_state == State.PENDING
    given = [one for one in row.decisions.all() if one.verb == "approve"]
    principal = _principal(request)
    query = urlencode({k: v for k, v in request.GET.items() if k in {"state", "tool", "before"}})
    return {
        "selected": row,
        "query": query,
        "error": error,
        "preview": preview,
        "changes": presentation.changes_of(preview),
        "warnings": presentation.warnings_of(preview),
        "extras": presentation.extras_of(preview),
        "fields": presentation.fields_of(row.effective_arguments),
        "asked_fields": presentation.fields_of(row.arguments) if row.edited_arguments else [],
        "arguments_text": request.POST.get("arguments") or presentation.arguments_text(row),
        "note": request.POST.get("note", ""),
        "reason": request.POST.get("reason", ""),
        "decisions": row.decisions.all(),
        "is_open": is_open,
        "approvals_given": len(given),
        "has_approved": any(one.user_id == principal.user_id for one in given),
        "refusal": decider_refusal(request=row, principal=principal) if is_open else "",
    }


def _edited(text: str) -> JsonObject | None:
    """The arguments from the editor; ``None`` when it was left empty."""
    if not text.strip():
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(_("arguments: this is not JSON (%(why)s).") % {"why": error}) from error
    if not isinstance(value, dict):
        raise InvalidInput(_("arguments: a JSON object is needed."))
    return value


def _detail_url(request: HttpRequest, request_id: UUID) -> str:
    url = reverse("approvals:detail", args=[request_id])
    query = request.GET.urlencode()
    return f"{url}?{query}" if query else url


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


def _wants_part(request: HttpRequest) -> bool:
    htmx = request.htmx  # type: ignore[attr-defined]
    return bool(htmx) and not htmx.history_restore_request


def _principal(request: HttpRequest) -> Principal:
    return request.principal  # type: ignore[attr-defined,no-any-return]
