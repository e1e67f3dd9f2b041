"""The tries of one call: asked for at Valkey, dispatched, told to its circuit, tried again."""

import asyncio
from collections.abc import Awaitable, Callable

from tools.admission import Admission, admit
from tools.models import ToolCall
from tools.outcomes import CallReport, Outcome
from tools.permissions import Grant

type Dispatch = Callable[[Admission], Awaitable[CallReport]]


async def carried_out(call: ToolCall, grant: Grant, dispatch: Dispatch) -> CallReport:
    """Dispatch a call, again after a pause where that is worth it; the last report.

    A pause holds neither a thread nor a connection. Each try is counted in the ledger before it,
    so a worker that dies in a pause leaves the rest of the tries to the next one. If ``dispatch``
    raises, a probe of the circuit is given up when its time is over.
    """
    while True:
        admission = await admit(call=call, grant=grant)
        report = await dispatch(admission)
        await admission.settle(report)
        if report.outcome is not Outcome.RETRY:
            return report
        call = report.call
        await asyncio.sleep(report.pause)
