"""The part of a call that another party does, in the worker's event loop."""

from agents.database import in_db, uncut
from tools import remote
from tools.circuits import Circuit
from tools.outcomes import CallReport, Outcome, Sending
from tools.permissions import Caller


async def finished(sending: Sending, caller: Caller, circuit: Circuit | None = None) -> CallReport:
    """Ask the other party, holding nothing, and write down what it said.

    What is on its way is not given up half-way: a run that is stopped, taken over or out of time
    ends after it.
    """
    return await uncut(_finish(sending, caller, circuit))


async def _finish(sending: Sending, caller: Caller, circuit: Circuit | None) -> CallReport:
    finding = await remote.ask(sending, circuit)
    call = await in_db(remote.conclude, call_id=sending.call_id, finding=finding, caller=caller)
    return CallReport(call=call, outcome=Outcome.DONE, heard="")
