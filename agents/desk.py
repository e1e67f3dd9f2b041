"""The desk of the box office: conversations that wait for a person."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django_htmx.http import HttpResponseClientRefresh

from agents import selectors, services
from agents.models import Conversation
from boxoffice.common.exceptions import NotFound
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.principals import Principal

# More than a team answers before it looks again; the others move up.
SHOWN = 50
REASONS = {
    "budget_steps": gettext_lazy("The assistant took as many steps as it may, and was not done."),
    "budget_tokens": gettext_lazy("The answer grew longer than this fan's plan allows."),
    "budget_cost": gettext_lazy("What this fan's plan allows to be spent is used up."),
    "budget_time": gettext_lazy("It took longer than it may."),
    "outcome_unknown": gettext_lazy(
        "It is not known whether something was done, a payment for example. Look at the unknown "
        "outcomes in the console."
    ),
    "gave_up": gettext_lazy("The assistant has tried many times and never came to an answer."),
    "same_failure": gettext_lazy("The assistant kept trying something that does not work."),
    "no_progress": gettext_lazy("The assistant went round in circles."),
}
type View = Callable[..., HttpResponse]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One row: ``since`` names the handoff in the form that closes it."""

    conversation: Conversation
    fan: str
    reason: str
    last_words: str
    since: str


def for_answerers(view: View) -> View:
    """Let through who may answer fans: a visitor signs in, for others there is no such page."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        principal = _principal(request)
        if principal.is_anonymous:
            if request.htmx:  # type: ignore[attr-defined]
                return HttpResponseClientRefresh()  # signed out meanwhile: not into the list
            return redirect_to_login(reverse("agents:handoff-list"))
        if not principal.may("answer_fans"):
            raise Http404
        return view(request, *args, **kwargs)

    return never_cache(guarded)


@require_GET
@for_answerers
def handoff_list(request: HttpRequest) -> HttpResponse:
    """Who waits, longest first; the rows alone for the page that asks every few seconds."""
    is_part = bool(request.htmx) and not request.htmx.history_restore_request  # type: ignore[attr-defined]
    template = "agents/_handoffs.html" if is_part else "agents/handoffs.html"
    response = render(request, template, _list_context() | {"is_part": is_part})
    patch_vary_headers(response, ["HX-Request"])
    return response


@require_POST
@for_answerers
def handoff_close(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """Mark one as dealt with; an open page of a fan does not change by it."""
    since = _time(request.POST.get("since", ""))
    try:
        is_closed = since is not None and services.handoff_close(
            principal=_principal(request), conversation_id=conversation_id, since=since
        )
    except NotFound as error:
        raise Http404(error.message) from error
    if is_closed:
        messages.success(request, _("Dealt with. The assistant goes on with this conversation."))
    else:
        messages.info(request, _("Somebody else has dealt with this already."))
    return redirect("agents:handoff-list")


def _list_context() -> JsonObject:
    found = list(selectors.handoffs().select_related("user")[: SHOWN + 1])
    words = selectors.last_words(one.pk for one in found)
    rows = [
        Waiting(
            conversation=one,
            fan=_name(one),
            reason=str(REASONS.get(one.handoff_reason, "")),
            last_words=words[one.pk].text if one.pk in words else "",
            since=one.handoff_at.isoformat() if one.handoff_at else "",
        )
        for one in found[:SHOWN]
    ]
    count = len(found) if len(found) <= SHOWN else selectors.handoffs().count()
    return {"rows": rows, "waiting": count, "more": count - len(rows)}


def _name(conversation: Conversation) -> str:
    if conversation.user is None:
        return _("Visitor")
    return conversation.user.get_full_name() or conversation.user.get_username()


def _time(text: str) -> datetime | None:
    try:
        found = parse_datetime(text)
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _principal(request: HttpRequest) -> Principal:
    principal: Principal = request.principal  # type: ignore[attr-defined]
    return principal
