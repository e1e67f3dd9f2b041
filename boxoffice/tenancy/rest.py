"""What every REST door shares: authentication, permission, pages, idempotent POSTs."""

import hashlib
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from rest_framework import exceptions, serializers
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.pagination import CursorPagination
from rest_framework.parsers import JSONParser
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from boxoffice.common.exceptions import Conflict, InvalidInput, TooLarge
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


_FLAGS = {"1": True, "true": True, "0": False, "false": False}


def flag(request: Request, name: str) -> bool:
    """A yes or no among the query parameters, ``False`` when it is not there."""
    text = request.query_params.get(name, "false").lower()
    if text not in _FLAGS:
        raise InvalidInput(f"{name}: true or false.")
    return _FLAGS[text]


_SIZE = re.compile(r"[0-9]{1,3}")


class NewestFirst(CursorPagination):
    """Cursor pages by id; ids are time-ordered."""

    ordering: str | tuple[str, ...] = "-id"
    page_size_query_param = "page_size"
    page_size_query_description = "How many rows a page has."
    cursor_query_description = "Where the page begins: taken from `next` or `previous`."
    max_page_size = 200

    def get_page_size(self, request: Request) -> int | None:
        """The size that was asked for; raises ``InvalidInput`` for one that cannot be."""
        text = request.query_params.get(self.page_size_query_param)
        if text is None:
            return self.page_size
        if not _SIZE.fullmatch(text) or not 1 <= int(text) <= self.max_page_size:
            raise InvalidInput(f"page_size: between 1 and {self.max_page_size}.")
        return int(text)

    def get_schema_operation_parameters(self, view: "APIView") -> list[dict[str, Any]]:
        """The parameters, with the bounds of ``page_size``."""
        parameters: list[dict[str, Any]] = super().get_schema_operation_parameters(view)
        for parameter in parameters:
            if parameter["name"] == self.page_size_query_param:
                parameter["schema"] |= {"minimum": 1, "maximum": self.max_page_size}
        return parameters

    def paginate_queryset(
        self, queryset: Any, request: Request, view: "APIView | None" = None
    ) -> list[Any] | None:
        """One page; a cursor that was made up is answered like any other that is not known."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValidationError, ValueError, OverflowError) as error:
            raise exceptions.NotFound(self.invalid_cursor_message) from error


class OldestFirst(NewestFirst):
    """Cursor pages for what is read from the beginning."""

    ordering = "id"


class StrictJSONParser(JSONParser):
    """JSON in UTF-8 of at most ``DATA_UPLOAD_MAX_MEMORY_SIZE`` bytes, whatever is in it.

    DRF's own reads without a bound, trusts the charset that the client names, and lets a thousand
    open brackets end in a ``RecursionError``.
    """

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        """The value; raises ``TooLarge`` or ``ParseError``."""
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise TooLarge(f"The body has more than {limit} bytes.")
        try:
            value = json.loads(raw.decode(), parse_constant=_no_constant)
            if b"\\ud" in raw.lower():  # half a surrogate pair can be neither stored nor sent
                json.dumps(value, ensure_ascii=False).encode()
        except RecursionError as error:
            raise exceptions.ParseError("JSON parse error - nested too deeply") from error
        except UnicodeEncodeError as error:
            raise exceptions.ParseError("JSON parse error - half a surrogate pair") from error
        except ValueError as error:
            raise exceptions.ParseError(f"JSON parse error - {error}") from error
        return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON.")


class Text(serializers.CharField):
    """A string; a number or a boolean is not taken for one."""

    default_error_messages = {"invalid": "A string."}

    def to_internal_value(self, data: Any) -> str:
        """The string as it came."""
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Body(serializers.Serializer[Any]):
    """A request's body, in which an unknown field is an error."""

    def to_internal_value(self, data: Any) -> Any:
        """Refuse what is not described."""
        if isinstance(data, dict):
            unknown = sorted(set(data) - set(self.fields))
            if unknown:
                raise serializers.ValidationError({name: ["Unknown field."] for name in unknown})
        return super().to_internal_value(data)


def read_body(kind: type[Body], request: Request) -> dict[str, Any]:
    """The valid body; raises ``InvalidInput`` whose message and ``errors`` name the fields."""
    body = kind(data=request.data)
    if body.is_valid():
        valid: dict[str, Any] = body.validated_data
        return valid
    errors: dict[str, Any] = dict(body.errors)
    parts = [
        text if field == "non_field_errors" else f"{field[:100]}: {text}"
        for field, text in ((field, _first(problems)) for field, problems in errors.items())
    ]
    error = InvalidInput(" ".join(parts[:10]))
    error.extra = {"errors": errors}
    raise error


def _first(problems: Any) -> str:
    while isinstance(problems, (list, dict)):
        problems = next(iter(problems.values() if isinstance(problems, dict) else problems))
    return str(problems)


_KEY = re.compile(r"[!-~](?:[ -~]{0,253}[!-~])?")


def idempotent(request: Request, act: Callable[[], Response]) -> Response:
    """Run ``act`` once per ``Idempotency-Key`` of this principal; a repeat gets the first answer.

    The record commits in the same transaction as the effect. Raises ``Conflict`` when the key
    came with another body before.
    """
    known = repeated(request)
    if known is not None:
        return known
    key = _key_of(request)
    if key is None:
        return act()
    principal, fingerprint = principal_of(request), _fingerprint(request)
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


def repeated(request: Request) -> Response | None:
    """The first answer to a POST that comes again with its ``Idempotency-Key``, if it does.

    For a door that has to wait for somebody before it can call ``idempotent``, which holds a
    transaction. Raises as that does.
    """
    key = _key_of(request)
    return None if key is None else _stored(principal_of(request), key, _fingerprint(request))


def _key_of(request: Request) -> str | None:
    key: str | None = request.headers.get("Idempotency-Key")
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidInput("Idempotency-Key: 1 to 255 printable ASCII characters.")
    return key


def _fingerprint(request: Request) -> str:
    text = json.dumps([request.method, request.path, request.data], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _stored(principal: Principal, key: str, fingerprint: str) -> Response | None:
    record: Any = IdempotencyRecord.objects.filter(principal=principal.key, key=key).first()
    if record is None:
        return None
    if record.fingerprint != fingerprint:
        raise Conflict("This Idempotency-Key was used for another request.")
    return Response(record.body, status=record.status, headers={"Idempotent-Replay": "true"})
