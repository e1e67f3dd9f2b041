"""One call of each tool, and each end that it can come to.

Tools and their gates come from the registry: a tool without an entry in ``CALLS`` fails a test,
and one that gets a gate is walked through all decisions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, cycle
from uuid import UUID

from boxoffice.common.clock import now
from boxoffice.common.transitions import transition
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Tenant, Tier
from boxoffice.ticketing.models import Seat, Section
from boxoffice.ticketing.services.holds import hold_create
from tests.support.cast import Cast
from tests.ticketing.buying import order_place
from tools import registry
from tools.models import CALL_MACHINE, CallState, StoredOutput, ToolCall
from tools.spec import Gate

FAN, REVIEWER = "ana", "rita"
# What one fan may do in a minute is less than what the cases ask for.
FANS = 40
DECISIONS = {
    Gate.NONE: ("plain",),
    # A fan's own confirmation cannot change the arguments.
    Gate.FAN: ("approve", "deny", "expire"),
    Gate.REVIEWER: ("approve", "edit", "deny", "expire"),
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Scenario:
    """A tool and what becomes of its call."""

    tool: str
    decision: str

    def __str__(self) -> str:
        return f"{self.tool}/{self.decision}"

    def decider(self, fan: str) -> str:
        """Who decides on a call of ``fan``'s."""
        spec = registry.find(self.tool)
        return REVIEWER if spec is not None and spec.gate is Gate.REVIEWER else fan


def scenarios() -> list[Scenario]:
    """Every tool of the catalogue with every decision that it can meet."""
    return [
        Scenario(tool=spec.name, decision=decision)
        for spec in registry.all_tools()
        # What can be undone is undone, too, by a fan who stops the run.
        for decision in (*DECISIONS[spec.gate], *["stop"] * (spec.inverse is not None))
    ]


@dataclass(slots=True)
class Floor:
    """A house with a seat for each case. ``made`` is what was made without a call."""

    cast: Cast
    made: set[UUID] = field(default_factory=set)
    _seats: Iterator[UUID] = field(default_factory=lambda: iter(()))
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _fans: Iterator[str] = field(default_factory=lambda: cycle([FAN]))

    @classmethod
    def build(cls, cast: Cast, *, seats: int) -> "Floor":
        """More seats in the stalls, and fans who may spend what many runs cost."""
        with cast.scope():
            section = Section.objects.get(name="Plateia")
            rows = Seat.objects.bulk_create(
                Seat(tenant=cast.tenant, section=section, row="Z", number=n, x=n, y=9)
                for n in range(1, seats + 1)
            )
            Tier.objects.update(max_day_cost_micros=10**12)
        Tenant.objects.filter(pk=cast.tenant.pk).update(max_concurrent_runs=seats)
        fans = cycle(cast.crowd(FANS))
        return cls(cast=cast, _seats=iter([row.pk for row in rows]), _fans=fans)

    def fan(self) -> str:
        """Whose turn it is to ask for something."""
        return next(self._fans)

    def number(self) -> int:
        """A number that no other case has."""
        return next(self._numbers)

    def seat(self) -> UUID:
        """A seat that no other case asks for."""
        return next(self._seats)

    def hold(self, fan: str = FAN) -> UUID:
        """A hold of a fan's."""
        made = hold_create(
            event_id=self.cast.seats.event.pk,
            seat_ids=[self.seat()],
            user_id=self.cast.user(fan).pk,
        )
        self.made.add(made.pk)
        return made.pk

    def order(self, fan: str = FAN) -> UUID:
        """A paid order of a fan's."""
        made = order_place(
            hold_id=self.hold(fan),
            user_id=self.cast.user(fan).pk,
            payment_key=f"case:{self.number()}",
        )
        self.made.add(made.pk)
        return made.pk


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Who asks, and where."""

    fan: str
    conversation: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call to be proposed, and the arguments that a reviewer puts in its place."""

    arguments: JsonObject
    edit: JsonObject | None = None


def _event(floor: Floor) -> str:
    return str(floor.cast.seats.event.pk)


def _refund(floor: Floor, talk: Talk) -> Call:
    arguments = {"order_id": str(floor.order(talk.fan)), "reason": "Fiquei doente."}
    return Call(arguments=arguments, edit=arguments | {"reason": "O fã ficou doente."})


def _email(floor: Floor, talk: Talk) -> Call:
    arguments = {"to": "ana@example.com", "subject": "Seu pedido", "body": f"Nº {floor.number()}"}
    return Call(arguments=arguments, edit=arguments | {"subject": "O seu pedido"})


def _read_on(floor: Floor, talk: Talk) -> Call:
    """An earlier call of the conversation gave more than was shown."""
    earlier = ToolCall.objects.create(
        call_id="earlier",
        origin="test",
        conversation_ref=talk.conversation,
        user=floor.cast.user(talk.fan),
        tool="search_events",
        arguments={},
        args_hash="earlier",
        idempotency_key=f"earlier:{talk.conversation}",
    )
    transition(
        ToolCall.objects.filter(pk=earlier.pk),
        CALL_MACHINE,
        CallState.SUCCEEDED,
        result={},
        finished_at=now(),
    )
    output = StoredOutput.objects.create(
        call=earlier,
        conversation_ref=talk.conversation,
        text="um\ndois",
        total_bytes=7,
        total_lines=2,
    )
    return Call(arguments={"id": str(output.pk), "lines": {"first": 1, "last": 2}})


CALLS: dict[str, Callable[[Floor, Talk], Call]] = {
    "search_events": lambda floor, talk: Call(arguments={"query": "jazz"}),
    "search_seats": lambda floor, talk: Call(arguments={"event_id": _event(floor), "quantity": 2}),
    "get_order_status": lambda floor, talk: Call(
        arguments={"order_id": str(floor.order(talk.fan))}
    ),
    "hold_seats": lambda floor, talk: Call(
        arguments={"event_id": _event(floor), "seat_ids": [str(floor.seat())]}
    ),
    "release_hold": lambda floor, talk: Call(arguments={"hold_id": str(floor.hold(talk.fan))}),
    "place_order": lambda floor, talk: Call(arguments={"hold_id": str(floor.hold(talk.fan))}),
    "refund_order": _refund,
    "send_email": _email,
    "create_ticket": lambda floor, talk: Call(
        arguments={"subject": f"Pergunta {floor.number()}", "body": "Qual é a entrada?"}
    ),
    "read_output": _read_on,
}
