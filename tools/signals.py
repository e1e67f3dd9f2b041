"""What other rooms may listen to. Sent after the commit, so a crash can lose one: sweep too."""

from django.dispatch import Signal

# tenant_id, call_id: what another party did, or may have done, is known better than before.
concluded = Signal()
