"""A call dispatched as a worker does, with its admission and its tries, but at once."""

import asyncio
import time
from uuid import UUID

from tools import dispatch
from tools.admission import admit
from tools.dispatch import Fence
from tools.models import ToolCall
from tools.outcomes import CallReport, Outcome
from tools.permissions import Caller, grant_of


def nobody_else() -> None:
    """The run's lease is ours."""


def call_run(*, call_id: UUID, caller: Caller, fence: Fence = nobody_else) -> CallReport:
    """Ask whether it is the call's turn, dispatch it, tell the circuit; again when it says so."""
    while True:
        call = ToolCall.objects.get(pk=call_id)
        admission = asyncio.run(admit(call=call, grant=grant_of(caller)))
        report = dispatch.call_run(call_id=call_id, caller=caller, fence=fence, admission=admission)
        asyncio.run(admission.settle(report))
        if report.outcome is not Outcome.RETRY:
            return report
        time.sleep(report.pause)
