"""A model call as it is sent, and the little that must be kept to build it again later.

What stays the same from call to call (system prompt, tools, model) is a ``PromptVersion``, written
once; a step keeps its digest, the blocks that are only this call's, and a digest of the messages,
which tells whether they were built again as they were.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.context.history import History, flattened
from agents.llm.turns import ModelRequest
from agents.models import PromptVersion, Step
from boxoffice.common.batch import Batch
from boxoffice.common.types import JsonObject
from tools.spec import ToolSpec

# Versions that this process has seen committed; far more than are ever in use at once.
MAX_KNOWN = 10_000
_known: set[tuple[UUID, str]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What stays the same from call to call. ``digest`` covers the tools by their versions."""

    model: str
    system: list[JsonObject]
    tools: tuple[ToolSpec, ...]

    @property
    def digest(self) -> str:
        """The version's name."""
        offered = [[spec.name, spec.version] for spec in self.tools]
        text = json.dumps([self.model, self.system, offered], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a step keeps of its request. ``as_of``: when the runs before this one were read."""

    prompt: Prompt
    digest: str
    rest: list[JsonObject]
    history: str
    max_tokens: int
    as_of: datetime

    def since(self, before: Mapping[str, Any]) -> JsonObject:
        """For the step: what is not as the step before has it. Most of it seldom changes."""
        return {k: v for k, v in self.as_json().items() if k not in before or before[k] != v}

    def as_json(self) -> JsonObject:
        """All of it."""
        return {
            "prompt": self.digest,
            "rest": self.rest,
            "history": self.history,
            "max_tokens": self.max_tokens,
            "as_of": self.as_of.isoformat(),
        }


def request_build(
    *,
    model: str,
    system: list[JsonObject],
    tools: Sequence[ToolSpec],
    history: History,
    max_tokens: int,
    as_of: datetime,
) -> tuple[ModelRequest, Sent]:
    """The request, and what its step is to keep of it."""
    stable, rest = split_system(system)
    prompt = Prompt(model=model, system=stable, tools=tuple(tools))
    request = ModelRequest(
        model=model,
        system=system,
        messages=history.messages if tools else flattened(history.messages),
        tools=[spec.as_model_tool() for spec in tools],
        max_tokens=max_tokens,
    )
    sent = Sent(
        prompt=prompt,
        digest=prompt.digest,
        rest=rest,
        history=history.digest,
        max_tokens=max_tokens,
        as_of=as_of,
    )
    return request, sent


def sent_whole(steps: Iterable[Step]) -> None:
    """Fill in, on the steps of one run in their order, what each keeps as the one before it.

    Not to be saved.
    """
    whole: JsonObject = {}
    for step in steps:
        if step.sent is not None:
            whole = step.sent = {**whole, **step.sent}


def split_system(system: list[JsonObject]) -> tuple[list[JsonObject], list[JsonObject]]:
    """The blocks up to the last that is cached, and those after it."""
    cached = [index for index, block in enumerate(system) if "cache_control" in block]
    end = cached[-1] + 1 if cached else 0
    return system[:end], system[end:]


def prompt_add(batch: Batch, *, tenant_id: UUID, sent: Sent) -> None:
    """Add the writing of the prompt version to a batch, unless it is known to be there."""
    key = (tenant_id, sent.digest)
    if key in _known:
        return
    prompt = sent.prompt
    row = PromptVersion(
        tenant_id=tenant_id,
        digest=sent.digest,
        model=prompt.model,
        system=prompt.system,
        tools=[
            {"name": spec.name, "version": spec.version, "offer": spec.as_model_tool()}
            for spec in prompt.tools
        ],
    )
    batch.insert(row, unless_there=True)
    transaction.on_commit(partial(_remember, key))


def _remember(key: tuple[UUID, str]) -> None:
    if len(_known) >= MAX_KNOWN:
        _known.clear()
    _known.add(key)
