"""WebSocket URL patterns, below the tenant's prefix."""

from django.urls import URLPattern, path

from approvals.consumers import InboxConsumer

websocket_urlpatterns: list[URLPattern] = [path("ws/approvals/", InboxConsumer.as_asgi())]
