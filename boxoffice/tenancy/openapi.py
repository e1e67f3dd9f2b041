"""What the OpenAPI schema says of every operation: who may call it, and how it fails."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent

from boxoffice.common.types import JsonObject
from boxoffice.tenancy.problems import CONTENT_TYPE
from boxoffice.tenancy.rest import IsMember

_PROBLEM: JsonObject = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "example": "urn:boxoffice:problem:not_found"},
        "title": {"type": "string", "example": "Not found"},
        "status": {"type": "integer", "example": 404},
        "detail": {"type": "string", "example": "Conversation not found."},
        "code": {"type": "string", "description": "Stable, for machines.", "example": "not_found"},
        "hint": {"type": "string", "description": "What would help instead."},
        "errors": {
            "type": "object",
            "description": "What is wrong with each field.",
            "additionalProperties": {},
        },
    },
    "additionalProperties": {},
}
_ALWAYS = {
    "401": "The token is unknown, expired or revoked, or nobody has signed in.",
    "403": "Known, and not allowed.",
    "404": "There is no such thing, or it is not the caller's to see.",
    "405": "The method is not known here.",
    "406": "None of the accepted media types can be produced.",
}
_READS = {"422": "A query parameter is not valid; the detail names it."}
_WRITES = {
    "400": "The body is no JSON.",
    "409": "The thing is no longer in the state that the request needs.",
    "413": "The body has too many bytes.",
    "415": "The body is of another media type.",
    "422": "The body is not valid; the detail and `errors` name the fields.",
    "429": "Too much in too short a time; `Retry-After` says in how many seconds to come back.",
}
_IDEMPOTENCY: JsonObject = {
    "in": "header",
    "name": "Idempotency-Key",
    "description": "The same key and body again get the first answer, and have no second effect.",
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": "^[!-~]([ -~]*[!-~])?$",
    },
}


class PrincipalScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """A bearer token or the session's cookie."""

    target_class = "boxoffice.tenancy.rest.PrincipalAuthentication"
    name = ["bearer", "session"]

    def get_security_definition(self, auto_schema: AutoSchema) -> list[JsonObject]:
        """The two schemes, in the order of ``name``."""
        return [
            {"type": "http", "scheme": "bearer"},
            {"type": "apiKey", "in": "cookie", "name": "sessionid"},
        ]

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[JsonObject]:
        """Either of the two; neither, where a visitor is welcome."""
        either: list[JsonObject] = [{name: []} for name in self.name]
        permissions = auto_schema.view.get_permissions()
        needs_member = any(isinstance(permission, IsMember) for permission in permissions)
        return either if needs_member else [*either, {}]


class ProblemSchema(AutoSchema):
    """Adds the problem responses and the idempotency key to each operation.

    Bodies are closed: a field that is not described is refused.
    """

    def _map_serializer(self, serializer: Any, direction: Any, *args: Any, **kwargs: Any) -> Any:
        schema = super()._map_serializer(  # type: ignore[no-untyped-call]
            serializer, direction, *args, **kwargs
        )
        if direction == "request" and schema.get("type") == "object":
            schema["additionalProperties"] = False
        return schema

    def get_operation(self, *args: Any, **kwargs: Any) -> JsonObject | None:
        """The operation; ``None`` when it is left out of the schema."""
        operation: JsonObject | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        self.registry.register_on_missing(
            ResolvedComponent(  # type: ignore[no-untyped-call]
                name="Problem", type=ResolvedComponent.SCHEMA, object="Problem", schema=_PROBLEM
            )
        )
        is_read = self.method == "GET"
        for status, description in (_ALWAYS | (_READS if is_read else _WRITES)).items():
            operation["responses"].setdefault(status, _problem_response(description))
        if not is_read:
            operation.setdefault("parameters", []).append(_IDEMPOTENCY)
        return operation


def _problem_response(description: str) -> JsonObject:
    return {
        "description": description,
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
