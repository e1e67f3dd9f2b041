"""What other rooms may listen to. Sent after the commit, so a crash can lose one: sweep too."""

from django.dispatch import Signal

# Each is sent with sender=ApprovalRequest, request_id, tenant_id, state and reference.
requested = Signal()
decided = Signal()
settled = Signal()
