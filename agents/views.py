"""The chat pages. Everything works without JavaScript too, only not live."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from agents import selectors, services
from agents.models import Conversation
from agents.page import page_strings
from agents.posting import message_admit
from agents.timeline import timeline_of
from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError, NotFound
from boxoffice.tenancy.principals import Principal

LISTED = 30


@require_GET
@never_cache
def chat_open(request: HttpRequest) -> HttpResponse:
    """The principal's last conversation, or the start of a first one."""
    last = selectors.conversations_for(_principal(request)).order_by("-id").first()
    if last is None:
        return _page(request, None)
    return redirect("agents:chat-show", conversation_id=last.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def chat_new(request: HttpRequest) -> HttpResponse:
    """The start of a new conversation; its first message makes it."""
    if request.method != "POST":
        return _page(request, None)
    principal = _principal(request)
    text = request.POST.get("text", "")
    client_id = request.POST.get("client_id") or None
    try:
        message_admit(principal=principal, conversation_id=None, key=client_id)
        conversation = services.conversation_start(
            principal=principal,
            language=get_language() or settings.LANGUAGE_CODE,
            text=text,
            client_id=client_id,
        )
    except BoxOfficeError as error:
        return _refused(request, None, error, text)
    return redirect("agents:chat-show", conversation_id=conversation.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def chat_show(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """One conversation; a POST says something in it."""
    conversation = _conversation(request, conversation_id)
    if request.method != "POST":
        return _page(request, conversation)
    text = request.POST.get("text", "")
    principal, client_id = _principal(request), request.POST.get("client_id") or None
    try:
        message_admit(principal=principal, conversation_id=conversation_id, key=client_id)
        services.message_post(
            principal=principal,
            conversation_id=conversation_id,
            text=text,
            client_id=client_id,
        )
    except BoxOfficeError as error:
        return _refused(request, conversation, error, text)
    return redirect("agents:chat-show", conversation_id=conversation_id)


@require_GET
@never_cache
def chat_timeline(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """The conversation as data, for a page that has missed something."""
    return JsonResponse(timeline_of(_conversation(request, conversation_id)))


def _principal(request: HttpRequest) -> Principal:
    principal: Principal = request.principal  # type: ignore[attr-defined]
    return principal


def _conversation(request: HttpRequest, conversation_id: UUID) -> Conversation:
    try:
        return selectors.conversation_get(
            principal=_principal(request),
            conversation_id=conversation_id,
        )
    except NotFound as error:
        raise Http404(error.message) from error


def _refused(
    request: HttpRequest, conversation: Conversation | None, error: BoxOfficeError, text: str
) -> HttpResponse:
    """The page again, with what is wrong and what was typed."""
    messages.error(request, error.message)
    return _page(request, conversation, draft=text, status=error.status)


def _page(
    request: HttpRequest,
    conversation: Conversation | None,
    *,
    draft: str = "",
    status: int = 200,
) -> HttpResponse:
    principal = _principal(request)
    is_owner = conversation is None or services.owns(principal, conversation)
    timeline = None if conversation is None else timeline_of(conversation)
    listed = list(selectors.conversations_for(principal).order_by("-id")[:LISTED])
    context = {
        "conversation": conversation,
        "conversations": listed,
        "timeline": timeline,
        "is_owner": is_owner,
        "is_demo": not settings.ANTHROPIC_API_KEY,
        "draft": draft,
        "max_characters": services.MAX_MESSAGE_CHARACTERS,
        "strings": page_strings(),
        "config": _config(request, conversation, is_owner=is_owner),
    }
    return render(request, "agents/chat.html", context, status=status)


def _config(
    request: HttpRequest, conversation: Conversation | None, *, is_owner: bool
) -> dict[str, Any]:
    root = reverse("agents:chat-open")
    key = None if conversation is None else str(conversation.pk)
    return {
        "conversation": key,
        "socket": f"{root}ws/conversations/{key}/" if key else None,
        "timeline": f"{root}c/{key}/timeline/" if key else None,
        "events": f"{root}api/v1/events/",
        "new": reverse("agents:chat-new"),
        "is_owner": is_owner,
        "language": get_language(),
        "time_zone": request.tenant.time_zone,  # type: ignore[attr-defined]
        "currency": request.tenant.currency,  # type: ignore[attr-defined]
        "max_characters": services.MAX_MESSAGE_CHARACTERS,
        "now": now().isoformat(),  # countdowns do not trust the fan's clock
    }
