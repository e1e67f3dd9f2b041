"""Errors of the REST doors, as RFC 9457 problem details."""

import logging
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import Http404, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_exception_handler

from boxoffice.common.exceptions import BoxOfficeError, InvalidInput, TooLarge, TooMany
from boxoffice.tenancy.away import AWAY, RETRY_AFTER_SECONDS, DatabaseAway, database_away

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"


def problem(error: BoxOfficeError, **extra: Any) -> dict[str, Any]:
    """The body that tells a client what went wrong and what would help."""
    body: dict[str, Any] = {
        "type": f"urn:boxoffice:problem:{error.code}",
        "title": error.code.replace("_", " ").capitalize(),
        "status": error.status,
        "detail": error.message,
        "code": error.code,
    }
    if error.hint:
        body["hint"] = error.hint
    return body | error.extra | extra


def problem_response(error: BoxOfficeError) -> JsonResponse:
    """The same as a plain Django response, for doors that are no DRF view."""
    response = JsonResponse(problem(error), status=error.status, content_type=CONTENT_TYPE)
    for name, value in _headers(error).items():
        response[name] = value
    return response


def _headers(error: BoxOfficeError) -> dict[str, str]:
    if error.status == 401:
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TooMany):
        return {"Retry-After": str(error.retry_after)}
    if isinstance(error, DatabaseAway):
        return {"Retry-After": str(RETRY_AFTER_SECONDS), "Cache-Control": "no-store"}
    return {}


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's handler: the product's own errors, and DRF's, in one form."""
    if isinstance(error, RequestDataTooBig):
        error = TooLarge("The body has too many bytes.")
    if isinstance(error, AWAY):
        logger.warning("the database is away: %s", error)
        error = database_away()
    if isinstance(error, BoxOfficeError):
        return Response(
            problem(error),
            status=error.status,
            content_type=CONTENT_TYPE,
            headers=_headers(error),
        )
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    if isinstance(error, exceptions.ValidationError):
        error.status_code = InvalidInput.status
    response = drf_exception_handler(error, context)
    if response is None or not isinstance(error, exceptions.APIException):
        return response
    code = error.default_code if isinstance(error.detail, (dict, list)) else error.detail.code
    body: dict[str, Any] = {
        "type": f"urn:boxoffice:problem:{code}",
        "title": str(code).replace("_", " ").capitalize(),
        "status": response.status_code,
        "code": code,
    }
    if isinstance(error.detail, dict):
        body["detail"] = "Some fields are not valid."
        body["errors"] = error.detail
    elif isinstance(error.detail, list):
        body["detail"] = " ".join(map(str, error.detail))
    else:
        body["detail"] = str(error.detail)
    response.data = body
    response.content_type = CONTENT_TYPE
    return response
