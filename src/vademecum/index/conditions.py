"""Conditions of a filter as SQL over ``chunks AS c``. Values are always parameters."""

from __future__ import annotations

import sqlite3
import unicodedata

from vademecum.errors import UsageError
from vademecum.types import Condition, Where

_COMPARE = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SCALARS = {"scope": "c.scope", "kind": "c.kind", "date": "c.date"}
_PATH = "c.file_id IN (SELECT id FROM files WHERE {test})"
_LISTS = {
    "heading": "EXISTS (SELECT 1 FROM json_each(c.heading) WHERE folded(json_each.value) = folded(?))",
    "tag": "c.file_id IN (SELECT f.id FROM files f, json_each(f.tags) t WHERE t.value = ?)",
}


def prepare(connection: sqlite3.Connection) -> None:
    """Teach a connection what conditions need; to be done before any of them is used."""
    connection.create_function("folded", 1, folded, deterministic=True)


def folded(title: str) -> str:
    """A title as it is compared: in any letter case and either Unicode normalisation."""
    return unicodedata.normalize("NFC", title).casefold()


def to_sql(where: Where) -> tuple[str, list[str]]:
    """``where`` as one SQL expression with its parameters; "1" for an empty filter."""
    parts: list[str] = []
    parameters: list[str] = []
    for condition in where:
        sql, values = _one(condition)
        parts.append(sql)
        parameters += values
    return " AND ".join(parts) or "1", parameters


def _one(condition: Condition) -> tuple[str, list[str]]:
    field, op, value = condition.field, condition.op, condition.value
    if field in _LISTS:
        if op != "has" or not isinstance(value, str):
            raise UsageError(f"filter on {field}: only `has` with one value is possible, not {op!r}")
        return _LISTS[field], [value]
    column = "path" if field == "path" else _SCALARS.get(field)
    if column is None:
        raise UsageError(f"filter on {field!r}: no such field")
    test, values = _test(column, op, value)
    return (_PATH.format(test=test) if field == "path" else test), values


def _test(column: str, op: str, value: str | tuple[str, ...]) -> tuple[str, list[str]]:
    if op == "in":
        if isinstance(value, str):
            raise UsageError("filter `in`: expected several values")
        return f"{column} IN ({', '.join('?' * len(value))})", list(value)
    if op == "glob":
        # SQLite negates a class with ^, the shell with !.
        globs = [glob.replace("[!", "[^") for glob in ((value,) if isinstance(value, str) else value)]
        return f"({' OR '.join([f'{column} GLOB ?'] * len(globs)) or '0'})", globs
    if not isinstance(value, str):
        raise UsageError(f"filter {op!r}: expected one value, not {len(value)}")
    if op in _COMPARE:
        return f"{column} {_COMPARE[op]} ?", [value]
    if op == "prefix":
        return f"substr({column}, 1, length(?)) = ?", [value, value]
    raise UsageError(f"filter {op!r}: no such comparison")
