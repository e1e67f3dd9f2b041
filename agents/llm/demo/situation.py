"""What the plans decide on: the conversation, the memory of it, and the tools on offer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.demo import render
from agents.llm.demo.conversation import Call, Conversation
from agents.llm.demo.memory import Goal, Memory
from agents.llm.demo.phrases import action_name, say
from agents.llm.wire import Json, ToolUseBlock

type Reply = str | tuple[ToolUseBlock, ...]

# What a visitor gets by signing in; the rest depends on the tier.
_FANS_TOOLS = ("hold_seats", "release_hold", "place_order", "get_order_status", "refund_order")
_APPROVAL_CODES = ("approval_expired", "approval_withdrawn", "approval_void")
_ERROR_TEXTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("needs_human",), "error_needs_person"),
    (("sales_closed",), "error_closed"),
    (("hold_not",), "error_hold_gone"),
    (("unknown_outcome", "outcome_unknown"), "error_unknown"),
    (("rate", "too_many_requests", "throttl"), "error_rate"),
    (("grant", "forbidden", "permission", "not_allowed", "unknown_tool"),
     "error_permission"),
    (("payment", "card"), "error_payment"),
    (("taken", "unavailable_seats", "seats_unavailable", "sold"), "taken"),
    (("not_found",), "error_not_found"),
    (("expired", "void"), "error_expired"),
    (("already", "conflict", "refunded"), "error_done"),
    (("timeout", "unavailable", "circuit", "connection", "busy"), "error_busy"),
    (("invalid", "validation", "arguments"), "error_input"),
    (("unknown",), "error_unknown"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Situation:
    """Where the conversation stands now."""

    conversation: Conversation
    memory: Memory

    @property
    def language(self) -> str:
        return self.conversation.language

    @property
    def goal(self) -> Goal:
        return self.memory.goal

    def say(self, key: str, **values: object) -> str:
        return say(key, self.language, **values)

    def money(self, amount: Any) -> str:
        return render.money(amount, self.language)

    def when(self, time: Any) -> str:
        return render.when(time, self.conversation.zone, self.language)

    def clock(self, time: Any) -> str:
        return render.clock(time, self.conversation.zone)

    def seats(self, seats: Any) -> str:
        return render.seat_names(seats or [], self.language)

    def offers(self, tool: str) -> bool:
        return tool in self.conversation.tools

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """Propose a call, or say that it cannot be made here, or that it already waits."""
        waiting = self.memory.waiting(tool, arguments)
        if waiting is not None:
            return self.explain(waiting)
        if self.offers(tool):
            return (ToolUseBlock(tool, dict(arguments)),)
        return self.cannot(tool)

    def cannot(self, tool: str) -> str:
        if not self.conversation.tools and self.memory.turn_calls:
            return self.say("stopped")
        is_fans = tool in _FANS_TOOLS and not any(map(self.offers, _FANS_TOOLS))
        key = "sign_in" if is_fans else "not_here"
        return self.say(key, action=action_name(tool, self.language))

    def made(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Call | None:
        """Return the last such call since the goal was stated, or None."""
        for call in reversed(self.goal.calls):
            if call.name == tool and (arguments is None or call.arguments == dict(arguments)):
                return call
        return None

    def made_now(self, tool: str) -> list[Call]:
        """Return the calls of the tool since the fan's last message."""
        return [call for call in self.memory.turn_calls if call.name == tool]

    def explain(self, call: Call) -> str:
        """Say in plain words why a call did not do what was wanted."""
        if call.is_pending:
            is_fan = "confirm" in call.status
            return self.say("pending_confirmation" if is_fan else "pending_approval")
        if call.is_denied:
            if call.code.endswith("by_fan"):
                return self.say("declined_by_fan")
            reason = call.reason
            return self.say("denied_why", reason=reason) if reason else self.say("denied")
        if call.code in _APPROVAL_CODES:
            return self.say(f"error_{call.code}")
        if "sign_in" in call.code or "anonymous" in call.code:
            return self.say("sign_in", action=action_name(call.name, self.language))
        for parts, key in _ERROR_TEXTS:
            if any(part in call.code for part in parts):
                return self.say(key)
        return self.say("error_other")

    def limit(self, tool: str, argument: str, bound: str = "maximum") -> int | None:
        """Return a bound that the schema of a tool puts on an argument, if it names one."""
        schema: Json = self.conversation.tools.get(tool, {}).get("input_schema") or {}
        found = ((schema.get("properties") or {}).get(argument) or {}).get(bound)
        return found if isinstance(found, int) else None
