"""Guarded status changes: one UPDATE, whose row count says who won.

Nothing else in the product writes a status column; a test reads the source for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models

from boxoffice.common.batch import Batch


class IllegalMove(Exception):
    """A move that the machine does not have: a mistake in the code, never a race."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The states of one column and the moves between them.

    ``moves`` maps each state to the states that may follow. A state without successors is final.
    """

    field: str
    moves: Mapping[str, frozenset[str]]

    @property
    def terminal(self) -> frozenset[str]:
        """The states that nothing follows."""
        return frozenset(state for state, after in self.moves.items() if not after)

    def sources(self, to: str) -> list[str]:
        """The states from which ``to`` can be reached in one move."""
        return sorted(state for state, after in self.moves.items() if to in after)


def machine(field: str, moves: Mapping[str, set[str]]) -> Machine:
    """Build a machine; every state named as a successor must be listed itself."""
    unknown = {after for afters in moves.values() for after in afters} - set(moves)
    if unknown:
        raise IllegalMove(f"{field}: states without an entry of their own: {sorted(unknown)}")
    return Machine(field=field, moves={str(k): frozenset(map(str, v)) for k, v in moves.items()})


def transition[M: models.Model](
    rows: models.QuerySet[M],
    machine: Machine,
    to: str,
    *,
    only_from: str | None = None,
    **changes: Any,
) -> int:
    """Move the rows that may move to ``to``, and set ``changes`` with it. Returns how many moved.

    ``only_from`` narrows the move to one source state. A row that somebody else moved first is
    not touched, so ``0`` means that the race was lost.
    """
    sources = machine.sources(to)
    if only_from is not None:
        sources = [state for state in sources if state == only_from]
    if not sources:
        raise IllegalMove(f"{machine.field}: no move leads from {only_from or 'anywhere'} to {to}")
    return rows.filter(**{f"{machine.field}__in": sources}).update(**{machine.field: to}, **changes)


def transition_add(
    batch: Batch,
    model: type[models.Model],
    machine: Machine,
    to: str,
    *,
    where: Mapping[str, Any],
    changes: Mapping[str, Any],
    returning: Sequence[str] = (),
) -> None:
    """Add a guarded move to a batch; the count of its answer says how many rows moved."""
    batch.update(
        model,
        changes={machine.field: to, **changes},
        where={**where, machine.field: machine.sources(to)},
        returning=returning,
    )
