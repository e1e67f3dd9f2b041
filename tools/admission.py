"""Is it this call's turn? The rate of its tool and its circuit, asked before the transaction.

Valkey is asked here, in one round trip and with no connection to the database; the guard then uses
the answer at its place in the order. Without Valkey, ``WITHOUT_VALKEY`` says what holds.
"""

import asyncio
import math
from dataclasses import dataclass

from django.conf import settings

from boxoffice.common import limits
from boxoffice.common.limits import Bucket, Entry
from boxoffice.common.types import JsonObject
from boxoffice.common.valkey import Question, ValkeyAway, ask
from tools import registry
from tools.circuits import PROBE_GRACE_SECONDS, Circuit, key_of
from tools.models import CallState, ToolCall
from tools.outcomes import CallReport
from tools.permissions import Grant, is_usable
from tools.spec import ToolSpec

# Codes of refusals that say nothing of the call itself.
MOMENTARY = frozenset({"rate_limited", "circuit_open", "limits_unavailable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The answer. ``refusal`` is the error if it is not this call's turn.

    ``stand_in``: the circuit of the tool that may stand in, if it is closed.
    """

    refusal: JsonObject | None = None
    circuit: Circuit | None = None
    stand_in: Circuit | None = None

    def news(self, report: CallReport) -> list[tuple[Circuit, str]]:
        """What the circuits are to be told of a call that has been dispatched."""
        told = []
        if self.circuit is not None and report.heard:
            told.append((self.circuit, report.heard))
        if self.stand_in is not None and report.stand_in_heard == "failure":
            told.append((self.stand_in, "failure"))
        return told

    async def settle(self, report: CallReport) -> None:
        """Tell the circuits what became of the call."""
        for circuit, what in self.news(report):
            await circuit.tell(what)


FREE = Admission()


async def admit(*, call: ToolCall, grant: Grant) -> Admission:
    """Ask for one try of a call."""
    asked = _Asked.of(call, grant)
    if asked is None:
        return FREE
    try:
        answers = await asyncio.gather(*(ask(question) for question in asked.questions))
    except ValkeyAway:
        return asked.unanswered()
    return asked.read(answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    spec: ToolSpec
    circuit: str
    buckets: list[Bucket]
    questions: list[Question]
    stand_in: str

    @classmethod
    def of(cls, call: ToolCall, grant: Grant) -> "_Asked | None":
        """``None`` for what the guard refuses anyway, and for what has begun already."""
        spec = registry.find(call.tool)
        if spec is None or call.state not in (CallState.PROPOSED, CallState.GATED):
            return None
        if not is_usable(spec, grant):  # the guard refuses it: that is nobody's turn
            return None
        circuit = key_of(call.tenant_id, spec.name, grant.circuit)
        # Who was let in before a human was asked has paid already.
        buckets = _buckets(spec, call) if call.state == CallState.PROPOSED else []
        once = f"bo:{{{call.tenant_id}}}:paid:{call.pk}"
        questions = [
            limits.enter(
                once=once,
                buckets=buckets,
                circuit=circuit,
                probe_s=spec.timeout_s + PROBE_GRACE_SECONDS,
            )
        ]
        fallback = registry.fallback_of(spec)
        stand_in = ""
        if fallback is not None:
            stand_in = key_of(call.tenant_id, fallback.name, grant.circuit)
            questions.append(limits.look([stand_in]))
        return cls(
            spec=spec, circuit=circuit, buckets=buckets, questions=questions, stand_in=stand_in
        )

    def read(self, answers: list[object]) -> Admission:
        entry = limits.entered(answers[0])
        stand_in = None
        if self.stand_in and limits.seen(answers[1])[0].open_s is None:
            stand_in = Circuit(key=self.stand_in)
        refusal = _refusal(self.spec, entry)
        if refusal is not None:
            return Admission(refusal=refusal, stand_in=stand_in)
        circuit = Circuit(key=self.circuit, is_probe=entry.is_probe)
        return Admission(circuit=circuit, stand_in=stand_in)

    def unanswered(self) -> Admission:
        held = settings.WITHOUT_VALKEY
        is_closed = held["circuit"] == "closed" or (
            self.buckets and held[self.spec.risk.value] == "closed"
        )
        stand_in = Circuit(key=self.stand_in) if self.stand_in else None
        if is_closed:
            return Admission(refusal=_uncounted(self.spec), stand_in=stand_in)
        return Admission(circuit=Circuit(key=self.circuit), stand_in=stand_in)


def _buckets(spec: ToolSpec, call: ToolCall) -> list[Bucket]:
    rate = spec.rate
    if rate is None:
        return []
    tag = f"bo:{{{call.tenant_id}}}:rate:{spec.name}"
    who = f"user:{call.user_id}" if call.user_id else f"visitor:{call.conversation_ref}"
    return [
        Bucket.per_minute_of(f"{tag}:{who}", rate.per_minute),
        Bucket.per_minute_of(f"{tag}:all", rate.tenant_per_minute),
    ]


def _refusal(spec: ToolSpec, entry: Entry) -> JsonObject | None:
    seconds = max(1, math.ceil(entry.wait_s))
    if entry.empty is not None:
        whose = "by this fan" if entry.empty == 0 else "by the fans of this box office"
        return {
            "code": "rate_limited",
            "message": f"{spec.name} was used too often {whose} just now; it was not run.",
            "retryable": True,
            "hint": f"Not before {seconds} seconds from now; do something else, or tell the fan.",
            "retry_after_s": seconds,
        }
    if entry.is_open:
        return {
            "code": "circuit_open",
            "message": f"{spec.name} has failed several times just now and is given a rest.",
            "retryable": True,
            "hint": f"Not before {seconds} seconds from now. Use another way, or tell the fan.",
            "retry_after_s": seconds,
        }
    return None


def _uncounted(spec: ToolSpec) -> JsonObject:
    return {
        "code": "limits_unavailable",
        "message": f"{spec.name} may not be used while nobody can count how often it is.",
        "retryable": True,
        "hint": "Tell the fan that it can be tried again in a few minutes.",
        "retry_after_s": 60,
    }
