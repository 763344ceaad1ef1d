"""Arguments as a model gives them, checked against a tool's schema before anything else sees them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vademecum.errors import UsageError, shown
from vademecum.tools.specs import ToolSpec

#: Longer arguments than this are a mistake: no memory is so long, and a page is not written in one piece.
MOST_CHARACTERS = 1_000_000
_TYPES: Mapping[str, tuple[type, str]] = {
    "string": (str, "a text"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "true or false"),
    "array": (list, "a list"),
}


def checked(tool: ToolSpec, given: object) -> dict[str, Any]:
    """The arguments that ``tool`` takes, out of an object or its JSON; null counts as not given.

    Raises UsageError that says what the model should do instead.
    """
    arguments = _object(given)
    unknown = sorted(set(arguments) - set(tool.arguments))
    if unknown:
        raise UsageError(f"{tool.name} takes no {unknown[0]!r:.60}; it takes {', '.join(tool.arguments) or 'nothing'}")
    found = {name: value for name, value in arguments.items() if value is not None}
    for name in tool.required:
        if name not in found:
            raise UsageError(f"{tool.name} needs {name}")
    for name, value in found.items():
        found[name] = _value(f"{tool.name}: {name}", value, tool.arguments[name])
    return found


def _object(given: object) -> Mapping[str, Any]:
    if isinstance(given, (str, bytes, bytearray)):
        if len(given) > 4 * MOST_CHARACTERS:
            raise UsageError(f"the arguments have {len(given)} characters; give less at a time")
        try:
            given = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the arguments are no JSON: {error}") from None
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise UsageError(f"the arguments are {shown(given)}: expected an object")
    return given


def _value(name: str, value: object, schema: Mapping[str, Any]) -> object:
    kind, expected = _TYPES[schema["type"]]
    if kind is int and isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)  # JSON knows no whole numbers
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{name} = {shown(value)}: expected {expected}")
    if isinstance(value, str):
        return _text(name, value, schema)
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = schema.get("minimum", -(10**15)), schema.get("maximum", 10**15)
        if not low <= value <= high:
            raise UsageError(f"{name} = {shown(value)}: expected a whole number from {low} to {high}")
    if isinstance(value, list):
        low, high = schema.get("minItems", 0), schema.get("maxItems", 100)
        if not low <= len(value) <= high:
            raise UsageError(f"{name} has {len(value)} entries: expected {low} to {high}")
        return [_value(f"{name}[{place}]", item, schema["items"]) for place, item in enumerate(value)]
    return value


def _text(name: str, value: str, schema: Mapping[str, Any]) -> str:
    if len(value) > MOST_CHARACTERS:
        raise UsageError(f"{name} has {len(value)} characters; at most {MOST_CHARACTERS} are taken at a time")
    if "\0" in value:
        raise UsageError(f"{name} holds NUL, which no text has")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} = {shown(value)}: is not valid Unicode") from None
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        raise UsageError(f"{name} = {shown(value)}: expected one of {', '.join(choices)}")
    return value
