"""A tool that fails again and again is left alone for a while, by all workers at once.

One circuit for each tool of a tenant; a tier with ``dedicated_circuit`` has its own, so that what
other fans run into does not close the door on it, nor the other way round. What counts is what the
tool or the other party did not manage: time-outs, connections, 5xx, unexpected exceptions.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from boxoffice.common import limits
from boxoffice.common.limits import Sight
from boxoffice.common.valkey import Question, ValkeyAway, ask, ask_now
from tools import registry

logger = logging.getLogger(__name__)

# A probe whose worker has died is given up after the tool's own time and this.
PROBE_GRACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """A circuit as one call met it."""

    key: str
    is_probe: bool = False

    def question(self, what: str) -> Question | None:
        """What is to be told; a success is news only from a probe."""
        if what == "failure" or self.is_probe:
            return limits.tell(circuit=self.key, what=what, is_probe=self.is_probe)
        return None

    async def tell(self, what: str) -> None:
        """Tell of a ``failure``, a ``success``, or of a call that was not run after all, ``void``.

        Without Valkey nobody is told, and nobody counts.
        """
        question = self.question(what)
        if question is None:
            return
        try:
            self._heard(await ask(question))
        except ValkeyAway:
            return

    def _heard(self, has_opened: int) -> None:
        if has_opened:
            logger.warning("circuit %s is open", self.key)


async def knock(*, key: str, timeout_s: float) -> Circuit | None:
    """The circuit for one more try of a call that was let in before; ``None`` while it is open."""
    question = limits.enter(once="-", circuit=key, probe_s=timeout_s + PROBE_GRACE_SECONDS)
    try:
        entry = limits.entered(await ask(question))
    except ValkeyAway:
        is_closed = settings.WITHOUT_VALKEY["circuit"] == "closed"
        return None if is_closed else Circuit(key=key)
    return None if entry.is_open else Circuit(key=key, is_probe=entry.is_probe)


def key_of(tenant_id: UUID, tool: str, tier: str = "") -> str:
    """The circuit's name; ``tier`` is the slug of a tier that has its own."""
    return f"bo:{{{tenant_id}}}:circuit:{tool}" + (f":{tier}" if tier else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One circuit for people to see."""

    tool: str
    tier: str
    sight: Sight


def circuits_seen(*, tenant_id: UUID, tiers: Sequence[str]) -> list[Row]:
    """All circuits of a tenant, those of ``tiers`` that have their own too; from a thread.

    Raises ``ValkeyAway``.
    """
    named = [(spec.name, tier) for spec in registry.all_tools() for tier in ("", *tiers)]
    keys = [key_of(tenant_id, tool, tier) for tool, tier in named]
    sights = limits.seen(ask_now(limits.look(keys)))
    return [
        Row(tool=tool, tier=tier, sight=sight)
        for (tool, tier), sight in zip(named, sights, strict=True)
    ]
