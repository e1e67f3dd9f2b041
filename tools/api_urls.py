"""URL patterns of the REST doors, below `api/v1/`."""

from django.urls import path

from tools import api

app_name = "tools-api"

urlpatterns = [
    path("unknown-calls/", api.UnknownCallList.as_view(), name="unknown-calls"),
    path("unknown-calls/<uuid:call_id>/", api.UnknownCallDetail.as_view(), name="unknown-call"),
    path(
        "unknown-calls/<uuid:call_id>/look-up/",
        api.UnknownCallLookUp.as_view(),
        name="unknown-call-look-up",
    ),
    path(
        "unknown-calls/<uuid:call_id>/settle/",
        api.UnknownCallSettle.as_view(),
        name="unknown-call-settle",
    ),
    path("undos/", api.UndoList.as_view(), name="undos"),
    path("undos/<uuid:undo_id>/", api.UndoDetail.as_view(), name="undo"),
    path("undos/<uuid:undo_id>/retry/", api.UndoRetry.as_view(), name="undo-retry"),
    path("undos/<uuid:undo_id>/settle/", api.UndoSettle.as_view(), name="undo-settle"),
]
