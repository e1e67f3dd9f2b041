"""What approvals asks of the room that knows the described actions."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from approvals.policies.rules import Effect, Facts
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInfo:
    """A tool as far as the authors of rules are concerned."""

    name: str
    risk: str
    owner: str
    schema: JsonObject
    has_preview: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A call that was made, with what rules would have seen of it.

    ``facts`` is ``None`` when its arguments do not fit the tool of today.
    """

    call_id: UUID
    created_at: datetime
    tool: str
    who: str
    arguments: JsonObject
    effect: Effect
    facts: Facts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowCount:
    """How many calls got this verdict, and would have got that one."""

    effect: str
    shadow: str
    calls: int


class CallsPort(Protocol):
    """Whoever keeps the calls that rules are about; all in the scope of one tenant."""

    def tools(self) -> list[ToolInfo]:
        """The tools that rules can name."""

    def past_calls(self, *, since: datetime, most: int) -> Iterator[PastCall]:
        """The newest calls that came as far as the rules, newest first."""

    def shadow_counts(self, label: str) -> list[ShadowCount]:
        """What a version in shadow would have done, by verdict."""

    def shadow_differences(self, label: str, *, most: int) -> list[JsonObject]:
        """The newest calls on which it differs: ``call, created_at, tool, who, arguments,
        effect, shadow, rule``."""


class _NoCalls:
    """Until somebody registers, there are no tools and no calls."""

    def tools(self) -> list[ToolInfo]:
        return []

    def past_calls(self, *, since: datetime, most: int) -> Iterator[PastCall]:
        return iter(())

    def shadow_counts(self, label: str) -> list[ShadowCount]:
        return []

    def shadow_differences(self, label: str, *, most: int) -> list[JsonObject]:
        return []


_calls: list[CallsPort] = [_NoCalls()]


def register_calls(port: CallsPort) -> None:
    """Make ``port`` the keeper of the calls, in place of the one before."""
    _calls[0] = port


def calls() -> CallsPort:
    """The registered keeper of the calls."""
    return _calls[0]
