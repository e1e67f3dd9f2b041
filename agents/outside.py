"""The mark of a run that has read text from outside: set with the result that brings it."""

from agents.models import Run
from boxoffice.common.batch import Batch
from tools.models import ToolCall
from tools.outside import outside_mark_register


def mark_add(batch: Batch, call: ToolCall) -> None:
    """Mark the run of a call, by the first of its calls, in the batch that stores the result.

    No lease is asked for: whoever brings the text (a sweep as well) marks whoever will read it.
    """
    if call.run_ref is not None:
        batch.update(
            Run,
            changes={"is_tainted": True, "tainted_by": call.pk},
            where={"tenant_id": call.tenant_id, "id": call.run_ref, "is_tainted": False},
        )


outside_mark_register(mark_add)
