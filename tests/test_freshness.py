"""No answer from what is no longer there, and nothing forgotten because it could not be looked at."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memories import PATIENT, OpenMemory, paths, rows, write
from store_support import read_only, small_disk
from vademecum import Memory
from vademecum.errors import StoreError
from vademecum.memory import facade
from vademecum.store.scan import scan


def delete_before_the_index_answers(monkeypatch: pytest.MonkeyPatch, *pages: Path) -> None:
    """After the look at the folder, one page a time."""
    left, original = list(pages), facade.search

    def search(*arguments: object) -> object:
        if left:
            left.pop(0).unlink()
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(facade, "search", search)


PAGES = {f"{name}.md": f"the zebra {name}" for name in "abc"}


def test_a_page_that_vanishes_during_a_search_is_no_hit(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(PAGES)
    delete_before_the_index_answers(monkeypatch, memory.root / "a.md")
    result = memory.search("zebra")
    assert (set(paths(result)), result.fresh, result.notices) == ({"b.md", "c.md"}, True, ())


def test_pages_that_go_on_vanishing_are_named_and_no_hits(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(PAGES)
    delete_before_the_index_answers(monkeypatch, memory.root / "a.md", memory.root / "b.md")
    result = memory.search("zebra")
    assert (set(paths(result)), result.fresh) == ({"c.md"}, False)
    assert result.notices == ("b.md: is no longer there",)


def test_a_search_without_time_gives_no_page_that_is_gone(open_memory: OpenMemory) -> None:
    memory = open_memory(PAGES)
    memory.sync()
    (memory.root / "a.md").unlink()
    result = memory.search("zebra", wait_ms=0)
    assert (set(paths(result)), result.fresh) == ({"b.md", "c.md"}, False)
    assert "a.md: is no longer there" in result.notices


@contextmanager
def bound(source: Path, place: Path) -> Iterator[None]:
    with small_disk(place, "1M"):  # skips where nothing can be mounted
        pass
    subprocess.run(["mount", "--bind", source, place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_a_root_that_is_unmounted_and_mounted_again_is_neither_empty_nor_forgotten(tmp_path: Path) -> None:
    disk, root = tmp_path / "disk", tmp_path / "root"
    root.mkdir()
    write(disk, {"a.md": "the zebra"})
    with bound(disk, root):
        memory = Memory.open(root, settings=PATIENT)
        assert paths(memory.search("zebra")) == ["a.md"]
    for wait_ms in (-1, 300):
        result = memory.search("zebra", wait_ms=wait_ms)
        assert (paths(result), result.fresh) == ([], False)
        assert "as if it were not mounted" in str(result.disabled)
    assert memory.search("zebra", wait_ms=0).disabled
    assert any("as if it were not mounted" in notice for notice in memory.status().notices)
    for attempt in (memory.sync, lambda: memory.remember("lost"), lambda: memory.edit("a.md", "zebra", "lost")):
        with pytest.raises(StoreError, match="as if it were not mounted"):
            attempt()
    assert list(root.iterdir()) == []
    with bound(disk, root):
        assert paths(memory.search("zebra")) == ["a.md"]
        memory.remember("a giraffe")
        assert paths(memory.search("giraffe")) == ["MEMORY.md"]
        memory.close()
    assert (disk / "MEMORY.md").exists()


def test_an_empty_place_does_not_empty_the_index_in_the_users_cache(tmp_path: Path) -> None:
    disk, root = tmp_path / "disk", tmp_path / "root"
    root.mkdir()
    write(disk, {"a.md": "the zebra"})
    with bound(disk, root), read_only(root), Memory.open(root, settings=PATIENT) as memory:
        assert paths(memory.search("zebra")) == ["a.md"]
        state = memory.status().state
    with read_only(root), Memory.open(root, settings=PATIENT) as memory:
        assert memory.status().state == state
        assert "as if it were not mounted" in str(memory.search("zebra").disabled)
        assert memory.status().index.sources == 1
    with bound(disk, root), read_only(root), Memory.open(root, settings=PATIENT) as memory:
        assert paths(memory.search("zebra", wait_ms=0)) == ["a.md"]


def test_a_root_that_is_away_is_not_opened_anew_elsewhere(open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory({"a.md": "the zebra"})
    memory.search("zebra")
    memory.root.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be read"):
            memory.sync()
        assert memory.search("zebra").disabled
    (tmp_path / "away").rename(tmp_path / "notes")
    assert paths(memory.search("zebra")) == ["a.md"]
    assert memory.status().state == str(tmp_path / "notes/.vademecum")


def test_a_folder_that_took_the_place_of_the_root_is_read_as_it_is(open_memory: OpenMemory, tmp_path: Path) -> None:
    memory = open_memory({"a.md": "the zebra"})
    memory.search("zebra")
    memory.root.rename(tmp_path / "away")
    write(tmp_path / "notes", {"b.md": "another zebra"})
    assert paths(memory.search("zebra")) == ["b.md"]
    assert [row[0] for row in rows(memory)] == ["b.md"]


def test_all_pages_and_the_index_may_be_deleted_while_a_memory_is_open(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "the zebra"})
    memory.search("zebra")
    (memory.root / "a.md").unlink()
    result = memory.search("zebra")
    assert (paths(result), result.fresh, result.disabled) == ([], True, None)
    shutil.rmtree(memory.root / ".vademecum")
    memory.remember("a giraffe")
    assert paths(memory.search("giraffe")) == ["MEMORY.md"]


def test_a_folder_with_nothing_in_it_is_told_from_a_memory_without_pages(open_memory: OpenMemory) -> None:
    memory = open_memory()
    (memory.root / "MEMORY.md").unlink()
    shutil.rmtree(memory.root / "memory")
    assert scan(memory._core.layout).files == ()
    shutil.rmtree(memory.root / ".vademecum")
    with pytest.raises(StoreError, match="nothing at all"):
        scan(memory._core.layout)
