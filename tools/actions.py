"""The tools as the actions that a human is asked about (the port of the approvals room)."""

from boxoffice.common.exceptions import InvalidInput
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import current_tenant_id
from tools import guard, registry
from tools.spec import ToolContext, ToolInput, ToolSpec


class ToolActions:
    """Checks and previews what a reviewer wants to change about a call."""

    def check(self, action: str, arguments: JsonObject) -> JsonObject:
        """The arguments, normalised; raises ``InvalidInput`` naming field and bound."""
        _, parsed = _parsed(action, arguments)
        return parsed.model_dump(mode="json", exclude_none=True)

    def preview(
        self, *, action: str, arguments: JsonObject, requested_for_id: int | None
    ) -> JsonObject | None:
        """What the call would change now, for the person it is for."""
        spec, parsed = _parsed(action, arguments)
        if spec.preview is None:
            return None
        tenant = Tenant.objects.get(pk=current_tenant_id())
        context = ToolContext(
            tenant_id=tenant.pk,
            user_id=requested_for_id,
            time_zone=tenant.time_zone,
            language=tenant.language,
            idempotency_key="",
        )
        return spec.preview(context, parsed)


def _parsed(action: str, arguments: JsonObject) -> tuple[ToolSpec, ToolInput]:
    spec = registry.find(action)
    if spec is None:
        raise InvalidInput(f"There is no tool named {action!r} any more.")
    try:
        return spec, guard.parse(spec, arguments)
    except guard.ArgumentsInvalid as error:
        raise InvalidInput(f"arguments: {error}") from None
