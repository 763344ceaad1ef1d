"""Whatever changes a page, by whatever editor or tool, is in the index a moment later, and only that."""

from __future__ import annotations

import errno
import gc
import json
import mmap
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from embedders import HashedEmbedder
from memories import rows, write
from store_support import environment, python, small_disk
from vademecum import Memory
from vademecum.errors import ProviderDownError
from vademecum.settings import WatchSettings
from vademecum.store.ignore import IGNORE_FILE
from vademecum.store.layout import detect
from vademecum.store.mounts import Mounts
from vademecum.store.places import Places
from vademecum.sync import changes, notify
from vademecum.sync.watch import Watcher
from vademecum.types import SyncReport
from watching import BY_LOOKING, Told, descriptors, settings, until

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")
pytestmark = linux

PAGES = {
    "MEMORY.md": "# Memory\n\nthe old zebra\n",
    "memory/2026-01-01.md": "a quiet day\n",
    "topics/travel/rome.md": "the window seat\n",
    "other.md": "never touched\n",
}


class Watched:
    """A memory whose index follows its folder; nobody searches, so nothing but the watcher can look at it."""

    def __init__(self, memory: Memory, told: Told) -> None:
        self.memory = memory
        self.root = memory.root
        self.told = told

    def texts(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for path, *_, text, _, _ in rows(self.memory):
            found[str(path)] = found.get(str(path), "") + str(text)
        return found

    def becomes(self, expected: dict[str, str]) -> None:
        """Wait until the index holds exactly these pages, each with its word."""

        def right() -> bool:
            texts = self.texts()
            return texts.keys() == expected.keys() and all(word in texts[path] for path, word in expected.items())

        until(right)


@contextmanager
def opened(root: Path, pages: dict[str, str] = PAGES, **options: object) -> Iterator[Watched]:
    write(root, pages)
    told = Told()
    with Memory.open(root, **{"settings": settings(), **options}) as memory, memory.watch(told):
        told.started()
        yield Watched(memory, told)


@contextmanager
def watched(root: Path, pages: dict[str, str] = PAGES, **options: object) -> Iterator[Watched]:
    """The same, once events can be relied upon."""
    with opened(root, pages, **options) as it:
        until(lambda: it.memory._core.watching.mark() is not None)
        yield it


ROME = "topics/travel/rome.md"
AS_WRITTEN = {
    "MEMORY.md": "old",
    "memory/2026-01-01.md": "quiet",
    "topics/travel/rome.md": "window",
    "other.md": "never",
}
EDITED = {**AS_WRITTEN, "MEMORY.md": "new zebra"}


def run(*command: str | Path, cwd: Path) -> None:
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Editors and tools, each as it really saves.


def in_place(root: Path) -> None:
    (root / "MEMORY.md").write_text("the new zebra\n")


def appended(root: Path) -> None:
    with (root / "MEMORY.md").open("a") as file:
        file.write("the new zebra\n")


def of_equal_length_at_an_old_time(root: Path) -> None:
    state = (root / "MEMORY.md").stat()
    text = (root / "MEMORY.md").read_text()
    (root / "MEMORY.md").write_text(text.replace("old", "new"))
    os.utime(root / "MEMORY.md", ns=(state.st_atime_ns, state.st_mtime_ns))


def by_rename(root: Path) -> None:
    (root / ".MEMORY.md.tmp").write_text("the new zebra\n")
    (root / ".MEMORY.md.tmp").replace(root / "MEMORY.md")


def by_rename_from_elsewhere(root: Path) -> None:
    (root.parent / "staged").write_text("the new zebra\n")
    (root.parent / "staged").replace(root / "MEMORY.md")


def like_vscode(root: Path) -> None:
    number = os.open(root / "MEMORY.md", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(number, b"the new zebra\n")
    os.fdatasync(number)
    os.close(number)


def like_emacs(root: Path) -> None:
    (root / ".#MEMORY.md").symlink_to("user@host.1:1")
    (root / "#MEMORY.md#").write_text("the new z")
    (root / "MEMORY.md").rename(root / "MEMORY.md~")
    (root / "MEMORY.md").write_text("the new zebra\n")
    (root / "#MEMORY.md#").unlink()
    (root / ".#MEMORY.md").unlink()


def through_mapped_memory(root: Path) -> None:
    with (root / "MEMORY.md").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        at = memory.find(b"old")
        memory[at : at + 3] = b"new"


def vim(root: Path, options: str) -> None:
    run(
        "vim",
        "-es",
        "-N",
        "-u",
        "NONE",
        "-i",
        "NONE",
        "-c",
        options,
        "-c",
        "%s/old/new/",
        "-c",
        "wq",
        "MEMORY.md",
        cwd=root,
    )


def vim_over_the_file(root: Path) -> None:
    vim(root, "set backup backupcopy=yes swapfile")


def vim_by_rename(root: Path) -> None:
    vim(root, "set backup backupcopy=no swapfile")


def vim_without_backup(root: Path) -> None:
    vim(root, "set nobackup writebackup backupcopy=auto")


def sed(root: Path) -> None:
    run("sed", "-i", "s/old/new/", "MEMORY.md", cwd=root)


def perl(root: Path) -> None:
    run("perl", "-pi", "-e", "s/old/new/", "MEMORY.md", cwd=root)


def remove_and_write_again(root: Path) -> None:
    (root / "MEMORY.md").unlink()
    (root / "MEMORY.md").write_text("the new zebra\n")


SAVES = [
    in_place, appended, of_equal_length_at_an_old_time, by_rename, by_rename_from_elsewhere, like_vscode, like_emacs,
    through_mapped_memory, vim_over_the_file, vim_by_rename, vim_without_backup, sed, perl, remove_and_write_again,
]  # fmt: skip


@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.__name__)
def test_an_edit_is_indexed_however_the_editor_saves(tmp_path: Path, save: Callable[[Path], None]) -> None:
    with watched(tmp_path / "notes") as it:
        save(it.root)
        it.becomes(EDITED)
        assert "old" not in it.texts()["MEMORY.md"] or save is appended
        until(lambda: set(it.told.causes) == {"start", "change"})


def a_new_page(root: Path) -> dict[str, str]:
    (root / "new.md").write_text("a giraffe\n")
    return {**AS_WRITTEN, "new.md": "giraffe"}


def a_page_in_upper_case(root: Path) -> dict[str, str]:
    (root / "NEW.MD").write_text("a giraffe\n")
    return {**AS_WRITTEN, "NEW.MD": "giraffe"}


def a_deleted_page(root: Path) -> dict[str, str]:
    (root / "MEMORY.md").unlink()
    return {path: word for path, word in AS_WRITTEN.items() if path != "MEMORY.md"}


def a_renamed_page(root: Path) -> dict[str, str]:
    (root / "MEMORY.md").rename(root / "renamed.md")
    return {**a_deleted_page_of(AS_WRITTEN), "renamed.md": "old"}


def a_page_renamed_to_something_else(root: Path) -> dict[str, str]:
    (root / "MEMORY.md").rename(root / "MEMORY.txt")
    return a_deleted_page_of(AS_WRITTEN)


def something_else_renamed_to_a_page(root: Path) -> dict[str, str]:
    (root / "draft.txt").write_text("a giraffe\n")
    (root / "draft.txt").rename(root / "draft.md")
    return {**AS_WRITTEN, "draft.md": "giraffe"}


def a_page_moved_out(root: Path) -> dict[str, str]:
    (root / "MEMORY.md").rename(root.parent / "elsewhere.md")
    return a_deleted_page_of(AS_WRITTEN)


def a_renamed_folder(root: Path) -> dict[str, str]:
    (root / "topics").rename(root / "subjects")
    (root / "subjects/travel/rome.md").write_text("the aisle seat\n")
    return {**without(AS_WRITTEN, ROME), "subjects/travel/rome.md": "aisle"}


def a_folder_that_changes_places_with_another(root: Path) -> dict[str, str]:
    (root / "memory/sub").mkdir()
    (root / "memory/sub/x.md").write_text("a giraffe\n")
    (root / "topics").rename(root / "parked")
    (root / "memory/sub").rename(root / "topics")
    (root / "parked").rename(root / "memory/sub")
    (root / "memory/sub/travel/rome.md").write_text("the aisle seat\n")
    pages = without(AS_WRITTEN, ROME)
    return {**pages, "topics/x.md": "giraffe", "memory/sub/travel/rome.md": "aisle"}


def a_folder_moved_out(root: Path) -> dict[str, str]:
    (root / "topics").rename(root.parent / "topics")
    (root.parent / ROME).write_text("the aisle seat\n")
    return without(AS_WRITTEN, ROME)


def a_folder_moved_in(root: Path) -> dict[str, str]:
    write(root.parent / "staged", {"a/b.md": "a giraffe\n"})
    (root.parent / "staged").rename(root / "staged")
    (root / "staged/a/c.md").write_text("an okapi\n")
    return {**AS_WRITTEN, "staged/a/b.md": "giraffe", "staged/a/c.md": "okapi"}


def a_deleted_folder(root: Path) -> dict[str, str]:
    shutil.rmtree(root / "topics")
    return without(AS_WRITTEN, ROME)


def a_folder_made_anew(root: Path) -> dict[str, str]:
    shutil.rmtree(root / "topics")
    write(root, {"topics/travel/rome.md": "the aisle seat\n"})
    return {**AS_WRITTEN, "topics/travel/rome.md": "aisle"}


def folders_that_appear_later(root: Path) -> dict[str, str]:
    write(root, {"knowledge/deep/er/page.md": "a giraffe\n"})
    return {**AS_WRITTEN, "knowledge/deep/er/page.md": "giraffe"}


def a_page_that_becomes_a_folder(root: Path) -> dict[str, str]:
    (root / "MEMORY.md").unlink()
    write(root, {"MEMORY.md/inner.md": "a giraffe\n"})
    return {**a_deleted_page_of(AS_WRITTEN), "MEMORY.md/inner.md": "giraffe"}


def a_page_that_becomes_a_link(root: Path) -> dict[str, str]:
    (root / "MEMORY.md").unlink()
    (root / "MEMORY.md").symlink_to("other.md")
    return a_deleted_page_of(AS_WRITTEN)


def a_rule_that_keeps_pages_out(root: Path) -> dict[str, str]:
    (root / IGNORE_FILE).write_text("topics/\n")
    return without(AS_WRITTEN, ROME)


def without(pages: dict[str, str], path: str) -> dict[str, str]:
    return {other: word for other, word in pages.items() if other != path}


def a_deleted_page_of(pages: dict[str, str]) -> dict[str, str]:
    return without(pages, "MEMORY.md")


MOVES = [
    a_new_page, a_page_in_upper_case, a_deleted_page, a_renamed_page, a_page_renamed_to_something_else,
    something_else_renamed_to_a_page, a_page_moved_out, a_renamed_folder, a_folder_that_changes_places_with_another,
    a_folder_moved_out, a_folder_moved_in, a_deleted_folder, a_folder_made_anew, folders_that_appear_later,
    a_page_that_becomes_a_folder, a_page_that_becomes_a_link, a_rule_that_keeps_pages_out,
]  # fmt: skip


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_what_comes_goes_or_moves_is_indexed_under_its_new_name(
    tmp_path: Path, move: Callable[[Path], dict[str, str]]
) -> None:
    with watched(tmp_path / "notes") as it:
        it.becomes(move(it.root))
        # And the events of what has moved are still heard.
        for path in ("MEMORY.md", "topics/travel/late.md"):
            if not (it.root / path).exists() and not (it.root / IGNORE_FILE).exists():
                write(it.root, {path: "a latecomer\n"})
                until(lambda p=path: "latecomer" in it.texts().get(p, ""))
        until(lambda: set(it.told.causes) == {"start", "change"})


def test_a_checkout_of_another_branch_is_followed(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    write(root, PAGES)

    def git(*arguments: str) -> None:
        run("git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments, cwd=root)

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "other")
    git("rm", "-qr", "topics")
    write(root, {"MEMORY.md": "the new zebra\n", "memory/2026-01-02.md": "a giraffe\n"})
    git("add", ".")
    git("commit", "-qm", "two")
    there = {
        "MEMORY.md": "new zebra",
        "memory/2026-01-01.md": "quiet",
        "memory/2026-01-02.md": "giraffe",
        "other.md": "never",
    }
    with watched(root, {}) as it:
        it.becomes(there)
        git("checkout", "-q", "main")
        it.becomes(AS_WRITTEN)
        git("checkout", "-q", "other")
        it.becomes(there)
        git("rebase", "-q", "main")
        assert all("error" not in str(news.error) for news in it.told.rounds)


@pytest.mark.parametrize("save", [in_place, by_rename, remove_and_write_again], ids=lambda save: save.__name__)
def test_systems_that_watch_a_whole_tree_are_followed_too(
    tmp_path: Path, save: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code for macOS and Windows, on what watchdog offers here."""
    monkeypatch.setattr(changes, "notifier", notify.TreeEvents)
    write(tmp_path / "notes", PAGES)
    told = Told()
    with Memory.open(tmp_path / "notes", settings=settings()) as memory, memory.watch(told):
        told.started()
        assert memory._core.watching.mode == "events"
        assert memory._core.watching.mark() is None
        it = Watched(memory, told)
        save(it.root)
        it.becomes(EDITED)
        (it.root / "topics").rename(it.root / "subjects")
        it.becomes({**without(EDITED, ROME), "subjects/travel/rome.md": "window"})
        write(it.root, {".git/x.md": "x", "node_modules/p/README.md": "x"})


# What is not watched.


def test_what_is_no_page_of_the_memory_wakes_nobody_and_costs_no_watch(tmp_path: Path) -> None:
    others = (".git/objects/aa", ".obsidian", "node_modules/p/q", "venv/lib", "memory/dreams", "private/deep")
    write(tmp_path / "notes", {f"{folder}/x.md": "x" for folder in others} | {IGNORE_FILE: "private/\n*.draft.md\n"})
    with watched(tmp_path / "notes") as it:
        source = it.memory._core.watching._watcher.changes._notifier
        assert set(source._folders) == {"", "memory", "topics", "topics/travel"}
        before = it.memory._core.watching.mark()
        for folder in others:
            write(it.root, {f"{folder}/y.md": "y", f"{folder}/new/z.md": "z"})
        write(it.root, {"a.draft.md": "x", "a.txt": "x", ".swp.md": "x", "4913": "x", "topics/b.draft.md": "x"})
        it.memory.sync()
        assert it.memory._core.watching.mark() == before
        write(it.root, {"new/sub/page.md": "a giraffe"})
        it.becomes({**AS_WRITTEN, "new/sub/page.md": "giraffe"})
        until(lambda: set(it.told.causes) == {"start", "change"})


def test_the_index_does_not_wake_its_own_watcher(tmp_path: Path) -> None:
    with watched(tmp_path / "notes") as it:
        before = it.memory._core.watching.mark()
        it.memory.rebuild()
        it.memory.search("zebra")
        assert it.memory._core.watching.mark().changes == before.changes


# One watcher, and its end.


def test_memories_of_one_root_share_one_watcher_that_ends_with_the_last(tmp_path: Path) -> None:
    write(tmp_path / "notes", PAGES)
    one, two = Told(), Told()
    first = Memory.open(tmp_path / "notes", settings=settings(), user="ann")
    second = Memory.open(tmp_path / "notes", settings=settings(), user="bob")
    first.sync()
    until(lambda: threading.active_count() == 1)
    before = descriptors()
    a, b = first.watch(one), second.watch(two)
    assert first._core.watching._watcher is second._core.watching._watcher
    until(lambda: one.rounds)
    write(tmp_path / "notes", {"memory/users/ann/MEMORY.md": b"\xff ann's zebra"})
    until(lambda: any(news.report.failed for news in one.rounds))
    assert not [news for news in two.rounds if news.report.failed]
    a.close()
    assert (a.mode, b.mode) == ("off", "events")
    assert descriptors() > before
    second.close()
    assert b.mode == "off"
    assert first._core.watching.mode == "off"
    until(lambda: (descriptors(), threading.active_count()) == (before, 1))
    first.close()


def test_a_watch_goes_on_without_being_held_and_ends_with_its_memory(tmp_path: Path) -> None:
    write(tmp_path / "notes", PAGES)
    told = Told()
    memory = Memory.open(tmp_path / "notes", settings=settings())
    memory.watch(told)
    gc.collect()
    told.started()
    assert memory._core.watching.mode == "events"
    watching = memory._core.watching
    del memory
    until(lambda: gc.collect() is not None and watching.mode == "off")


def test_a_listener_that_fails_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    with watched(tmp_path / "notes") as it:

        def fail(_: object) -> None:
            raise RuntimeError("the host's own mistake")

        it.memory.watch(fail)
        in_place(it.root)
        it.becomes(EDITED)
        until(lambda: failures)
        until(lambda: "change" in it.told.causes)


# What was there before, what is written while a sync runs, and what nobody tells.


def test_pages_that_were_there_before_are_indexed_at_the_start(tmp_path: Path) -> None:
    with watched(tmp_path / "notes") as it:
        it.becomes(AS_WRITTEN)
        assert it.told.causes == ["start"]


def test_lost_events_are_made_up_for_by_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(tmp_path / "notes", settings=settings(BY_LOOKING)) as it:
        monkeypatch.setattr(notify.FolderEvents, "told", lambda *_: None)
        in_place(it.root)
        it.becomes(EDITED)
        until(lambda: "look" in it.told.causes)
        for number in range(5):
            write(it.root, {"other.md": f"another giraffe{number}"})
            until(lambda n=number: f"giraffe{n}" in it.texts().get("other.md", ""))
        until(lambda: it.memory._core.watching.notices)
        assert "does not tell of all changes" in it.memory._core.watching.notices[0]
        assert it.memory._core.watching.mark() is None


def test_what_is_said_in_our_own_history_makes_nobody_distrust_events(tmp_path: Path) -> None:
    """No event tells of it, and none is expected to."""
    seldom = settings(WatchSettings(debounce_ms=20, heartbeat_s=0.05, poll_s=86_400))
    with watched(tmp_path / "notes", settings=seldom) as it:
        for number in range(5):
            said = [{"role": "user", "content": f"giraffe{number}?"}, {"role": "assistant", "content": "yes"}]
            it.memory.history.append("talk", said)
            until(lambda n=number: any(f"giraffe{n}" in text for text in it.texts().values()))
        assert it.memory._core.watching.notices == ()
        until(lambda: it.memory._core.watching.mark() is not None)


def test_a_source_of_events_that_dies_is_replaced(tmp_path: Path) -> None:
    with watched(tmp_path / "notes", settings=settings(BY_LOOKING)) as it:
        watcher = it.memory._core.watching._watcher
        died = watcher.changes._notifier
        died._fd.stop()
        died._fd.join()
        assert it.memory._core.watching.mark() is None
        until(lambda: it.memory._core.watching.mark() is not None)
        assert watcher.changes._notifier is not died
        in_place(it.root)
        it.becomes(EDITED)


def test_after_an_overflow_of_the_queue_nothing_is_missing(tmp_path: Path) -> None:
    with watched(tmp_path / "notes") as it:
        source = it.memory._core.watching._watcher.changes._notifier
        deaf = source.told
        source.told = lambda *_: None
        in_place(it.root)
        until(lambda: source.fence(1.0))
        source.told = deaf
        assert "old" in it.texts()["MEMORY.md"]
        from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent

        source._fd.handle_event(InotifyEvent(-1, InotifyConstants.IN_Q_OVERFLOW, 0, b""))
        it.becomes(EDITED)


def test_without_watchdog_the_folder_is_looked_at_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "watchdog"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "watchdog", None)
    write(tmp_path / "notes", PAGES)
    told = Told()
    with Memory.open(tmp_path / "notes", settings=settings(BY_LOOKING)) as memory, memory.watch(told) as watch:
        told.started()
        assert watch.mode == "polling"
        assert "vademecum[watch]" in watch.notices[0]
        it = Watched(memory, told)
        for save in (in_place, by_rename):
            write(it.root, {"MEMORY.md": "the old zebra"})
            save(it.root)
            it.becomes(EDITED)
        assert len({news.notices for news in told.rounds}) == 1


CAPACITY = """
import json, subprocess, sys
from pathlib import Path
Path(sys.argv[2]).write_text(sys.argv[3])
sys.argv = ["vademecum", "--root", sys.argv[1], "watch", "--json"]
from vademecum.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(("limit", "most"), [("max_inotify_instances", 0), ("max_inotify_watches", 2)])
def test_without_capacity_for_events_there_is_one_warning_and_polling(tmp_path: Path, limit: str, most: int) -> None:
    if subprocess.run(["unshare", "--user", "--map-root-user", "true"], capture_output=True, check=False).returncode:
        pytest.skip("may not make a user namespace here")
    root = tmp_path / "notes"
    write(root, PAGES)
    given = {**environment(), "VADEMECUM_WATCH__POLL_S": "0.05", "VADEMECUM_WATCH__HEARTBEAT_S": "0.2"}
    alone = ("unshare", "--user", "--map-root-user")
    process = subprocess.Popen(
        [*alone, sys.executable, "-c", CAPACITY, root, f"/proc/sys/user/{limit}", str(most)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given,
    )  # fmt: skip
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert lines[1]["event"] == "start"
    assert lines[1]["mode"] == "polling"
    (warning,) = lines[1]["notices"]
    assert "inotify" in warning and "looked at every" in warning
    for word in ("giraffe", "okapi", "lemur"):
        (root / "MEMORY.md").write_text(f"the {word}\n")
        line = json.loads(process.stdout.readline())
        assert (line["report"]["changed"], line["notices"]) == (1, [warning])
    process.terminate()
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert (out.count("\n"), err) == (1, "")


def test_a_folder_that_cannot_be_read_is_heard_of_once_it_can(tmp_path: Path) -> None:
    write(tmp_path / "notes", PAGES)
    done = python(
        """
import os, sys, time
from pathlib import Path
from vademecum import Memory, Settings
from vademecum.settings import EmbeddingSettings, WatchSettings
root = Path(sys.argv[1])
settings = Settings(embedding=EmbeddingSettings(provider="none"),
    watch=WatchSettings(debounce_ms=20, heartbeat_s=86400, poll_s=86400))
def until(happened):
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)
rounds = []
with Memory.open(root, settings=settings) as memory:
    memory.sync()
    (root / "topics").chmod(0)
    with memory.watch(rounds.append) as watch:
        until(lambda: rounds)
        assert "topics: cannot be read" in str(rounds[0].report.notices), rounds
        until(lambda: memory._core.watching.mark() is not None)
        (root / "MEMORY.md").write_text("a giraffe")
        until(lambda: any(r.report.changed for r in rounds))
        assert memory.status().index.sources == 4
        (root / "topics").chmod(0o755)
        (root / "topics/travel/rome.md").write_text("an okapi")
        until(lambda: memory.search("okapi", wait_ms=0).hits)
        assert watch.mode == "events"
print("fine")
""",
        tmp_path / "notes",
        unprivileged=True,
    )
    assert done.stdout == "fine\n"


def test_a_root_that_is_a_link_is_watched_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with watched(tmp_path / "link") as it:
        in_place(tmp_path / "link")
        it.becomes(EDITED)


def test_conversations_are_followed_wherever_they_are_kept(tmp_path: Path) -> None:
    """In a file beside the notes, in Dexter's folder beside the memory, which comes later, and in our own history."""
    root = tmp_path / ".dexter/memory"
    write(root, {"2026-01-01.md": "a quiet day"})
    told = Told()
    looking = settings(WatchSettings(debounce_ms=20, heartbeat_s=86_400, poll_s=0.05))
    with Memory.open(root, settings=looking) as memory, memory.watch(told):
        told.started()
        it = Watched(memory, told)
        turn = {"id": "1", "timestamp": "2026-01-02T10:00:00Z", "userMessage": "a giraffe?", "agentResponse": "yes"}
        write(root, {"talk.jsonl": json.dumps({"role": "user", "content": "a zebra?"}) + "\n"})
        write(tmp_path / ".dexter", {"messages/chat_history.json": json.dumps({"messages": [turn]})})
        memory.history.append(
            "talk", [{"role": "user", "content": "an okapi?"}, {"role": "assistant", "content": "no"}]
        )
        for word in ("quiet", "zebra", "giraffe", "okapi"):
            until(lambda w=word: any(w in text for text in it.texts().values()))
        assert "look" not in told.causes


def test_extra_folders_are_watched_wherever_they_are_and_whenever_they_come(tmp_path: Path) -> None:
    vault, late = tmp_path / "vault", tmp_path / "late"
    write(vault, {"sub/page.md": "a giraffe", ".obsidian/x.md": "x"})
    extras = replace(settings(), roots=(str(vault), str(late)))
    with watched(tmp_path / "notes", settings=extras) as it:
        it.becomes({**AS_WRITTEN, "@vault/sub/page.md": "giraffe"})
        write(
            vault, {"sub/page.md": "an okapi", "new/page.md": "a lemur", IGNORE_FILE: "private/\n", "private/x.md": "x"}
        )
        there = {**AS_WRITTEN, "@vault/sub/page.md": "okapi", "@vault/new/page.md": "lemur"}
        it.becomes(there)
        write(late, {"page.md": "a gnu"})
        assert [hit.path for hit in it.memory.search("gnu")] == ["@late/page.md"]
        write(late, {"page.md": "an emu"})
        it.becomes({**there, "@late/page.md": "emu"})
        (vault / "sub").rename(vault / "bus")
        (vault / "bus/page.md").write_text("a dodo")
        it.becomes({**without(there, "@vault/sub/page.md"), "@vault/bus/page.md": "dodo", "@late/page.md": "emu"})


def test_a_root_that_goes_and_comes_back_is_followed_and_nothing_is_forgotten(tmp_path: Path) -> None:
    with watched(tmp_path / "notes", settings=settings(BY_LOOKING)) as it:
        it.root.rename(tmp_path / "away")
        until(lambda: it.told.rounds[-1].error)
        assert str(it.root) in it.told.rounds[-1].error
        (tmp_path / "away/MEMORY.md").write_text("the new zebra\n")
        (tmp_path / "away").rename(it.root)
        it.becomes(EDITED)
        until(lambda: it.memory._core.watching.mark() is not None)


def test_what_a_mount_brings_and_takes_is_seen(tmp_path: Path) -> None:
    with watched(tmp_path / "notes") as it:
        before = it.memory._core.watching.mark()
        with small_disk(it.root / "topics", "1M"):
            assert it.memory._core.watching.mark() != before
            write(it.root, {"topics/inside.md": "a giraffe"})
            assert [hit.path for hit in it.memory.search("giraffe")] == ["topics/inside.md"]
            until(lambda: it.memory._core.watching.mark() is not None)
            write(it.root, {"topics/inside.md": "an okapi"})
            until(lambda: "okapi" in it.texts().get("topics/inside.md", ""))
        assert not it.memory.search("okapi").hits


def test_a_share_that_tells_of_nothing_is_looked_at_and_its_failures_are_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network drive: what others write there causes no event, and now and then it cannot be reached."""
    monkeypatch.setattr(Mounts, "silent", lambda *_: "nfs4 at /mnt/share")
    monkeypatch.setattr(notify.FolderEvents, "told", lambda *_: None)
    slow = settings(WatchSettings(debounce_ms=20, heartbeat_s=86_400, poll_s=0.05))
    with opened(tmp_path / "notes", settings=slow) as it:
        assert "nfs4 at /mnt/share does not tell" in it.memory._core.watching.notices[0]
        assert it.memory._core.watching.mark() is None
        in_place(it.root)
        it.becomes(EDITED)
        original, unreachable = os.scandir, OSError(errno.EHOSTDOWN, "Host is down")
        gate = threading.Event()

        def scandir(*arguments: object) -> object:
            if not gate.is_set() and str(it.root) in str(arguments[0]):
                raise unreachable
            return original(*arguments)  # type: ignore[call-overload]

        monkeypatch.setattr(os, "scandir", scandir)
        monkeypatch.setattr(Places, "glance", lambda *_: None)
        write(it.root, {"new.md": "a giraffe"})
        until(lambda: "Host is down" in str(it.told.rounds[-1].error))
        gate.set()
        it.becomes({**EDITED, "new.md": "giraffe"})


# Under load.


def test_a_watcher_has_little_to_do_while_nothing_happens(tmp_path: Path) -> None:
    with watched(tmp_path / "notes") as it:
        before = time.process_time()
        time.sleep(1.0)
        assert time.process_time() - before < 0.3
        assert it.told.causes == ["start"]


def test_looking_takes_a_small_share_of_the_time_however_long_it_takes(tmp_path: Path) -> None:
    write(tmp_path, PAGES)
    began: list[float] = []

    def read() -> SyncReport:
        began.append(time.monotonic())
        time.sleep(0.1)
        return SyncReport()

    watcher = Watcher(Places(detect(tmp_path)), BY_LOOKING, read, SyncReport, str, lambda _: None)
    try:
        until(lambda: len(began) == 3)
    finally:
        watcher.close()
    assert min(later - sooner for sooner, later in pairwise(began)) > 1.5


def test_many_changes_are_few_rounds(tmp_path: Path) -> None:
    with watched(tmp_path / "notes") as it:
        for number in range(500):
            write(it.root, {f"many/{number}.md": "x", "MEMORY.md": f"the new zebra {number}"})
        it.becomes({**EDITED, **{f"many/{number}.md": "x" for number in range(500)}})
        assert len(it.told.rounds) < 100


def test_constant_change_is_indexed_before_it_ends(tmp_path: Path) -> None:
    patient = settings(WatchSettings(debounce_ms=200, heartbeat_s=86_400, poll_s=86_400))
    with watched(tmp_path / "notes", settings=patient) as it:
        stop = threading.Event()

        def scribble() -> None:
            number = 0
            while not stop.wait(0.01):
                number += 1
                (it.root / "MEMORY.md").write_text(f"the new zebra {number}\n")

        writer = threading.Thread(target=scribble)
        writer.start()
        try:
            until(lambda: "change" in it.told.causes)
            assert writer.is_alive() and not stop.is_set()
        finally:
            stop.set()
            writer.join()
        it.becomes(EDITED)


def test_a_provider_that_is_down_is_not_stormed_by_a_busy_folder(tmp_path: Path) -> None:
    embedder = HashedEmbedder()
    with watched(tmp_path / "notes", embedder=embedder) as it:
        until(lambda: embedder.batches)
        embedder.fail(ProviderDownError("loopback: connection refused"))
        calls = len(embedder.batches)
        for number in range(20):
            write(it.root, {"MEMORY.md": f"the new zebra {number}"})
            until(lambda n=number: f"zebra {n}" in it.texts().get("MEMORY.md", ""))
        until(lambda: any("refused" in str(news.report.failed) for news in it.told.rounds))
        assert len(embedder.batches) - calls <= 2
        it.becomes(EDITED)


def test_text_is_indexed_while_the_embedder_hangs(tmp_path: Path) -> None:
    gate = threading.Event()
    embedder = HashedEmbedder()
    original = embedder.embed_documents

    def hang(texts: list[str]) -> object:
        gate.wait(30)
        return original(texts)

    embedder.embed_documents = hang  # type: ignore[assignment, method-assign]
    with watched(tmp_path / "notes", embedder=embedder) as it:
        in_place(it.root)
        it.becomes(EDITED)
        assert not embedder.batches
        gate.set()
        until(lambda: "vectors" in it.told.causes)


@pytest.mark.stress
def test_any_number_of_events_leaves_descriptors_and_memory_as_they_were(tmp_path: Path) -> None:
    events = 100_000 if os.environ.get("VADEMECUM_STRESS") else 4_000
    with watched(tmp_path / "notes") as it:

        def storm(count: int) -> None:
            for number in range(count // 8):
                page = it.root / f"topics/{number % 50}.md"
                page.write_text(f"word{number}")
                page.replace(it.root / f"topics/travel/{number % 50}.md")
                if not number % 100:
                    (it.root / "topics/travel").rename(it.root / "topics/trips")
                    (it.root / "topics/trips").rename(it.root / "topics/travel")
            assert it.memory._core.watching._watcher.changes._notifier.fence(30)
            it.memory.sync()

        storm(2_000)
        gc.collect()
        files, watches, peak = descriptors(), len(sources(it)), resident()
        storm(events)
        gc.collect()
        assert descriptors() == files
        assert len(sources(it)) == watches
        assert resident() - peak < 16_000_000
        until(lambda: it.memory._core.watching.mark() is not None)
        in_place(it.root)
        until(lambda: "new zebra" in it.texts().get("MEMORY.md", ""))


def sources(it: Watched) -> dict[str, object]:
    return it.memory._core.watching._watcher.changes._notifier._folders


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
