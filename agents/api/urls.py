"""URL patterns of the REST doors, below `api/v1/`."""

from django.urls import path

from agents.api import conversations, replays, runs

app_name = "agents-api"

urlpatterns = [
    path("conversations/", conversations.ConversationList.as_view(), name="conversation-list"),
    path(
        "conversations/<uuid:conversation_id>/",
        conversations.ConversationDetail.as_view(),
        name="conversation-detail",
    ),
    path(
        "conversations/<uuid:conversation_id>/messages/",
        conversations.MessageList.as_view(),
        name="message-list",
    ),
    path("runs/<uuid:run_id>/", runs.RunDetail.as_view(), name="run-detail"),
    path("runs/<uuid:run_id>/steps/", runs.StepList.as_view(), name="run-steps"),
    path("runs/<uuid:run_id>/tool-calls/", runs.ToolCallList.as_view(), name="run-tool-calls"),
    path("runs/<uuid:run_id>/events/", runs.RunEvents.as_view(), name="run-events"),
    path("runs/<uuid:run_id>/cancel/", runs.RunCancel.as_view(), name="run-cancel"),
    path("runs/<uuid:run_id>/replay/", replays.RunReplay.as_view(), name="run-replay"),
    path("runs/<uuid:run_id>/fork/", replays.RunFork.as_view(), name="run-fork"),
    path("replays/<uuid:replay_id>/", replays.ReplayDetail.as_view(), name="replay-detail"),
]
