"""What the tools are to the rooms below."""

from approvals import ports
from tools.actions import ToolActions
from tools.history import Ledger

ports.register(ToolActions())
ports.register_calls(Ledger())
