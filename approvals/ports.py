"""What approvals asks of the room that knows the described actions."""

from typing import Protocol

from boxoffice.common.exceptions import InvalidInput
from boxoffice.common.types import JsonObject


class ActionPort(Protocol):
    """The owner of the actions; ``tools`` registers itself here at start."""

    def check(self, action: str, arguments: JsonObject) -> JsonObject:
        """The arguments in the action's own form; raises ``InvalidInput`` naming the field."""

    def preview(
        self, *, action: str, arguments: JsonObject, requested_for_id: int | None
    ) -> JsonObject | None:
        """What the action would change; ``None`` when its owner cannot say."""


class _NoActions:
    """Until somebody registers, nothing can be edited: an unchecked edit would be a way in."""

    def check(self, action: str, arguments: JsonObject) -> JsonObject:
        raise InvalidInput(f"The arguments of {action} cannot be edited.")

    def preview(
        self, *, action: str, arguments: JsonObject, requested_for_id: int | None
    ) -> JsonObject | None:
        return None


NO_ACTIONS: ActionPort = _NoActions()
_port = [NO_ACTIONS]


def register(port: ActionPort) -> None:
    """Make ``port`` the owner of the actions, in place of the one before."""
    _port[0] = port


def port() -> ActionPort:
    """The registered owner of the actions."""
    return _port[0]
