"""What other rooms may listen to. Sent after the commit, so a crash can lose one: sweep too."""

from django.dispatch import Signal

# tenant_id, call_id: what another party did, or may have done, is known better than before.
concluded = Signal()
# tenant_id, run_id: what a run did is to be undone.
undo_planned = Signal()
# tenant_id, run_id, conversation_id, call_id: an effect has been undone, has turned out to need
# no undoing, or needs a person.
undo_moved = Signal()
