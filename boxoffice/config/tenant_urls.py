"""URLs of one tenant: under `/t/<slug>/`, or at the root of the tenant's own host."""

from django.urls import include, path, re_path

from boxoffice.config import errors

handler400 = errors.bad_request
handler403 = errors.forbidden
handler404 = errors.not_found
handler500 = errors.server_error

urlpatterns = [
    path("", include("agents.urls")),
    path("approvals/", include("approvals.urls")),
    path("api/v1/", include("agents.api.urls")),
    path("api/v1/", include("approvals.api_urls")),
    path("api/v1/", include("tools.api_urls")),
    path("api/v1/", include("boxoffice.ticketing.api_urls")),
    re_path(r"^api(?:/.*)?$", errors.api_unknown),
]
