"""LangGraph's store over Markdown: an item is a page, and what its page says is the item.

The item ``key`` of the namespace ``("users", "ann")`` is the page ``store/users/ann/key.md``: its times in the front
matter, its value as a block of JSON. A page that a person writes or mends by hand is an item like any other. Where a
name holds what no file name should, those characters are written as ``%`` and hexadecimal digits, as in addresses.
"""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from vademecum.errors import IndexUnavailableError, MissingFileError, UnreadableFileError, UsageError
from vademecum.memory import Memory
from vademecum.tools.adapters import missing

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        PutOp,
        SearchItem,
        SearchOp,
    )
except ImportError as error:
    raise missing("langgraph", "langgraph") from error

_ENDING = ".md"
_MOST_FOUND = 1_000
_page_of = re.compile(
    r"(?:---\n(?P<head>.*?)^---\n)?.*?^(?P<fence>`{3,}|~{3,})json\n(?P<value>.*?)^(?P=fence)[ \t]*$",
    re.DOTALL | re.MULTILINE,
).match
_field = re.compile(r"^(created|updated|indexed): *(\S+) *$", re.MULTILINE).findall


class MarkdownStore(BaseStore):
    """A store for ``compile(store=...)``. Searches with a query are the memory's: hybrid, and with its embedder.

    ``folder`` is where the pages are, relative to the root; ``store`` by default, which everybody may read who opens
    this memory. For one user's own, give a private folder, such as ``memory/users/ann/store``. Every item put or
    deleted is a change that `Memory.undo` takes back. Values are JSON objects. What is put with ``index=False`` is not
    found by a query; other choices of fields make no difference, since the whole page is searched. There is no TTL.

    Raises UsageError for values that JSON cannot say, UnreadableFileError for a page that is no item, and StoreError
    kinds.
    """

    def __init__(self, memory: Memory, folder: str = "store") -> None:
        self._memory = memory
        self._home = f"{folder.strip('/')}/"

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Carry out operations one after another, in their order."""
        return [self._carry_out(op) for op in ops]

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """See `batch`; the work is done in another thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _carry_out(self, op: Any) -> Any:
        match op:
            case GetOp():
                return self._get(self._path(op.namespace, op.key))
            case PutOp():
                return self._put(op)
            case SearchOp():
                found = self._found(op) if op.query else self._listed(op)
                kept = [item for item in found if _fits(item.value, op.filter or {})]
                return kept[op.offset : op.offset + op.limit]
            case ListNamespacesOp():
                return self._namespaces(op)
            case _:
                raise UsageError(f"{type(op).__name__}: is no operation of a store")

    # -- items --------------------------------------------------------------------------------------------------

    def _get(self, path: str) -> Item | None:
        try:
            value, times, _ = _parsed(path, self._memory.read(path))
        except MissingFileError:
            return None
        namespace, key = self._name(path)
        return Item(value=value, key=key, namespace=namespace, **times)

    def _put(self, op: PutOp) -> None:
        path = self._path(op.namespace, op.key)
        if op.value is None:
            with suppress(MissingFileError):
                self._memory.remove([path])
            return
        value = _encoded(op.value)
        now = datetime.now(UTC).isoformat(timespec="microseconds")

        def written(old: str | None) -> str:
            created = now if old is None else _parsed(path, old)[1]["created_at"].isoformat(timespec="microseconds")
            indexed = "indexed: false\n" if op.index is False else ""
            return f"---\ncreated: {created}\nupdated: {now}\n{indexed}---\n\n```json\n{value}\n```\n"

        self._memory.rewrite(path, written)

    def _listed(self, op: SearchOp) -> Iterator[SearchItem]:
        for page in self._memory.files(self._folder(op.namespace_prefix)):
            item = self._get(page.path)
            if item is not None:
                yield _searched(item, None)

    def _found(self, op: SearchOp) -> Iterator[SearchItem]:
        folder = self._folder(op.namespace_prefix)
        result = self._memory.search(str(op.query), path=f"{folder}*", max_results=_MOST_FOUND, mmr=False)
        if result.disabled is not None:
            raise IndexUnavailableError(result.disabled)
        seen = set()
        for hit in result:
            if hit.path in seen:
                continue
            seen.add(hit.path)
            try:
                _, _, indexed = _parsed(hit.path, self._memory.read(hit.path))
            except MissingFileError:
                continue
            item = self._get(hit.path) if indexed else None
            if item is not None:
                yield _searched(item, hit.score)

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = {self._name(page.path)[0] for page in self._memory.files(self._home)}
        fitting = [name for name in found if all(_matches(name, one) for one in op.match_conditions or ())]
        if op.max_depth is not None:
            fitting = [name[: op.max_depth] for name in fitting]
        return sorted(set(fitting))[op.offset : op.offset + op.limit]

    # -- names --------------------------------------------------------------------------------------------------

    def _path(self, namespace: tuple[str, ...], key: str) -> str:
        return f"{self._folder(namespace)}{_as_file(key)}{_ENDING}"

    def _folder(self, namespace: tuple[str, ...]) -> str:
        return self._home + "".join(f"{_as_file(label)}/" for label in namespace)

    def _name(self, path: str) -> tuple[tuple[str, ...], str]:
        *labels, key = path[len(self._home) : -len(_ENDING)].split("/")
        return tuple(map(unquote, labels)), unquote(key)


def _as_file(name: str) -> str:
    if not name:
        raise UsageError(f"{name!r:.60}: expected a name")
    plain = unicodedata.normalize("NFC", name) == name
    return "".join(c if c in "_-" or (c.isalnum() and (plain or c.isascii())) else _escaped(c) for c in name)


def _escaped(character: str) -> str:
    found = quote(character, safe="")
    return found if found != character else f"%{ord(character):02X}"


# -- what a page says -----------------------------------------------------------------------------------------------


def _encoded(value: Mapping[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the value cannot be kept as JSON: {error}") from None


def _parsed(path: str, text: str) -> tuple[dict[str, Any], dict[str, datetime], bool]:
    """The value, its times, and whether a query finds it."""
    found = _page_of(text)
    try:
        if found is None:
            raise ValueError("there is no block of JSON")
        fields = dict(_field(found["head"] or ""))
        value = json.loads(found["value"])
        if not isinstance(value, dict):
            raise ValueError("the JSON is no object")
        created = _moment(fields.get("created", "1970-01-01"))
        times = {"created_at": created, "updated_at": _moment(fields.get("updated", created.isoformat()))}
    except ValueError as error:
        raise UnreadableFileError(f"{path}: is no item of a store: {error}; mend the page or move it away") from None
    return value, times, fields.get("indexed") != "false"


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _searched(item: Item, score: float | None) -> SearchItem:
    return SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)


# -- conditions -----------------------------------------------------------------------------------------------------


def _fits(value: Any, wanted: Mapping[str, Any]) -> bool:
    return all(_meets(value.get(name), condition) for name, condition in wanted.items())


def _meets(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    if not any(str(name).startswith("$") for name in wanted):
        return isinstance(value, Mapping) and _fits(value, wanted)
    return all(_compared(value, sign, bound) for sign, bound in wanted.items())


def _compared(value: Any, sign: str, bound: Any) -> bool:
    if sign in ("$eq", "$ne"):
        return bool(value == bound) is (sign == "$eq")
    if sign not in ("$gt", "$gte", "$lt", "$lte"):
        raise UsageError(f"filter {sign!r}: expected $eq, $ne, $gt, $gte, $lt or $lte")
    try:
        value, bound = float(value), float(bound)
    except (TypeError, ValueError):
        return False
    return bool({"$gt": value > bound, "$gte": value >= bound, "$lt": value < bound, "$lte": value <= bound}[sign])


def _matches(namespace: tuple[str, ...], condition: Any) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(label in ("*", found) for label, found in zip(path, part, strict=True))
