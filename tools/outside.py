"""Text from outside: what of a result others wrote, be it a stranger, an organiser or a website.

An output model says so field by field (``OutsideText``); of another party's tool all is from
outside. Whoever reads such text is marked (``outside_mark_register``), in the transaction that
stores the result, and the fields are kept with the call, so that the label follows the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

from pydantic import BaseModel

from boxoffice.common.batch import Batch
from boxoffice.common.types import JsonObject

if TYPE_CHECKING:
    from tools.models import ToolCall

EACH = "*"
ALL = [EACH]

type Path = tuple[str, ...]
type Mark = Callable[[Batch, ToolCall], None]

_marks: list[Mark] = []


class Outside:
    """In ``Annotated``: the value of this field, and all in it, was not written by our code."""


OutsideText = Annotated[str, Outside()]


def outside_paths(model: type[BaseModel]) -> tuple[Path, ...]:
    """The fields of an output model that are from outside; ``EACH`` stands for any element."""
    return tuple(sorted(set(_of_model(model, ()))))


def _of_model(model: type[BaseModel], above: tuple[type, ...]) -> Iterator[Path]:
    if model in above:
        return  # a model within itself has the same fields there
    for name, hint in get_type_hints(model, include_extras=True).items():
        if name in model.model_fields:
            yield from ((name, *rest) for rest in _of_hint(hint, (*above, model)))


def _of_hint(hint: Any, above: tuple[type, ...]) -> Iterator[Path]:
    if any(isinstance(part, Outside) for part in getattr(hint, "__metadata__", ())):
        yield ()
        return
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield from _of_model(hint, above)
    is_many = getattr(hint, "__origin__", None) in (list, tuple, set, frozenset, dict)
    for part in get_args(hint):
        found = _of_hint(part, above)
        yield from ((EACH, *rest) for rest in found) if is_many else found


def outside_fields(paths: tuple[Path, ...], result: JsonObject) -> list[str] | None:
    """Those of the fields that have a value in a result, by name (``events.title``), if any."""
    found = [
        ".".join(part for part in path if part != EACH) for path in paths if _has(result, path)
    ]
    return found or None


def _has(value: Any, path: Path) -> bool:
    if not path:
        return bool(value)
    name, *rest = path
    if name == EACH:
        inner = value.values() if isinstance(value, dict) else value or ()
        return any(_has(each, tuple(rest)) for each in inner)
    return isinstance(value, dict) and _has(value.get(name), tuple(rest))


def outside_mark_register(mark: Mark) -> None:
    """Let ``mark(batch, call)`` add to a batch what marks the reader of a call's result."""
    if mark not in _marks:
        _marks.append(mark)


def outside_mark_add(batch: Batch, call: ToolCall) -> None:
    """Add the marks to the batch in which a result from outside is stored.

    A call that was judged as one of a marked reader has nothing to add.
    """
    if (call.seen or {}).get("is_tainted"):
        return
    for mark in _marks:
        mark(batch, call)
