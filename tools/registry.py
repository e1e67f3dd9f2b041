"""Which tools exist. Modules of ``tools.catalogue`` register theirs when the app starts."""

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Any, get_type_hints

from tools.spec import (
    Check,
    Gate,
    Inverse,
    Previewer,
    Rate,
    Remote,
    Risk,
    Standing,
    ToolContext,
    ToolInput,
    ToolOutput,
    ToolSpec,
)

_tools: dict[str, ToolSpec] = {}


class BadTool(TypeError):
    """A tool's declaration is incomplete: a mistake in the code."""


def register(spec: ToolSpec) -> ToolSpec:
    """Add a tool; a name is taken once."""
    if spec.name in _tools:
        raise BadTool(f"{spec.name}: registered twice.")
    if spec.description.count(".") < 3:
        raise BadTool(f"{spec.name}: the description needs three sentences or more.")
    if spec.gate is not Gate.NONE and spec.preview is None:
        raise BadTool(f"{spec.name}: a gated tool shows what will change (preview).")
    if spec.remote is not None and spec.is_read:
        raise BadTool(f"{spec.name}: a read has no remote effect.")
    if (spec.inverse is None) != (spec.stands is None):
        raise BadTool(f"{spec.name}: what has an inverse says whether its effect still stands.")
    if spec.inverse is not None and spec.risk is not Risk.WRITE_REVERSIBLE:
        raise BadTool(f"{spec.name}: only a reversible write has an inverse.")
    _tools[spec.name] = spec
    return spec


def tool(
    name: str,
    *,
    risk: Risk,
    gate: Gate = Gate.NONE,
    preview: Previewer | None = None,
    inverse: Inverse | None = None,
    stands: Standing | None = None,
    on_gated: Callable[[ToolContext, Any, datetime], None] | None = None,
    on_refused: Callable[[ToolContext, Any], None] | None = None,
    remote: Remote | None = None,
    examples: tuple[dict[str, Any], ...] = (),
    timeout_s: float = 10.0,
    rate: Rate | None = None,
    check: Check | None = None,
    fallback: str = "",
    is_core: bool = False,
    is_outside: bool = False,
    owner: str = "ticketing",
    successor: str = "",
) -> Callable[[Callable[[ToolContext, Any], Any]], Callable[[ToolContext, Any], Any]]:
    """Register a typed, documented function ``(context, arguments) -> result`` as a tool.

    The docstring is what the model reads; the annotations give the schemas.
    """

    def decorate(
        function: Callable[[ToolContext, Any], Any],
    ) -> Callable[[ToolContext, Any], Any]:
        hints = get_type_hints(function)
        result = hints.pop("return", None)
        models = [hint for hint in hints.values() if _is_a(hint, ToolInput)]
        if len(models) != 1 or not _is_a(result, ToolOutput):
            raise BadTool(f"{name}: annotate the arguments (ToolInput) and result (ToolOutput).")
        register(
            ToolSpec(
                name=name,
                description=inspect.cleandoc(function.__doc__ or ""),
                input_model=models[0],
                output_model=result,
                run=function,
                risk=risk,
                gate=gate,
                preview=preview,
                inverse=inverse,
                stands=stands,
                on_gated=on_gated,
                on_refused=on_refused,
                remote=remote,
                examples=examples,
                timeout_s=timeout_s,
                rate=rate,
                check=check,
                fallback=fallback,
                is_core=is_core,
                is_outside=is_outside,
                owner=owner,
                successor=successor,
            )
        )
        return function

    return decorate


def _is_a(hint: Any, base: type) -> bool:
    return isinstance(hint, type) and issubclass(hint, base)


def find(name: str) -> ToolSpec | None:
    """The tool of that exact name, or ``None``."""
    return _tools.get(name)


def all_tools() -> list[ToolSpec]:
    """Every tool, by name: a stable order keeps the model's cached prefix valid."""
    return [_tools[name] for name in sorted(_tools)]


def fallback_of(spec: ToolSpec) -> ToolSpec | None:
    """The tool that stands in for one that is out of order, if there is one."""
    return _tools.get(spec.fallback) if spec.fallback else None


def verify() -> None:
    """Raise ``BadTool`` for a fallback that cannot stand in, or a successor that cannot follow.

    Once, when all tools are known.
    """
    for spec in _tools.values():
        _verify_successor(spec)
        stand_in = fallback_of(spec)
        if not spec.fallback:
            continue
        if stand_in is None or stand_in is spec:
            raise BadTool(f"{spec.name}: there is no other tool {spec.fallback!r} to fall back to.")
        if not (spec.is_read and stand_in.is_read) or stand_in.gate is not Gate.NONE:
            raise BadTool(f"{spec.name}: only a read can stand in, and only for a read.")
        if spec.input_model is not stand_in.input_model:
            raise BadTool(f"{spec.name}: {stand_in.name} takes other arguments.")


def _verify_successor(spec: ToolSpec) -> None:
    if not spec.successor:
        return
    successor = _tools.get(spec.successor)
    if successor is None or successor is spec or successor.successor:
        raise BadTool(f"{spec.name}: {spec.successor!r} is no other tool that is there to stay.")
