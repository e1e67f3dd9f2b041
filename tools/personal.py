"""Which fields of a tool's models hold personal data."""

from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import BaseModel


class Personal:
    """In ``Annotated``: what the field holds says something about a person."""


def personal_names(model: type[BaseModel]) -> frozenset[str]:
    """The fields of a model, at any depth, that hold personal data."""
    return frozenset(_names(model, ()))


def _names(model: type[BaseModel], above: tuple[type, ...]) -> Iterator[str]:
    if model in above:
        return
    for name, hint in get_type_hints(model, include_extras=True).items():
        if _is_personal(hint):
            yield name
        for part in _parts(hint):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _names(part, (*above, model))


def _is_personal(hint: Any) -> bool:
    marks = getattr(hint, "__metadata__", ())
    return any(isinstance(mark, Personal) for mark in marks) or any(
        _is_personal(part) for part in get_args(hint) if hasattr(part, "__metadata__")
    )


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


PersonalText = Annotated[str, Personal()]
