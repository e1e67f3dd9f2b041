"""What answers when no view does: problem details below `api/`, pages elsewhere."""

import re
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import is_valid_path
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt

from boxoffice.common.exceptions import BoxOfficeError, Forbidden, NotFound
from boxoffice.tenancy.problems import problem_response

_API = re.compile(r"(/t/[^/]+)?/api(/|$)")


class ServerError(BoxOfficeError):
    """A mistake of the product's own."""

    code = "server_error"
    status = 500
    retryable = True
    hint = "Try again; if it stays, tell the operator when it happened."


class BadRequest(BoxOfficeError):
    """The request cannot be served as it is (a host that is not ours, a malformed part)."""

    code = "bad_request"


@csrf_exempt
def api_unknown(request: HttpRequest) -> HttpResponse:
    """The last URL pattern below `api/`: also answers when the debug pages are on."""
    path = request.path_info
    slashed = f"{path}/"
    is_slashed_known = not path.endswith("/") and is_valid_path(
        slashed, getattr(request, "urlconf", None)
    )
    if is_slashed_known and request.method in {"GET", "HEAD"}:
        query = request.META.get("QUERY_STRING", "")
        return redirect(f"{request.path}/{'?' if query else ''}{query}", permanent=True)
    hint = "The addresses of the API end with a slash." if not path.endswith("/") else ""
    return problem_response(NotFound("There is no such address.", hint=hint))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """404."""
    if _is_api(request):
        return problem_response(NotFound("There is no such address."))
    return defaults.page_not_found(request, exception)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """400."""
    if _is_api(request):
        return problem_response(BadRequest("The request cannot be served as it is."))
    return defaults.bad_request(request, exception)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """403."""
    if _is_api(request):
        return problem_response(Forbidden("You may not do this."))
    return defaults.permission_denied(request, exception)


def server_error(request: HttpRequest, *args: Any) -> HttpResponseBase:
    """500."""
    if _is_api(request):
        return problem_response(ServerError("Something went wrong on our side."))
    return defaults.server_error(request)


def _is_api(request: HttpRequest) -> bool:
    # What fails before the tenant is known has its prefix still.
    return _API.match(request.path_info) is not None
