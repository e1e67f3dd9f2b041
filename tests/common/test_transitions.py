"""Status machines: what they say, and what one guarded UPDATE does."""

import pytest

from agents.models import RUN_MACHINE, Run, RunState
from boxoffice.common.transitions import IllegalMove, machine, transition
from tests.support.cast import Cast, arena

__all__ = ["arena"]


def test_a_successor_needs_an_entry_of_its_own() -> None:
    with pytest.raises(IllegalMove):
        machine("state", {"a": {"b"}})


def test_final_states_have_no_successor() -> None:
    assert machine("state", {"a": {"b"}, "b": set()}).terminal == {"b"}


def test_a_move_that_does_not_exist_is_a_mistake_not_a_race(arena: Cast) -> None:
    with arena.scope(), pytest.raises(IllegalMove):
        transition(Run.objects.all(), RUN_MACHINE, RunState.QUEUED, only_from=RunState.FAILED)


def test_only_the_first_of_two_moves_a_row(arena: Cast) -> None:
    run = arena.post("ana", "oi")
    with arena.scope():
        rows = Run.objects.filter(pk=run.pk)
        assert transition(rows, RUN_MACHINE, RunState.CANCELLED) == 1
        assert transition(rows, RUN_MACHINE, RunState.CANCELLED) == 0


def test_the_database_refuses_a_move_that_the_machine_does_not_have(arena: Cast) -> None:
    run = arena.post("ana", "oi")
    with arena.scope(), pytest.raises(Exception, match="cannot go from queued to succeeded"):
        Run.objects.filter(pk=run.pk).update(**{"state": RunState.SUCCEEDED})
