"""Conversations, and the runs that answer in them."""

from agents.models.conversations import Conversation, Message, Speaker
from agents.models.prompts import PromptVersion
from agents.models.replays import REPLAY_MACHINE, Replay, ReplayState
from agents.models.runs import RUN_MACHINE, Run, RunState, Step, StepKind

__all__ = [
    "REPLAY_MACHINE",
    "RUN_MACHINE",
    "Conversation",
    "Message",
    "PromptVersion",
    "Replay",
    "ReplayState",
    "Run",
    "RunState",
    "Speaker",
    "Step",
    "StepKind",
]
