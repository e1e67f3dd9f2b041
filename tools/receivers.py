"""What the tools are to the rooms below."""

from approvals import ports
from tools.actions import ToolActions

ports.register(ToolActions())
