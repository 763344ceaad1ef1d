"""Anthropic's memory tool over the Markdown of a memory: ``/memories`` is its root.

What it answers is word for word what the client's own tool for local files answers, whose strings Claude knows. What a
memory does not have: a name without ``.md`` gets it on disk (``notes.txt`` is kept as ``notes.txt.md`` and is shown as
it was named), a folder is there while there are pages in it, and its size is theirs. Every change is searchable at
once, is written on behalf of the memory's origin and can be undone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from vademecum.errors import ConflictError, MissingFileError, VademecumError, shown
from vademecum.memory import Memory
from vademecum.store.scan import FileStat
from vademecum.tools.adapters import missing

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError as error:
    raise missing("anthropic", "anthropic") from error

_HOME = "/memories"
_ENDING = ".md"
_MOST_LINES = 999_999
_DEPTH = 2
_named_otherwise = re.compile(r"\.(?!md$)[A-Za-z][A-Za-z0-9]{0,7}$", re.IGNORECASE).search


class MemoryTool(BetaAbstractMemoryTool):
    """The tool for a synchronous client: ``client.beta.messages.tool_runner(..., tools=[MemoryTool(memory)])``.

    Open the memory with origin "agent". It is not closed with this.
    """

    def __init__(self, memory: Memory, **options: Any) -> None:
        """``options`` are those of the client's abstract class, such as ``cache_control``."""
        super().__init__(**options)
        self._memory = memory

    def view(self, command: Any) -> str:
        """A folder, two levels deep, or a page, with numbers of lines."""
        path, inside = _place(command, "path")
        with _told():
            pages = self._memory.files(inside)
            if pages or not inside:
                return "\n".join(_listing(path, inside, pages))
            return _numbered(path, self._text(path, inside), getattr(command, "view_range", None))

    def create(self, command: Any) -> str:
        """A new page; one that exists is never overwritten."""
        path, inside = _place(command, "path")
        text = _text(command, "file_text")

        def new(old: str | None) -> str:
            if old is not None:
                raise ToolError(f"File {path} already exists")
            return text

        with _told():
            if not inside or self._memory.files(inside):
                raise ToolError(f"File {path} already exists")
            edited = self._memory.rewrite(_page(inside), new)
        return "\n".join([f"File created successfully at: {path}", *edited.warnings])

    def str_replace(self, command: Any) -> str:
        """Another text in the place of one that stands on the page once."""
        path, inside = _place(command, "path")
        old, new = _text(command, "old_str"), _text(command, "new_str")
        snippet: list[str] = []

        def replaced(text: str | None) -> str:
            if text is None:
                raise _lost(path)
            place = _only_place(path, text, old)
            changed = text[:place] + new + text[place + len(old) :]
            line = text.count("\n", 0, place)
            snippet[:] = _lines(changed.split("\n"), max(0, line - 2), line + 3)
            return changed

        with _told():
            self._check_file(path, inside)
            edited = self._memory.rewrite(_page(inside), replaced)
        first = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return "\n".join([first, *snippet, *edited.warnings])

    def insert(self, command: Any) -> str:
        """New lines after line ``insert_line``; 0 is in front of the first."""
        path, inside = _place(command, "path")
        number, added = getattr(command, "insert_line", None), _text(command, "insert_text")

        def extended(text: str | None) -> str:
            if text is None:
                raise _lost(path)
            lines = text.removesuffix("\n").split("\n") if text else []
            if type(number) is not int or not 0 <= number <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {number}. It should be within the range [0, {len(lines)}]."
                )
            return "\n".join([*lines[:number], added.rstrip("\n"), *lines[number:]]) + "\n"

        with _told():
            self._check_file(path, inside)
            edited = self._memory.rewrite(_page(inside), extended)
        return "\n".join([f"The file {path} has been edited.", *edited.warnings])

    def delete(self, command: Any) -> str:
        """A page, or a folder with all its pages; the journal keeps them."""
        path, inside = _place(command, "path")
        if not inside:
            raise ToolError(f"Cannot delete the {_HOME} directory itself")
        with _told(f"The path {path} does not exist"):
            below = [file.path for file in self._memory.files(inside)]
            self._memory.remove(below or [_page(inside)])
        return f"Successfully deleted {path}"

    def rename(self, command: Any) -> str:
        """Another path for a page, or for all pages of a folder."""
        old_path, old = _place(command, "old_path")
        new_path, new = _place(command, "new_path")
        if not old:
            raise ToolError(f"Cannot rename the {_HOME} directory itself")
        taken = f"The destination {new_path} already exists"
        with _told(f"The path {old_path} does not exist", taken):
            if not new or self._memory.files(new):
                raise ToolError(taken)
            below = [file.path for file in self._memory.files(old)]
            if below and f"{new}/".startswith(f"{old}/"):
                raise ToolError(f"Cannot move {old_path} into itself")
            moves = {path: new + path[len(old) :] for path in below}
            self._memory.move(moves or {_page(old): _page(new)})
        return f"Successfully renamed {old_path} to {new_path}"

    def clear_all_memory(self) -> str:
        """Delete every page that the memory's viewer may read, in one change that can be undone."""
        with _told():
            pages = [file.path for file in self._memory.files()]
            if pages:
                self._memory.remove(pages)
        return "All memory cleared"

    def _text(self, path: str, inside: str) -> str:
        try:
            return self._memory.read(_page(inside))
        except MissingFileError:
            raise _lost(path) from None

    def _check_file(self, path: str, inside: str) -> None:
        if not inside or self._memory.files(inside):
            raise ToolError(f"The path {path} is not a file.")


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for an asynchronous client; the work is done in threads."""

    def __init__(self, memory: Memory, **options: Any) -> None:
        """See `MemoryTool`."""
        super().__init__(**options)
        self._tool = MemoryTool(memory)

    async def view(self, command: Any) -> str:
        """See `MemoryTool.view`."""
        return await asyncio.to_thread(self._tool.view, command)

    async def create(self, command: Any) -> str:
        """See `MemoryTool.create`."""
        return await asyncio.to_thread(self._tool.create, command)

    async def str_replace(self, command: Any) -> str:
        """See `MemoryTool.str_replace`."""
        return await asyncio.to_thread(self._tool.str_replace, command)

    async def insert(self, command: Any) -> str:
        """See `MemoryTool.insert`."""
        return await asyncio.to_thread(self._tool.insert, command)

    async def delete(self, command: Any) -> str:
        """See `MemoryTool.delete`."""
        return await asyncio.to_thread(self._tool.delete, command)

    async def rename(self, command: Any) -> str:
        """See `MemoryTool.rename`."""
        return await asyncio.to_thread(self._tool.rename, command)

    async def clear_all_memory(self) -> str:
        """See `MemoryTool.clear_all_memory`."""
        return await asyncio.to_thread(self._tool.clear_all_memory)


# -- paths and arguments --------------------------------------------------------------------------------------------


def _text(command: Any, name: str) -> str:
    value = getattr(command, name, None)
    if not isinstance(value, str):
        raise ToolError(f"{name} = {shown(value)}: expected a text")
    return value


def _place(command: Any, name: str) -> tuple[str, str]:
    """A path as the model gave it, and relative to the root, "" for the root itself."""
    path = _text(command, name)
    if path != _HOME and not path.startswith(f"{_HOME}/"):
        raise ToolError(f"Path must start with {_HOME}, got: {path}")
    rest = path.removeprefix(_HOME)
    # Also as a server that decodes addresses would read it.
    if any(".." in re.split(r"[/\\]", form) for form in (rest, unquote(rest), unquote(unquote(rest)))):
        raise ToolError(f"Path {path} would escape {_HOME} directory")
    return path, "/".join(part for part in rest.split("/") if part not in ("", "."))


def _page(inside: str) -> str:
    return inside if inside.lower().endswith(_ENDING) else inside + _ENDING


def _lost(path: str) -> ToolError:
    return ToolError(f"The path {path} does not exist. Please provide a valid path.")


@contextmanager
def _told(absent: str | None = None, taken: str | None = None) -> Iterator[None]:
    """Tell the model of what goes wrong, in the words given for a page that is not there or already there."""
    try:
        yield
    except VademecumError as error:
        words = (isinstance(error, MissingFileError) and absent) or (isinstance(error, ConflictError) and taken)
        raise ToolError(words or str(error)) from error


# -- what is shown --------------------------------------------------------------------------------------------------


def _listing(path: str, inside: str, pages: Sequence[FileStat]) -> Iterator[str]:
    yield f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    yield f"{_size(sum(page.size for page in pages))}\t{path}"
    skipped = len(inside) + 1 if inside else 0
    below = [(page.path[skipped:].split("/"), page.size) for page in pages]
    for size, name in _entries(sorted(below), _DEPTH):
        yield f"{_size(size)}\t{path.rstrip('/')}/{name}"


def _entries(pages: list[tuple[list[str], int]], depth: int) -> Iterator[tuple[int, str]]:
    for name, group in groupby(pages, key=lambda page: page[0][0]):
        below = [(parts[1:], size) for parts, size in group]
        if below[0][0] == []:
            yield below[0][1], _as_named(name)
        else:
            yield sum(size for _, size in below), f"{name}/"
            if depth > 1:
                yield from ((size, f"{name}/{deeper}") for size, deeper in _entries(below, depth - 1))


def _as_named(name: str) -> str:
    plain = name.removesuffix(_ENDING)
    return plain if _named_otherwise(plain) else name


def _size(count: int) -> str:
    power = min(max(count.bit_length() - 1, 0) // 10, 3)
    size = count / 1024**power
    return f"{size:.{0 if size.is_integer() else 1}f}{'BKMG'[power]}"


def _numbered(path: str, text: str, wanted: Any) -> str:
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    start, end = 0, len(lines)
    if wanted:
        if len(wanted) != 2 or not all(type(number) is int for number in wanted):
            raise ToolError(f"view_range = {shown(wanted)}: expected the first line and the last, -1 for the end")
        start, end = max(1, wanted[0]) - 1, len(lines) if wanted[1] == -1 else max(0, wanted[1])
    return "\n".join([f"Here's the content of {path} with line numbers:", *_lines(lines, start, end)])


def _lines(lines: Sequence[str], start: int, end: int) -> list[str]:
    return [f"{number:>6}\t{line}" for number, line in enumerate(lines[start:end], start + 1)]


def _only_place(path: str, text: str, old: str) -> int:
    places = [match.start() for match in re.finditer(f"(?={re.escape(old)})", text)] if old else []
    if not places:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if len(places) > 1:
        numbers = ", ".join(str(text.count("\n", 0, place) + 1) for place in places)
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {numbers}. "
            "Please ensure it is unique"
        )
    return places[0]
