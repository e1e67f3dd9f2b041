"""WebSocket URL patterns, below the tenant's prefix."""

from django.urls import URLPattern, path

from agents.consumers import ChatConsumer

websocket_urlpatterns: list[URLPattern] = [
    path("ws/conversations/<uuid:conversation_id>/", ChatConsumer.as_asgi()),
]
