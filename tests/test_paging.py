"""Whole pages: listed, read, rewritten, moved and removed, searchable at once, taken back as one."""

from __future__ import annotations

import asyncio

import pytest

from memories import OpenMemory, paths
from vademecum import AsyncMemory
from vademecum.errors import ConflictError, MissingFileError, PathError, UsageError

PAGES = {
    "MEMORY.md": "# Memory\n",
    "a/one.md": "Nadler one\n",
    "a/b/two.md": "Nadler two\n",
    "users/bob/x.md": "Nadler\n",
}


def test_a_page_is_rewritten_in_its_own_style_and_found_at_once(open_memory: OpenMemory) -> None:
    memory = open_memory({"page.md": "\ufeffone\r\ntwo\r\n"}, origin="agent")
    assert memory.read("page.md") == "one\ntwo\n"
    memory.rewrite("page.md", lambda text: f"{text}Nadler\n")
    assert (memory.root / "page.md").read_bytes() == "\ufeffone\r\ntwo\r\nNadler\r\n".encode()
    assert paths(memory.search("Nadler").hits) == ["page.md"]
    given = []
    memory.rewrite("new/page.md", lambda text: given.append(text) or "fresh\n")  # type: ignore[func-returns-value]
    assert given == [None]
    assert paths(memory.search("fresh").hits) == ["new/page.md"]
    memory.undo()
    assert not (memory.root / "new/page.md").exists()


def test_what_a_change_raises_leaves_the_page_as_it_is(open_memory: OpenMemory) -> None:
    memory = open_memory(PAGES)
    with pytest.raises(ZeroDivisionError):
        memory.rewrite("a/one.md", lambda _: str(1 / 0))
    with pytest.raises(UsageError, match="NUL"):
        memory.rewrite("a/one.md", lambda _: "\0")
    with pytest.raises(MissingFileError):
        memory.read("none.md")
    assert memory.read("a/one.md") == "Nadler one\n"
    assert memory.log() == ()


def test_pages_are_moved_and_removed_all_or_none_and_taken_back_as_one(open_memory: OpenMemory) -> None:
    memory = open_memory(PAGES)
    for moves, error in (
        ({"a/one.md": "c/one.md", "a/b/two.md": "MEMORY.md"}, ConflictError),
        ({"a/one.md": "c/one.md", "none.md": "c/none.md"}, MissingFileError),
        ({"a/one.md": "../one.md"}, PathError),
        ({"users/bob/x.md": "x.md"}, PathError),
    ):
        with pytest.raises(error):
            memory.move(moves)
    with pytest.raises(MissingFileError):
        memory.remove(["a/one.md", "none.md"])
    with pytest.raises(MissingFileError):
        memory.remove([])
    assert memory.log() == ()
    assert memory.move({}) is None

    number = memory.move({"a/one.md": "c/one.md", "a/b/two.md": "c/two.md"})
    assert sorted(paths(memory.search("Nadler").hits)) == ["c/one.md", "c/two.md"]
    memory.remove(["c/one.md", "c/two.md"])
    assert not memory.search("Nadler").hits
    memory.undo()
    memory.undo(number)
    assert sorted(paths(memory.search("Nadler").hits)) == ["a/b/two.md", "a/one.md"]


def test_a_listing_is_the_viewers_own(open_memory: OpenMemory) -> None:
    assert [file.path for file in open_memory(PAGES).files()] == ["MEMORY.md", "a/b/two.md", "a/one.md"]
    assert [file.path for file in open_memory(PAGES).files("/a/b/")] == ["a/b/two.md"]
    assert "users/bob/x.md" in [file.path for file in open_memory(PAGES, user="bob").files()]
    assert open_memory(PAGES).files("..") == ()


def test_the_same_can_be_awaited(open_memory: OpenMemory) -> None:
    async def work() -> list[str]:
        memory = AsyncMemory(open_memory(PAGES))
        await memory.rewrite("x.md", lambda _: "x\n")
        await memory.move({"x.md": "y.md"})
        text = await memory.read("y.md")
        await memory.remove(["y.md"])
        return [text, *(file.path for file in await memory.files("a/b"))]

    assert asyncio.run(work()) == ["x\n", "a/b/two.md"]
