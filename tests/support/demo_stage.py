"""A small box office in memory, to converse with the demo model without a database.

Its tools take and give what the product's do. A `Stage` plays the harness: it sends the
conversation, runs what the model proposes, and goes on until the model answers in text.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agents.llm.demo.plan import reply_blocks
from agents.llm.wire import TextBlock, ToolUseBlock, request_problem

SYSTEM = "You sell tickets.\nToday: 2026-11-30 (Monday), time zone America/Sao_Paulo\nBe brief."
TOOLS = (
    "search_events",
    "search_seats",
    "hold_seats",
    "release_hold",
    "place_order",
    "get_order_status",
    "refund_order",
    "send_email",
    "create_ticket",
)
ANONYMOUS_TOOLS = ("search_events", "search_seats")
ARGUMENTS = {
    "search_events": {"query", "date_from", "date_to", "city", "max_price_brl"},
    "search_seats": {"event_id", "quantity", "max_price_brl", "adjacent"},
    "hold_seats": {"event_id", "seat_ids"},
    "release_hold": {"hold_id"},
    "place_order": {"hold_id"},
    "get_order_status": {"order_id"},
    "refund_order": {"order_id", "reason"},
    "send_email": {"to", "subject", "body"},
    "create_ticket": {"subject", "body"},
}

type Handler = Callable[[dict[str, Any]], dict[str, Any]]


def error(code: str, message: str = "It failed: xyz-123", **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "retryable": False, "hint": "", **more}}


def event(number: int, title: str, day: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"e0000000-0000-7000-8000-{number:012d}",
        "title": title,
        "starts_at": f"{day}T21:00:00-03:00",
        "venue": "Arena Central",
        "city": "São Paulo",
        "category": "music",
        "price_from_brl": 120.0,
        "price_to_brl": 450.0,
        "seats_free": 80,
        **changes,
    }


EVENTS = (
    event(1, "Noite de Jazz", "2026-12-05"),
    event(2, "Hamlet", "2026-12-05", venue="Teatro Real", category="theatre"),
    event(3, "Hamlet", "2026-12-11", venue="Teatro Real", category="theatre"),
    event(4, "Festival de Samba", "2026-12-12", city="Rio de Janeiro"),
    event(5, "Rock na Praça", "2026-12-06", price_from_brl=60.0),
)


def seat_id(event_number: int, row: str, number: int) -> str:
    return f"5ea70000-0000-7000-8000-{event_number:04d}{ord(row):04d}{number:04d}"


class BoxOffice:
    """The tools; `fail` and `seats_left` change how they behave."""

    def __init__(self, events: Iterable[dict[str, Any]] = EVENTS) -> None:
        self.events = list(events)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.replies: dict[str, list[dict[str, Any]]] = {}
        self.taken: set[str] = set()
        self.lost_races = 0
        self.has_pairs = True
        self._made = 0

    def answer(self, tool: str, *results: dict[str, Any]) -> None:
        """Make the tool return these, one per call, before it works as usual."""
        self.replies.setdefault(tool, []).extend(results)

    def run(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        unknown = set(arguments) - ARGUMENTS[tool]
        assert not unknown, f"{tool} knows no {unknown}"
        self.calls.append((tool, arguments))
        if self.replies.get(tool):
            return self.replies[tool].pop(0)
        handler: Handler = getattr(self, f"_{tool}")
        return handler(arguments)

    def made(self, tool: str) -> list[dict[str, Any]]:
        return [arguments for name, arguments in self.calls if name == tool]

    def _new_id(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-0000-7000-8000-{self._made:012d}"

    def _search_events(self, arguments: dict[str, Any]) -> dict[str, Any]:
        first = arguments.get("date_from", "2026-11-30")
        last = arguments.get("date_to", "2027-12-31")
        found = [
            item
            for item in self.events
            if first <= item["starts_at"][:10] <= last
            and arguments.get("query", "").lower() in f"{item['title']} {item['category']}".lower()
            and arguments.get("city", "").lower() in item["city"].lower()
            and item["price_from_brl"] <= arguments.get("max_price_brl", 1e9)
        ]
        return {"events": found, "total": len(found), "source": "box office", "as_of": "now"}

    def _search_seats(self, arguments: dict[str, Any]) -> dict[str, Any]:
        shown = next(item for item in self.events if item["id"] == arguments["event_id"])
        quantity = arguments["quantity"]
        options: list[dict[str, Any]] = []
        rows = "CDE" if self.has_pairs or not arguments.get("adjacent") else ""
        for index, row in enumerate(rows):
            seats = [
                {
                    "id": seat_id(int(shown["id"][-4:]), row, number),
                    "section": "Plateia",
                    "row": row,
                    "number": number,
                    "price_brl": 120.0 + 20 * index,
                }
                for number in range(10, 10 + quantity)
            ]
            if seats[0]["price_brl"] > arguments.get("max_price_brl", 1e9):
                continue
            if self.taken & {seat["id"] for seat in seats}:
                continue
            options.append(
                {
                    "seat_ids": [seat["id"] for seat in seats],
                    "seats": seats,
                    "adjacent": self.has_pairs,
                    "total_brl": sum(seat["price_brl"] for seat in seats),
                }
            )
        return {
            "event_id": shown["id"],
            "event": shown["title"],
            "starts_at": shown["starts_at"],
            "options": options,
            "source": "box office",
            "as_of": "now",
        }

    def _hold_seats(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self.lost_races:
            self.lost_races -= 1
            self.taken |= set(arguments["seat_ids"])
            return error("seats_taken")
        shown = next(item for item in self.events if item["id"] == arguments["event_id"])
        self.taken |= set(arguments["seat_ids"])
        return {
            "hold_id": self._new_id("b0000000"),
            "event_id": shown["id"],
            "event": shown["title"],
            "starts_at": shown["starts_at"],
            "seats": [
                {
                    "id": seat,
                    "section": "Plateia",
                    "row": chr(int(seat[-8:-4])),
                    "number": int(seat[-4:]),
                    "price_brl": 120.0,
                }
                for seat in arguments["seat_ids"]
            ],
            "total_brl": 120.0 * len(arguments["seat_ids"]),
            "expires_at": "2026-11-30T15:10:00Z",
            "status": "active",
        }

    def _release_hold(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"hold_id": arguments["hold_id"], "status": "released"}

    def _place_order(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            "order_id": self._new_id("0a000000"),
            "event": "Noite de Jazz",
            "starts_at": "2026-12-05T21:00:00-03:00",
            "seats": [
                {"id": "x", "section": "Plateia", "row": "C", "number": 10, "price_brl": 120.0},
                {"id": "y", "section": "Plateia", "row": "C", "number": 11, "price_brl": 120.0},
            ],
            "total_brl": 240.0,
            "status": "paid",
        }

    def _get_order_status(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**self._place_order({}), "order_id": arguments["order_id"], "refunds": []}

    def _refund_order(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            "refund_id": self._new_id("0f000000"),
            "order_id": arguments["order_id"],
            "amount_brl": 240.0,
            "status": "refunded",
        }

    def _send_email(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"email_id": self._new_id("0e000000"), "to": arguments["to"], "status": "sent"}

    def _create_ticket(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"ticket_id": self._new_id("0c000000"), "status": "open"}


class Stage:
    """A fan, the demo model and the box office in one conversation."""

    def __init__(
        self,
        office: BoxOffice | None = None,
        *,
        tools: Iterable[str] = TOOLS,
        schemas: Mapping[str, dict[str, Any]] | None = None,
        wraps: bool = False,
    ) -> None:
        self.office = office or BoxOffice()
        self.tools = tuple(tools)
        self.messages: list[dict[str, Any]] = []
        self._schemas = schemas or {}
        self._wraps = wraps

    def say(self, text: str, *, max_steps: int = 8) -> str:
        """Send a message and return the text of the answer; the last step has no tools."""
        self.messages.append({"role": "user", "content": text})
        for step in range(1, max_steps + 1):
            blocks = reply_blocks(self.request(has_tools=step < max_steps))
            content = [block.as_json() for block in blocks]
            self.messages.append({"role": "assistant", "content": content})
            calls = [block for block in blocks if isinstance(block, ToolUseBlock)]
            if not calls:
                return "".join(block.text for block in blocks if isinstance(block, TextBlock))
            self.messages.append({"role": "user", "content": [self._run(call) for call in calls]})
        raise AssertionError("The model asked for a tool that it was not offered")

    def request(self, *, has_tools: bool = True) -> dict[str, Any]:
        body = {
            "model": "demo",
            "max_tokens": 4000,
            "system": SYSTEM,
            "messages": json.loads(json.dumps(self.messages)),
            "tools": [self._tool(name) for name in self.tools] if has_tools else [],
        }
        assert request_problem(body) is None, request_problem(body)
        return body

    def _tool(self, name: str) -> dict[str, Any]:
        return {"name": name, "input_schema": self._schemas.get(name, {"type": "object"})}

    def _run(self, call: ToolUseBlock) -> dict[str, Any]:
        text = json.dumps(self.office.run(call.name, dict(call.arguments)), ensure_ascii=False)
        if self._wraps:
            text = f'<tool_output tool="{call.name}">\n{text}\n</tool_output>'
        return {"type": "tool_result", "tool_use_id": call.id, "content": text}
