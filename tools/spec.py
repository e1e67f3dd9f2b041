"""The contract of a tool: what the model is told, and what the harness holds it to."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from boxoffice.common.types import JsonObject
from tools.outside import Path, outside_paths


class Risk(StrEnum):
    """How much a call can do."""

    READ = "read"
    WRITE_REVERSIBLE = "write_reversible"
    DESTRUCTIVE = "destructive"


class Gate(StrEnum):
    """Who must agree before the call runs."""

    NONE = "none"
    FAN = "fan"
    REVIEWER = "reviewer"


class ToolInput(BaseModel):
    """Base of input models: an argument that the schema does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolOutput(BaseModel):
    """Base of output models: typed, compact, with ids."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Who a call is for; from the session, never from an argument.

    ``idempotency_key`` names this one effect for good: services that take a key get this one.
    ``receipt`` is what the other party answered, for the ``run`` of a remote tool; it is empty
    when a person has settled the call.
    """

    tenant_id: UUID
    user_id: int | None
    time_zone: str
    language: str
    idempotency_key: str
    conversation_id: UUID | None = None
    run_id: UUID | None = None
    receipt: JsonObject = field(default_factory=dict)


type Runner = Callable[[ToolContext, Any], ToolOutput]
type Previewer = Callable[[ToolContext, Any], JsonObject]
type Inverse = Callable[[JsonObject], tuple[str, JsonObject]]
type Standing = Callable[[ToolContext, JsonObject], bool | None]
type Ask = Callable[[str, JsonObject], Awaitable[JsonObject]]
type Lookup = Callable[[str, JsonObject], Awaitable[JsonObject | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """The part of a tool that another party does, over a network.

    ``begin`` works in a transaction: it writes down what is about to be asked for, keeps what that
    needs (seats), and returns the request as JSON, which is kept for whoever has to go on.
    ``send(key, request)`` asks the other party, with no transaction open, and returns the receipt.
    It raises ``NotSent`` when the request surely never arrived, a ``BoxOfficeError`` when it was
    refused and nothing was done, and anything else when nobody knows. ``lookup(key, request)``
    says what became of an earlier ``send``: its receipt, ``None`` if there never was one, or its
    refusal as ``send`` raises it. Then, in one transaction with the result: the tool's ``run``,
    which finds the receipt in its context, or ``fail``, which gives back what ``begin`` kept.
    ``is_idempotent`` promises that the other party does a key once, however often it is sent.
    ``provider`` names the other party to people.
    """

    provider: Callable[[], str]
    begin: Callable[[ToolContext, Any], JsonObject]
    send: Ask
    fail: Callable[[ToolContext, Any], None]
    lookup: Lookup | None = None
    is_idempotent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How often a tool may be called: by one fan, and by all fans of a tenant together."""

    per_minute: int
    tenant_per_minute: int


type Check = Callable[[Any, Any], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """One tool.

    ``run`` works inside the transaction that also stores its result, so it must touch nothing
    but the database; what happens elsewhere is in ``remote``. ``preview`` reads only, and says
    what would change: ``{"summary", "before", "after", "warnings", "undo"}``. ``inverse`` maps a
    stored result to the call that undoes it, by a tool without a remote part, and
    ``stands(context, result)`` reads whether there is still something to undo: what has ended by
    itself, was undone already, or was used up for good no longer stands; ``None`` is not known yet.
    ``on_gated(context, arguments, until)`` runs when a request for a human is made that ends at
    ``until``; what it reserves must not run out before the decision. ``on_refused`` gives it back.
    The preview must not show what ``on_gated`` moves (an expiry time): the approval binds to it.
    ``check(result, arguments)`` says in words what is wrong with a result that fits the output
    model and still cannot be right, or nothing. ``fallback`` names a tool that reads the same and
    stands in when this one is out of order. ``is_core`` tools come with any other tool.
    Fields of the output model that are ``OutsideText`` were written by others; ``is_outside`` says
    that of all that the tool gives, its errors included.
    ``successor`` names the tool to be used instead of this one, which still works for now.
    """

    name: str
    description: str
    input_model: type[ToolInput]
    output_model: type[ToolOutput]
    run: Runner
    risk: Risk
    gate: Gate = Gate.NONE
    preview: Previewer | None = None
    inverse: Inverse | None = None
    stands: Standing | None = None
    on_gated: Callable[[ToolContext, Any, datetime], None] | None = None
    on_refused: Callable[[ToolContext, Any], None] | None = None
    remote: Remote | None = None
    examples: tuple[JsonObject, ...] = ()
    owner: str = "ticketing"
    timeout_s: float = 10.0
    rate: Rate | None = None
    check: Check | None = None
    fallback: str = ""
    is_core: bool = False
    is_outside: bool = False
    outside: tuple[Path, ...] = field(init=False, repr=False, compare=False, default=())
    successor: str = ""
    version: str = field(init=False, default="")
    offer: JsonObject = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Fix the version: a hash over everything that a reviewer or a model relies on."""
        contract = list(self.contract.values())
        digest = hashlib.sha256(json.dumps(contract, sort_keys=True).encode()).hexdigest()
        object.__setattr__(self, "version", digest[:16])
        object.__setattr__(self, "outside", outside_paths(self.output_model))
        offer = {"name": self.name, "description": self.offered_description}
        object.__setattr__(self, "offer", offer | {"input_schema": self.input_schema()})

    @property
    def contract(self) -> JsonObject:
        """What the version is the hash of, in this order."""
        return {
            "name": self.name,
            "description": self.description,
            "input": self.input_schema(),
            "output": self.output_model.model_json_schema(),
            "risk": self.risk,
            "gate": self.gate,
        }

    @property
    def offered_description(self) -> str:
        """The description, which says first what is to be used instead, if anything is."""
        if not self.successor:
            return self.description
        return f"On its way out: use {self.successor} instead.\n\n{self.description}"

    @property
    def is_read(self) -> bool:
        """Whether the call changes nothing."""
        return self.risk is Risk.READ

    @property
    def is_final(self) -> bool:
        """Whether what it does cannot be taken back, or happens at another party."""
        return self.risk is Risk.DESTRUCTIVE or self.remote is not None

    def input_schema(self) -> JsonObject:
        """JSON Schema of the arguments, without Pydantic's titles."""
        schema: JsonObject = _without_titles(self.input_model.model_json_schema())
        if self.examples:
            schema["examples"] = list(self.examples)
        return schema

    def as_model_tool(self) -> JsonObject:
        """The tool as the Messages API wants it: made once, not to be changed."""
        return self.offer


def _without_titles(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: _without_titles(value)
            for key, value in node.items()
            if not (key == "title" and isinstance(value, str))
        }
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    return node
