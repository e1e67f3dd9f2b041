"""The chat pages."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse


def chat_open(request: HttpRequest) -> HttpResponse:
    """The principal's last conversation, or the start of a new one."""
    return HttpResponse()


def chat_new(request: HttpRequest) -> HttpResponse:
    """The start of a new conversation."""
    return HttpResponse()


def chat_show(request: HttpRequest, conversation_id: UUID) -> HttpResponse:
    """One conversation."""
    return HttpResponse()
