"""What every REST door shares: authentication, permission, pages, idempotent POSTs."""

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.pagination import CursorPagination
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from boxoffice.common.exceptions import Conflict, InvalidInput
from boxoffice.tenancy.models import IdempotencyRecord, User
from boxoffice.tenancy.principals import Principal

if TYPE_CHECKING:  # DRF's views load this module while they are loaded themselves
    from rest_framework.views import APIView


class PrincipalAuthentication(BaseAuthentication):
    """Takes over whom the middleware found; a session's writes need the CSRF token."""

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        """The user and principal, or ``None`` for a visitor."""
        principal: Principal | None = getattr(request._request, "principal", None)
        user = request._request.user
        if principal is None or not isinstance(user, User):
            return None
        if not getattr(request._request, "has_token", False):
            SessionAuthentication().enforce_csrf(request)
        return user, principal

    def authenticate_header(self, request: Request) -> str:
        """The challenge of a 401."""
        return "Bearer"


class IsPrincipal(BasePermission):
    """Anybody whom the tenant knows, visitors included."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Whether the request came through a tenant."""
        return getattr(request._request, "principal", None) is not None


class IsMember(BasePermission):
    """Somebody who has signed in."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Whether the principal is a member."""
        principal: Principal | None = getattr(request._request, "principal", None)
        return principal is not None and not principal.is_anonymous


def principal_of(request: Request) -> Principal:
    """The principal of a request that passed ``IsPrincipal``."""
    return request._request.principal  # type: ignore[attr-defined,no-any-return]


class NewestFirst(CursorPagination):
    """Cursor pages by id; ids are time-ordered."""

    ordering = "-id"
    page_size_query_param = "page_size"
    max_page_size = 200


class OldestFirst(NewestFirst):
    """Cursor pages for what is read from the beginning."""

    ordering = "id"


def idempotent(request: Request, act: Callable[[], Response]) -> Response:
    """Run ``act`` once per ``Idempotency-Key`` of this principal; a repeat gets the first answer.

    The record commits in the same transaction as the effect. Raises ``Conflict`` when the key
    came with another body before.
    """
    key = request.headers.get("Idempotency-Key")
    if not key:
        return act()
    if len(key) > 255:
        raise InvalidInput("Idempotency-Key: at most 255 characters.")
    principal = principal_of(request)
    text = json.dumps([request.method, request.path, request.data], sort_keys=True, default=str)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    known = _stored(principal, key, fingerprint)
    if known is not None:
        return known
    try:
        with transaction.atomic():
            response = act()
            IdempotencyRecord.objects.create(
                principal=principal.key,
                key=key,
                fingerprint=fingerprint,
                status=response.status_code,
                body=json.loads(json.dumps(response.data, default=str)),
            )
            return response
    except IntegrityError:
        known = _stored(principal, key, fingerprint)
        if known is None:
            raise
        return known


def _stored(principal: Principal, key: str, fingerprint: str) -> Response | None:
    record: Any = IdempotencyRecord.objects.filter(principal=principal.key, key=key).first()
    if record is None:
        return None
    if record.fingerprint != fingerprint:
        raise Conflict("This Idempotency-Key was used for another request.")
    return Response(record.body, status=record.status, headers={"Idempotent-Replay": "true"})
