"""A search beside a watcher need not look at the folder, and never answers as if nothing had happened when it had."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest

from memories import query, write
from store_support import environment
from vademecum import Memory
from vademecum.settings import WatchSettings
from vademecum.store.places import Places
from vademecum.sync.notify import FolderEvents
from watching import Told, settings, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a search always looks")


class Looks:
    """How often somebody has looked at the folder."""

    def __init__(self) -> None:
        self.count = 0


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    counted = Looks()

    def counting(original: Callable[..., object]) -> Callable[..., object]:
        def look(*arguments: object) -> object:
            counted.count += 1
            return original(*arguments)

        return look

    for name in ("scan", "glance"):
        monkeypatch.setattr(Places, name, counting(getattr(Places, name)))
    return counted


@pytest.fixture
def memory(tmp_path: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """Watched; the watcher hears of changes and does nothing about them for a day, so that all depends on searches.

    And these ask the watcher although a look at so small a folder would cost as little.
    """
    monkeypatch.setattr("vademecum.memory.core._CHEAP_LOOK_S", -1.0)
    write(tmp_path / "parent/notes", {f"topics/{number}.md": f"the zebra{number}\n" for number in range(20)})
    lazy = settings(WatchSettings(debounce_ms=3_600_000, heartbeat_s=86_400, poll_s=86_400))
    told = Told()
    with Memory.open(tmp_path / "parent/notes", settings=lazy) as opened, opened.watch(told):
        told.started()
        until(lambda: known(opened))
        yield opened


def known(memory: Memory) -> bool:
    """Whether two searches make it so that the next needs no look."""
    memory.search("zebra")
    memory.search("zebra")
    watching = memory._core.watching
    return watching.known(watching.mark()) is not None


def found(memory: Memory, word: str) -> list[str]:
    result = memory.search(word)
    assert result.fresh
    return sorted(hit.path for hit in result)


def test_while_nothing_changes_nobody_looks(memory: Memory, looks: Looks) -> None:
    before = looks.count
    for number in range(20):
        assert found(memory, f"zebra{number}") == [f"topics/{number}.md"]
    assert looks.count == before
    assert memory.search("zebra3", wait_ms=0).fresh


def test_a_few_changed_pages_are_read_without_a_look(memory: Memory, looks: Looks) -> None:
    before = looks.count
    for number in range(6):
        write(memory.root, {"topics/3.md": f"the giraffe{number}\n", f"new{number}.md": f"the giraffe{number} too\n"})
        assert found(memory, f"giraffe{number}") == [f"new{number}.md", "topics/3.md"]
        (memory.root / f"topics/{number + 10}.md").unlink()
        assert found(memory, f"zebra{number + 10}") == []
        memory.remember(f"the okapi{number}")
        assert found(memory, f"okapi{number}") == ["MEMORY.md"]
    assert looks.count == before


def test_many_changed_pages_large_ones_and_what_is_no_page_are_looked_at(memory: Memory, looks: Looks) -> None:
    def many() -> None:
        write(memory.root, {f"topics/{number}.md": "the giraffe\n" for number in range(10, 19)})

    def large() -> None:
        write(memory.root, {"large.md": "the giraffe\n" * 20_000})

    def folder() -> None:
        (memory.root / "topics").rename(memory.root / "subjects")

    def link() -> None:
        (memory.root / "link.md").symlink_to("large.md")

    def unreadable() -> None:
        write(memory.root, {"bad.md": b"\xff"})

    for change in (many, large, link, folder, unreadable):
        before = looks.count
        change()
        assert memory.search("giraffe").fresh
        assert looks.count > before, change.__name__
        if change in (many, large, link):
            until(lambda: known(memory))
    assert any("bad.md" in notice for notice in memory.search("zebra").notices)
    assert found(memory, "zebra3") == ["subjects/3.md"]


def test_what_was_changed_just_before_a_search_is_found(memory: Memory) -> None:
    """Any change, by any call, followed at once by a search for the word that it brought or took away."""
    rng = random.Random(7)
    root = memory.root
    truth = {f"topics/{number}.md": f"zebra{number}" for number in range(20)}
    for turn in range(400):
        action = rng.choice(["write", "write", "replace", "append", "delete", "rename", "folder", "new"])
        path, word = rng.choice(sorted(truth)), f"word{turn}"
        old = truth[path]
        if action == "write":
            (root / path).write_text(f"the {word}\n")
        elif action == "replace":
            (root / ".tmp").write_text(f"the {word}\n")
            (root / ".tmp").replace(root / path)
        elif action == "append":
            with (root / path).open("a") as file:
                file.write(f"\nand the {word}\n")
        elif action == "delete" and len(truth) > 5:
            (root / path).unlink()
            del truth[path]
            assert path not in found(memory, old)
            continue
        elif action == "rename":
            to = f"{path.rpartition('/')[0]}/r{turn}.md"
            (root / path).rename(root / to)
            truth[to] = truth.pop(path)
            assert found(memory, old) == [to]
            continue
        elif action == "folder":
            folder, to = path.split("/")[0], f"f{turn}"
            (root / folder).rename(root / to)
            truth = {p.replace(f"{folder}/", f"{to}/", 1): word for p, word in truth.items()}
            path = path.replace(f"{folder}/", f"{to}/", 1)
            assert found(memory, old) == [path]
            continue
        else:
            path = f"n{turn}/deep/page.md"
            write(root, {path: f"the {word}\n"})
        truth[path] = word
        assert found(memory, word) == [path], (turn, action)
        if action in ("write", "replace"):
            assert path not in found(memory, old), (turn, action)


def test_threads_that_write_and_search_find_what_they_wrote(memory: Memory) -> None:
    def work(who: int) -> None:
        for turn in range(30):
            write(memory.root, {f"own/{who}.md": f"the word{who}x{turn}\n"})
            assert f"own/{who}.md" in found(memory, f"word{who}x{turn}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_what_another_process_has_just_written_is_found(memory: Memory) -> None:
    script = (
        "import sys\nfor line in sys.stdin:\n"
        "    open(sys.argv[1], 'w').write(f'the {line}')\n"
        "    print('written', flush=True)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, memory.root / "theirs.md"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    assert other.stdin is not None
    assert other.stdout is not None
    for turn in range(50):
        other.stdin.write(f"word{turn}\n")
        other.stdin.flush()
        assert other.stdout.readline() == "written\n"
        assert found(memory, f"word{turn}") == ["theirs.md"]
    other.communicate()


def test_a_slow_system_makes_searches_look(memory: Memory, looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    original = FolderEvents.told
    monkeypatch.setattr(FolderEvents, "told", lambda *told: gate.wait(30) and original(*told))
    write(memory.root, {"topics/3.md": "the giraffe\n"})
    before = looks.count
    assert found(memory, "giraffe") == ["topics/3.md"]
    assert looks.count > before
    gate.set()


def test_a_page_that_can_be_written_under_another_name_is_looked_at(memory: Memory, tmp_path: Path) -> None:
    write(tmp_path, {"outside.md": "the giraffe\n"})
    os.link(tmp_path / "outside.md", memory.root / "linked.md")
    assert found(memory, "giraffe") == ["linked.md"]
    for word in ("okapi", "lemur"):
        with (tmp_path / "outside.md").open("w") as file:
            file.write(f"the {word}\n")
        assert found(memory, word) == ["linked.md"]


def test_a_folder_that_takes_the_place_of_a_parent_is_noticed(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "parent").rename(tmp_path / "away")
    shutil.copytree(tmp_path / "away", tmp_path / "parent")
    write(tmp_path / "parent/notes", {"topics/3.md": "the giraffe\n"})
    assert found(memory, "giraffe") == ["topics/3.md"]


def delete_index(memory: Memory) -> None:
    for file in (memory.root / ".vademecum").glob("index.sqlite*"):
        file.unlink()


def empty_index(memory: Memory) -> None:
    """What another process may do that sees another state of the folder."""
    script = (
        "import sys, time\nfrom vademecum import Memory\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    memory.sync()\n"
        "    memory._core.open_index().delete([f'topics/{number}.md' for number in range(20)])\n"
    )
    subprocess.run([sys.executable, "-c", script, memory.root], env=environment(), check=True, timeout=60)
    assert query(memory, "SELECT count(*) FROM files") == [(0,)]


@pytest.mark.parametrize("spoil", [delete_index, empty_index])
def test_an_index_that_somebody_else_changed_is_compared_again(memory: Memory, spoil: Callable[[Memory], None]) -> None:
    spoil(memory)
    for number in range(20):
        assert found(memory, f"zebra{number}") == [f"topics/{number}.md"]


def test_what_is_remembered_is_found_in_the_next_call(memory: Memory) -> None:
    for number in range(20):
        memory.remember(f"the giraffe{number}")
        assert found(memory, f"giraffe{number}") == ["MEMORY.md"]


def test_notices_are_repeated_although_nobody_looks(memory: Memory, looks: Looks) -> None:
    write(memory.root, {"bad.md": b"\xff"})
    for _ in range(3):
        assert any("bad.md" in notice for notice in memory.search("zebra3").notices)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_child_process_is_neither_misled_nor_does_it_end_its_parents_watch(memory: Memory) -> None:
    until(lambda: threading.active_count() <= 4)
    with pytest.warns(DeprecationWarning, match="fork") if sys.version_info >= (3, 12) else nullcontext():
        child = os.fork()
    if child == 0:
        try:
            write(memory.root, {"topics/3.md": "the giraffe\n"})
            right = found(memory, "giraffe") == ["topics/3.md"] and memory._core.watching.mode == "off"
        except BaseException:
            right = False
        os._exit(0 if right else 1)
    end = time.monotonic() + 60
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert done[1] == 0
    assert found(memory, "giraffe") == ["topics/3.md"]
    until(lambda: known(memory))
