"""Messages that a run will not take up become a run of their own: none is ever lost."""

from agents import signals
from agents.models import Message, Run, Speaker, Step, StepKind


def pass_on(run: Run) -> Run | None:
    """Give what the fan said and ``run`` has not taken up to a new run; returns it.

    In the transaction that ends the run or lets it wait, with the conversation locked: no message
    can join meanwhile.
    """
    rows = Message.objects.filter(run=run, speaker=Speaker.FAN, taken_at=None)
    waiting = list(rows.select_for_update().order_by("id"))
    if not waiting:
        return None
    heir = Run.objects.create(
        tenant_id=run.tenant_id,
        conversation_id=run.conversation_id,
        asked_by=run.asked_by,
        is_anonymous=run.is_anonymous,
        model=run.model,
        tier=run.tier,
        max_steps=run.max_steps,
        max_output_tokens=run.max_output_tokens,
        max_wall_seconds=run.max_wall_seconds,
        max_cost_micros=run.max_cost_micros,
        last_seq=1,
    )
    said = [{"id": str(message.pk), "text": message.text} for message in waiting]
    Step.objects.create(
        tenant_id=run.tenant_id,
        run=heir,
        seq=1,
        epoch=0,
        kind=StepKind.INPUT,
        content={"messages": said},
    )
    Message.objects.filter(pk__in=[message.pk for message in waiting]).update(
        run=heir, taken_at=heir.created_at
    )
    for message in waiting:
        signals.message_announce(
            tenant_id=run.tenant_id,
            conversation_id=run.conversation_id,
            message_id=message.pk,
            run_id=heir.pk,
        )
    return heir
