"""URL patterns of the REST doors, below `api/v1/`."""

from django.urls import path

from approvals import api

app_name = "approvals-api"

urlpatterns = [
    path("approvals/", api.ApprovalList.as_view(), name="list"),
    path("approvals/<uuid:request_id>/", api.ApprovalDetail.as_view(), name="detail"),
    path("approvals/<uuid:request_id>/approve/", api.ApprovalApprove.as_view(), name="approve"),
    path("approvals/<uuid:request_id>/deny/", api.ApprovalDeny.as_view(), name="deny"),
    path("approvals/<uuid:request_id>/withdraw/", api.ApprovalWithdraw.as_view(), name="withdraw"),
]
