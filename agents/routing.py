"""WebSocket URL patterns, below the tenant's prefix."""

from django.urls import URLPattern

websocket_urlpatterns: list[URLPattern] = []
