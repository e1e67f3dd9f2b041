"""What goes to a model and what comes back, without the SDK that carries it."""

from dataclasses import dataclass
from typing import Any

from boxoffice.common.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call of a model. ``max_tokens`` bounds the answer."""

    model: str
    system: list[JsonObject]
    messages: list[JsonObject]
    tools: list[JsonObject]
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call; ``input_tokens`` are the uncached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_input(self) -> int:
        """All that was read, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    def as_json(self) -> JsonObject:
        """For the step that keeps it."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedCall:
    """A tool call as the model wrote it; ``arguments`` is ``None`` if its JSON is broken."""

    call_id: str
    tool: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """What one call gave: content blocks ready for the next request, the calls, the usage."""

    blocks: list[JsonObject]
    calls: list[ProposedCall]
    stop_reason: str
    usage: Usage
    request_id: str

    @property
    def text(self) -> str:
        """The text of all blocks."""
        return "".join(block["text"] for block in self.blocks if block["type"] == "text")
