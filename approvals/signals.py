"""What other rooms may listen to. Sent after the commit, so a crash can lose one: sweep too."""

from django.dispatch import Signal

# Each is sent with sender=ApprovalRequest, request_id, tenant_id, state, gate, reference.
requested = Signal()
counted = Signal()  # one of several approvals is there; the request is still pending
decided = Signal()
settled = Signal()
