"""Calls that nobody has made, made from the tools' schemas: a new rule is tried on them."""

from collections.abc import Iterator
from typing import Any

from boxoffice.common.types import JsonObject

_MAX_DEPTH = 6
_TEXTS = {
    "uuid": "019ae000-0000-7000-8000-000000000003",
    "date": "2026-12-05",
    "date-time": "2026-12-05T21:00:00-03:00",
    "email": "ana@example.com",
}


def arguments_of(schema: JsonObject) -> Iterator[JsonObject]:
    """Arguments that fit a schema: all fields and only the needed ones, small and large values."""
    for is_whole in (True, False):
        for is_large in (False, True):
            made = _value(schema, schema, is_whole, is_large, 0)
            if isinstance(made, dict):
                yield made


def fields_of(schema: JsonObject) -> frozenset[str] | None:
    """The names of the arguments; ``None`` when the schema takes any."""
    if "properties" not in schema and schema.get("additionalProperties", True) is not False:
        return None
    return frozenset(schema.get("properties", {}))


def _value(node: Any, root: JsonObject, is_whole: bool, is_large: bool, depth: int) -> Any:
    node = _resolved(node, root)
    if "const" in node:
        return node["const"]
    if node.get("enum"):
        return node["enum"][-1 if is_large else 0]
    kind = node.get("type")
    if kind == "object" or "properties" in node:
        return _object(node, root, is_whole, is_large, depth)
    if kind == "array":
        return _array(node, root, is_whole, is_large, depth)
    if kind in {"integer", "number"}:
        return _number(node, is_large, int if kind == "integer" else float)
    if kind == "boolean":
        return is_large
    if kind == "null":
        return None
    return _text(node, is_large)


def _resolved(node: Any, root: JsonObject) -> JsonObject:
    for _ in range(_MAX_DEPTH):
        if not isinstance(node, dict):
            return {}
        if "$ref" in node:
            node = root.get("$defs", {}).get(str(node["$ref"]).rsplit("/", 1)[-1], {})
        elif "anyOf" in node or "oneOf" in node:
            options = node.get("anyOf") or node["oneOf"]
            node = next((one for one in options if one.get("type") != "null"), {})
        elif len(node.get("allOf", [])) == 1:
            node = node["allOf"][0]
        else:
            return node
    return {}


def _object(
    node: JsonObject, root: JsonObject, is_whole: bool, is_large: bool, depth: int
) -> JsonObject:
    needed = node.get("required", [])
    return {
        name: _value(child, root, is_whole, is_large, depth + 1)
        for name, child in node.get("properties", {}).items()
        if (is_whole or name in needed) and depth < _MAX_DEPTH
    }


def _array(
    node: JsonObject, root: JsonObject, is_whole: bool, is_large: bool, depth: int
) -> list[Any]:
    least = int(node.get("minItems", 0))
    count = min(int(node.get("maxItems", 3)), 10) if is_large else least
    if depth >= _MAX_DEPTH:
        return []
    return [_value(node.get("items", {}), root, is_whole, is_large, depth + 1)] * count


def _number(node: JsonObject, is_large: bool, kind: type[int] | type[float]) -> float:
    names = ("maximum", "exclusiveMaximum") if is_large else ("minimum", "exclusiveMinimum")
    known = (node[name] for name in names if isinstance(node.get(name), int | float))
    return kind(next(known, 1_000_000 if is_large else 0))


def _text(node: JsonObject, is_large: bool) -> str:
    known = _TEXTS.get(node.get("format", ""))
    if known is not None:
        return known
    least = int(node.get("minLength", 0))
    return "a" * (max(least, min(int(node.get("maxLength", 40)), 40)) if is_large else least)
