"""URL patterns of the box office's REST doors."""

from django.urls import URLPattern, URLResolver, path

from boxoffice.ticketing import api

# Ids are read by the views: what is no id gets the same problem document as an unknown one.
urlpatterns: list[URLPattern | URLResolver] = [
    path("events/", api.EventList.as_view(), name="event-list"),
    path("events/<str:event_id>/", api.EventDetail.as_view(), name="event-detail"),
    path("events/<str:event_id>/seats/", api.EventSeats.as_view(), name="event-seats"),
    path("holds/", api.HoldList.as_view(), name="hold-list"),
    path("orders/", api.OrderList.as_view(), name="order-list"),
]
