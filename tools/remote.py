"""A remote effect, from the moment at which it is written down that another party will be asked.

``ask`` speaks to the other party and holds no transaction; ``conclude`` writes down what it said,
once, whoever is first. Neither asks whose lease the run is: what the other party has done is done,
and the guarded move of the call decides who writes it. A worker that comes late changes nothing.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from uuid import UUID

from django.db import transaction

from boxoffice.audit import services as audit
from boxoffice.common import crash
from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError, NotSent
from boxoffice.common.types import JsonObject, storable
from tools import failures, guard, registry, signals
from tools.circuits import Circuit, key_of, knock
from tools.effects import caller_of, context_of, effective_arguments
from tools.models import CallState, RemoteEffect, ToolCall
from tools.outcomes import Sending, attempt, over, result_of, sending_of, with_decision
from tools.permissions import Caller
from tools.spec import ToolSpec

logger = logging.getLogger(__name__)

LOOKUP_SECONDS = 5.0
# A call whose outcome is unknown is still looked up now and then, ever more seldom.
LOOKS_AGAIN_SECONDS = 60
LOOKS_MOST = 8
OUTCOME_UNKNOWN: JsonObject = {
    "code": "outcome_unknown",
    "message": "It is not known whether this was done: the other side did not answer.",
    "retryable": False,
    "hint": "Do not repeat it. Tell the fan that a person of the box office looks into it.",
}
UNAVAILABLE: JsonObject = {
    "code": "provider_unavailable",
    "message": "The other side could not be reached; nothing was done.",
    "retryable": True,
    "hint": "Tell the fan that nothing was changed, and that it can be tried again later.",
}
AGENT = "system:agent"


class Found(StrEnum):
    """What is known of a request."""

    DONE = "done"
    REFUSED = "refused"
    ABSENT = "absent"
    NOT_SENT = "not_sent"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``data`` is the receipt, the refusal as an error, or in words why nobody knows."""

    found: Found
    data: JsonObject

    @property
    def is_known(self) -> bool:
        """Whether it surely happened, or surely did not."""
        return self.found in (Found.DONE, Found.REFUSED)


async def ask(sending: Sending, circuit: Circuit | None = None) -> Finding:
    """Ask the other party, or look up what it did; tries a few times, and never blindly.

    What may have arrived is sent again only when the other party says that it did not, and
    promises to do a key once. ``circuit`` is the one that has let the first try in; each further
    sending asks it anew, so that a party that is down is not asked by everybody three times.
    """
    may_be_there = not sending.is_first
    looks_up = may_be_there
    key = sending.circuit or key_of(sending.tenant_id, sending.tool)
    finding = Finding(found=Found.NOT_SENT, data={"why": "its circuit is open"})
    tries: Counter[bool] = Counter()  # lookups, and others
    while True:
        tries[looks_up] += 1
        if looks_up:
            finding = await _look_up(sending)
        else:
            door, circuit = circuit or await knock(key=key, timeout_s=sending.timeout_s), None
            if door is None:
                break
            finding = await _send(sending)
            await door.tell("success" if finding.is_known else "failure")
        if finding.is_known or not _can_go_on(sending, finding):
            break
        may_be_there = may_be_there or finding.found is Found.LOST
        # After a lookup that found nothing, and after a try that surely failed as the first one.
        looks_up = may_be_there and finding.found is not Found.ABSENT
        pause = failures.pause_before(tries[looks_up] + 1, finding.data.get("retry_after_s"))
        if pause is None:
            break
        await asyncio.sleep(pause)
    if finding.found is Found.NOT_SENT and not may_be_there:
        return Finding(found=Found.REFUSED, data=_unavailable(finding))
    return finding


def _unavailable(finding: Finding) -> JsonObject:
    seconds = finding.data.get("retry_after_s")
    return UNAVAILABLE if seconds is None else UNAVAILABLE | {"retry_after_s": seconds}


def _can_go_on(sending: Sending, finding: Finding) -> bool:
    remote = sending.remote
    if remote is None:
        return False
    if finding.found is Found.ABSENT:
        return sending.may_send and remote.is_idempotent
    return finding.found is Found.NOT_SENT or remote.lookup is not None


async def _send(sending: Sending) -> Finding:
    spec, remote = sending.spec, sending.remote
    if spec is None or remote is None:
        return _lost("the tool no longer exists")
    crash.point("effect_begun")
    try:
        async with asyncio.timeout(spec.timeout_s):
            receipt = await remote.send(sending.key, sending.request)
    except Exception as error:  # noqa: BLE001 - whatever it is, the request may have arrived
        finding = _raised(sending, error)
    else:
        finding = Finding(found=Found.DONE, data=receipt)
    crash.point("effect_sent")
    return finding


async def _look_up(sending: Sending) -> Finding:
    remote = sending.remote
    if remote is None or remote.lookup is None:
        return _lost("there is no lookup")
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            receipt = await remote.lookup(sending.key, sending.request)
    except NotSent as error:
        finding = _lost(f"lookup: {_words(error)}")
    except Exception as error:  # noqa: BLE001
        finding = _raised(sending, error)
    else:
        finding = (
            Finding(found=Found.ABSENT, data={"why": "the other side has never heard of it"})
            if receipt is None
            else Finding(found=Found.DONE, data=receipt)
        )
    crash.point("effect_looked_up")
    return finding


def _raised(sending: Sending, error: Exception) -> Finding:
    if isinstance(error, BoxOfficeError):
        return Finding(found=Found.REFUSED, data=error.as_data()["error"])
    if isinstance(error, NotSent):
        said = {} if error.retry_after is None else {"retry_after_s": error.retry_after}
        return Finding(found=Found.NOT_SENT, data={"why": _words(error), **said})
    logger.warning("call %s: outcome lost: %s", sending.call_id, _words(error))
    return _lost(_words(error))


def _lost(why: str) -> Finding:
    return Finding(found=Found.LOST, data={"why": why})


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300].rstrip(": ")


def conclude(
    *,
    call_id: UUID,
    finding: Finding,
    caller: Caller | None = None,
    actor: str = AGENT,
    note: str = "",
) -> ToolCall:
    """Write down what was found, with the tool's own rows and the approval, in one transaction.

    A call that is over stays as it is. In the tenant's scope; ``caller`` is whom the call is for.
    """
    finding = replace(finding, data=storable(finding.data))  # others write what they like
    with transaction.atomic():
        call = _locked(call_id)
        effect = RemoteEffect.objects.select_for_update().get(call=call)
        if call.state in (CallState.RUNNING, CallState.UNKNOWN):
            _write(call, effect, finding, caller or caller_of(call), actor, note)
            transaction.on_commit(partial(_announce, call), robust=True)
        elif finding.is_known:
            _contradicts(call, effect, finding)
        crash.point("effect_end_open")
    crash.point("effect_end_committed")
    return call


def _locked(call_id: UUID) -> ToolCall:
    call: ToolCall = (
        ToolCall.objects.select_for_update(of=("self",)).select_related("approval").get(pk=call_id)
    )
    return call


def _write(
    call: ToolCall,
    effect: RemoteEffect,
    finding: Finding,
    caller: Caller,
    actor: str,
    note: str,
) -> None:
    was = CallState(call.state)
    spec = registry.find(call.tool)
    state, changes, finding = _outcome(call, spec, finding, caller)
    if state != was:
        # As long as whoever wanted it has waited, whichever process asked, and died.
        started = time.monotonic() - (now() - effect.sent_at).total_seconds()
        over(call, state, started, **changes)
    is_settled = state != CallState.UNKNOWN
    effect.found = {"found": finding.found.value, **finding.data}
    effect.found_at = now()
    effect.rounds += 1
    effect.due_at = None if is_settled else _looks_again(spec, effect.rounds)
    if state == CallState.UNKNOWN and was != state:
        effect.unknown_at = now()
    if state != was:
        effect.to_tell = True
    if is_settled and was == CallState.UNKNOWN:
        effect.settled_by, effect.settled_note, effect.settled_at = actor, note, now()
    effect.save()
    if CallState.UNKNOWN in (was, state) and state != was:
        audit.record(
            action="tools.call.settled" if is_settled else "tools.call.unknown",
            actor=actor,
            target=f"call:{call.pk}",
            details={"tool": call.tool, "state": state.value, "note": note} | effect.found,
        )


def _outcome(
    call: ToolCall, spec: ToolSpec | None, finding: Finding, caller: Caller
) -> tuple[CallState, JsonObject, Finding]:
    """The state that follows, and what is written with it.

    When the tool cannot write down what is known, that is for a person to see too.
    """
    if finding.is_known and (spec is None or spec.remote is None):
        finding = _lost("the tool no longer exists")
    if finding.is_known and spec is not None and spec.remote is not None:
        context = replace(context_of(call, caller), receipt=finding.data)
        remote, is_done = spec.remote, finding.found is Found.DONE

        def work() -> JsonObject:
            arguments = guard.parse(spec, effective_arguments(call))
            if not is_done:
                remote.fail(context, arguments)
                return {}
            return result_of(spec, context, arguments)

        result, error = attempt(spec, work)
        if result is not None and is_done:
            changes = {"result": with_decision(call, result), "error": None}
            return CallState.SUCCEEDED, changes, finding
        if result is not None:
            return CallState.FAILED, {"error": finding.data}, finding
        logger.error("call %s is %s and cannot be recorded: %s", call.pk, finding.found, error)
        not_recorded = {**finding.data, "found": finding.found.value, "not_recorded": error}
        finding = Finding(found=Found.LOST, data={"why": "not recorded", "heard": not_recorded})
    return CallState.UNKNOWN, {"error": OUTCOME_UNKNOWN}, finding


def _looks_again(spec: ToolSpec | None, rounds: int) -> datetime | None:
    if spec is None or spec.remote is None or spec.remote.lookup is None or rounds > LOOKS_MOST:
        return None
    return now() + timedelta(seconds=LOOKS_AGAIN_SECONDS * 2 ** (rounds - 1))


def _contradicts(call: ToolCall, effect: RemoteEffect, finding: Finding) -> None:
    """What comes late must not change a call, but is not to be lost when it says otherwise."""
    is_done = call.state in (CallState.SUCCEEDED, CallState.COMPENSATED)
    if is_done == (finding.found is Found.DONE):
        return
    logger.error("call %s is %s, but now it was heard: %s", call.pk, call.state, finding.found)
    heard = {"found": finding.found.value, **finding.data}
    RemoteEffect.objects.filter(pk=effect.pk).update(found=heard, found_at=now())
    audit.record(
        action="tools.call.contradicted",
        actor=AGENT,
        target=f"call:{call.pk}",
        details={"tool": call.tool, "state": call.state} | heard,
    )


def _announce(call: ToolCall) -> None:
    signals.concluded.send_robust(sender=ToolCall, tenant_id=call.tenant_id, call_id=call.pk)


def told(*, call_id: UUID, state: str) -> bool:
    """Whoever asked knows by now that the call is in ``state``; false if it has moved on."""
    rows = RemoteEffect.objects.filter(call_id=call_id, call__state=state, to_tell=True)
    return rows.update(to_tell=False) == 1


def due(limit: int) -> list[tuple[UUID, UUID]]:
    """Tenant and call of what nobody has finished in time, in all tenants that are in scope."""
    rows = RemoteEffect.objects.filter(due_at__lte=now()).order_by("due_at")
    return list(rows.values_list("tenant_id", "call_id")[:limit])


def take(*, call_id: UUID) -> Sending | None:
    """Take a call on that is due, for whoever is first; ``None`` for the others."""
    with transaction.atomic():
        rows = RemoteEffect.objects.select_for_update(skip_locked=True, of=("self",))
        effect = rows.select_related("call").filter(call_id=call_id, due_at__lte=now()).first()
        if effect is None:
            return None
        effect.due_at = now() + timedelta(seconds=LOOKS_AGAIN_SECONDS)
        if effect.call.state not in (CallState.RUNNING, CallState.UNKNOWN):
            effect.due_at = None
        effect.save(update_fields=["due_at"])
        if effect.due_at is None:
            return None
        return sending_of(effect.call, effect, is_first=False)


async def ask_all(sendings: Sequence[Sending]) -> list[Finding]:
    """``ask`` for several at once; one that fails with a mistake of ours is lost, not all."""
    return list(await asyncio.gather(*(_asked(each) for each in sendings)))


async def _asked(sending: Sending) -> Finding:
    try:
        return await ask(sending)
    except Exception as error:
        logger.exception("call %s cannot be asked for", sending.call_id)
        return _lost(_words(error))
