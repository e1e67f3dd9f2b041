"""URL patterns of the chat, below the tenant's prefix."""

from django.urls import URLPattern, URLResolver, path

from agents import desk, views

app_name = "agents"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.chat_open, name="chat-open"),
    path("new/", views.chat_new, name="chat-new"),
    path("c/<uuid:conversation_id>/", views.chat_show, name="chat-show"),
    path("c/<uuid:conversation_id>/timeline/", views.chat_timeline, name="chat-timeline"),
    path("handoffs/", desk.handoff_list, name="handoff-list"),
    path("handoffs/<uuid:conversation_id>/close/", desk.handoff_close, name="handoff-close"),
]
