"""URL patterns of the inbox, below `approvals/`."""

from django.urls import path

from approvals import views

app_name = "approvals"

urlpatterns = [
    path("", views.inbox, name="inbox"),
    path("<uuid:request_id>/", views.detail, name="detail"),
    path("<uuid:request_id>/approve/", views.approve, name="approve"),
    path("<uuid:request_id>/deny/", views.deny, name="deny"),
]
