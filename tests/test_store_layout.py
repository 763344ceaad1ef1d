"""Which layout a folder has, where its files belong, and what a path says."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.errors import SettingsError, StoreError, UsageError, WriteError
from vademecum.settings import Settings
from vademecum.store.layout import Layout, Place, detect, home, is_hidden, leading_date, scope_of, valid_id
from vademecum.store.lock import root_lock
from vademecum.store.root import PRIVATE, check_private, create, find_root, private_folder
from vademecum.types import SHARED, Viewer

WORKSPACE = Layout(Path("/w"), "workspace")
FLAT = Layout(Path("/f"), "flat")
DAY = date(2026, 1, 11)


def test_a_memory_folder_means_workspace_even_beside_dated_files(tmp_path: Path) -> None:
    (tmp_path / "2026-01-11.md").touch()
    assert detect(tmp_path).name == "flat"
    (tmp_path / "memory").mkdir()
    assert detect(tmp_path).name == "workspace"


@pytest.mark.parametrize("name", ["notes.md", "2026-13-45.md", "2026-01-11.txt", "MEMORY.md"])
def test_a_folder_without_dailies_is_a_workspace(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert detect(tmp_path).name == "workspace"
    assert detect(tmp_path / "not there").name == "workspace"


def test_the_setting_wins_and_the_root_is_real(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    layout = detect(tmp_path / "link", "flat")
    assert layout == Layout(tmp_path.resolve() / "real", "flat")
    with pytest.raises(SettingsError, match="layout"):
        Settings(layout="tree")  # type: ignore[arg-type]


def test_every_scope_has_its_own_files() -> None:
    assert WORKSPACE.long_term() == FLAT.long_term() == "MEMORY.md"
    assert WORKSPACE.daily(DAY) == "memory/2026-01-11.md"
    assert FLAT.daily(DAY) == "2026-01-11.md"
    assert WORKSPACE.long_term("user:alice") == "memory/users/alice/MEMORY.md"
    assert WORKSPACE.daily(DAY, "agent:a1") == "memory/agents/a1/2026-01-11.md"
    assert FLAT.daily(DAY, "user:alice") == "users/alice/2026-01-11.md"


def test_aliases_mean_the_viewers_own_file() -> None:
    assert WORKSPACE.alias("long_term", Viewer(), DAY) == "MEMORY.md"
    assert WORKSPACE.alias("daily", Viewer(user="bob"), DAY) == "memory/users/bob/2026-01-11.md"
    assert WORKSPACE.alias("long_term", Viewer(agent="x"), DAY) == "memory/agents/x/MEMORY.md"
    assert WORKSPACE.alias("notes.md", Viewer(user="bob"), DAY) == "notes.md"
    assert home(Viewer(user="bob", agent="x")) == "user:bob"
    assert home(Viewer()) == SHARED


@pytest.mark.parametrize("layout", [WORKSPACE, FLAT])
def test_a_path_given_out_for_a_scope_is_read_back_as_that_scope(layout: Layout) -> None:
    for scope in (SHARED, "user:alice", "agent:a.b@c+d-e_f"):
        assert layout.classify(layout.long_term(scope)) == Place(scope, "memory", None)
        assert layout.classify(layout.daily(DAY, scope)) == Place(scope, "daily", "2026-01-11")


@pytest.mark.parametrize(
    "owner",
    ["", ".", "..", ".a", "a/b", "../x", "a\\b", "a b", "ä", "a\0", "a\n", "x" * 129, None, 7],
)
def test_an_id_that_could_leave_its_folder_is_refused_by_name(owner: object) -> None:
    with pytest.raises(UsageError) as caught:
        valid_id(owner)  # type: ignore[arg-type]
    assert repr(owner) in str(caught.value)
    with pytest.raises(UsageError):
        WORKSPACE.long_term(f"user:{owner}" if isinstance(owner, str) else "nobody:x")


@pytest.mark.parametrize("owner", ["a", "A.b", "alice@example.com", "+49-1", "_x", "x" * 128])
def test_usual_ids_are_taken_as_they_are(owner: str) -> None:
    assert valid_id(owner) == owner


@pytest.mark.parametrize(
    ("path", "scope", "kind", "day"),
    [
        ("MEMORY.md", SHARED, "memory", None),
        ("goals.md", SHARED, "memory", None),
        ("memory/2026-01-11.md", SHARED, "daily", "2026-01-11"),
        ("memory/daily/2026-01-11-standup.md", SHARED, "daily", "2026-01-11"),
        ("2026-01-11 trip.MD", SHARED, "daily", "2026-01-11"),
        ("2024-02-29.md", SHARED, "daily", "2024-02-29"),
        ("2026-02-29.md", SHARED, "memory", None),
        ("2026-13-45.md", SHARED, "memory", None),
        ("0000-01-01.md", SHARED, "memory", None),
        ("9999-12-31.md", SHARED, "daily", "9999-12-31"),
        ("2026-01-110.md", SHARED, "memory", None),
        ("report-2026-01-11.md", SHARED, "memory", None),
        ("２０２６-01-11.md", SHARED, "memory", None),
        ("knowledge/sources/2020-01-01.md", SHARED, "knowledge", None),
        ("knowledge/sources/report-2020-01-01.md", SHARED, "knowledge", None),
        ("knowledge.md", SHARED, "memory", None),
        ("memory/users/alice/MEMORY.md", "user:alice", "memory", None),
        ("memory/users/alice/daily/2026-01-11.md", "user:alice", "daily", "2026-01-11"),
        ("memory/users/alice/knowledge/a.md", "user:alice", "knowledge", None),
        ("memory/agents/a1/notes.md", "agent:a1", "memory", None),
        ("memory/daily/users/alice/2026-01-11.md", SHARED, "daily", "2026-01-11"),
        ("memory/users/2026-01-11.md", SHARED, "daily", "2026-01-11"),
        ("users/alice/notes.md", "user:alice", "memory", None),
        ("agents/a1/2026-01-11.md", "agent:a1", "daily", "2026-01-11"),
        ("docs/users/alice/notes.md", SHARED, "memory", None),
        ("users/notes.md", SHARED, "memory", None),
        ("Memory/Users/bob/MEMORY.md", "user:bob", "memory", None),
        ("memory/users/Jürgen M/notes.md", "user:Jürgen M", "memory", None),
    ],
)
def test_a_path_in_a_workspace_says_scope_kind_and_date(path: str, scope: str, kind: str, day: str | None) -> None:
    assert WORKSPACE.classify(path) == Place(scope, kind, day)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [
        "users/alice/x.md",
        "memory/users/alice/x.md",
        "USERS/alice/a/b.md",
        "MEMORY/Users/alice/x.md",
        "u\u017fers/alice/x.md",
    ],
)
@pytest.mark.parametrize("layout", [WORKSPACE, FLAT])
def test_a_private_folder_is_private_in_either_layout_and_in_any_case(layout: Layout, path: str) -> None:
    assert layout.classify(path).scope == scope_of(path) == "user:alice"
    assert layout.classify(path.replace("users", "agents")).scope != SHARED


_PARTS = st.sampled_from(["memory", "Memory", "users", "USERS", "agents", "alice", "knowledge", "2026-01-11", "dreams"])


@given(st.lists(_PARTS, min_size=1, max_size=5).map(lambda parts: "/".join(parts) + ".md"))
def test_what_a_path_says_does_not_depend_on_the_layout(path: str) -> None:
    assert WORKSPACE.classify(path) == FLAT.classify(path)
    assert WORKSPACE.classify(path).scope == scope_of(path)


def test_a_flat_root_that_loses_its_last_dated_file_publishes_nobody(tmp_path: Path) -> None:
    (tmp_path / "users" / "alice").mkdir(parents=True)
    (tmp_path / "users" / "alice" / "MEMORY.md").write_text("- private")
    (tmp_path / "2026-01-11.md").write_text("a day")
    before = detect(tmp_path)
    (tmp_path / "2026-01-11.md").unlink()
    after = detect(tmp_path)
    for layout in (before, after, detect(tmp_path, "workspace")):
        assert layout.classify("users/alice/MEMORY.md").scope == "user:alice"
    assert after == before, "alice would lose sight of her own page"


def test_a_folder_of_users_without_a_private_page_is_no_layout(tmp_path: Path) -> None:
    (tmp_path / "users" / "alice").mkdir(parents=True)
    (tmp_path / "users" / "guide.md").touch()
    assert detect(tmp_path).name == "workspace"


def test_diaries_and_foreign_folders_are_not_part_of_the_memory() -> None:
    for folder in (
        "memory/dreams",
        "memory/dreams/2026",
        "memory/evolution",
        "memory/users/alice/dreams",
        "memory/agents/a/evolution",
        "users/alice/dreams",
        "node_modules",
        "a/node_modules/b",
        "venv",
        ".git",
        "a/.obsidian",
    ):
        assert not WORKSPACE.indexes(folder), folder
    for folder in ("", "memory", "memory/users", "memory/users/dreams", "dreams", "knowledge/dreams", "..x"):
        assert WORKSPACE.indexes(folder), folder
    assert not FLAT.indexes("dreams")
    assert not FLAT.indexes("users/alice/dreams")
    assert not FLAT.indexes("memory/users/alice/dreams")
    assert FLAT.indexes("memory/dreams")


def test_two_leading_dots_are_an_ordinary_name() -> None:
    assert not is_hidden("..notes.md")
    assert is_hidden(".notes.md")
    assert leading_date("..2026-01-11.md") is None


def test_the_root_is_the_nearest_ancestor_that_is_a_memory(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner" / "deep"
    inner.mkdir(parents=True)
    assert find_root(inner) is None
    (tmp_path / "outer" / "MEMORY.md").touch()
    assert find_root(inner) == tmp_path.resolve() / "outer"
    (inner.parent / ".vademecum").mkdir()
    assert find_root(inner) == find_root(inner.parent) == tmp_path.resolve() / "outer" / "inner"


def test_create_makes_a_workspace_and_a_second_call_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "new" / "notes"
    assert create(root) == Layout(root.resolve(), "workspace")
    assert (root / "MEMORY.md").read_bytes() == b""
    assert (root / ".vademecum" / ".gitignore").read_bytes() == b"*\n"
    (root / "MEMORY.md").write_text("mine")
    (root / ".vademecum" / ".gitignore").write_text("mine")
    create(root)
    assert (root / "MEMORY.md").read_text() == (root / ".vademecum" / ".gitignore").read_text() == "mine"


def test_create_keeps_the_layout_of_a_flat_folder(tmp_path: Path) -> None:
    (tmp_path / "2026-01-11.md").write_text("a day")
    assert create(tmp_path).name == detect(tmp_path).name == "flat"


def test_create_names_what_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WriteError, match="file"):
        create(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "x"


posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX links and pipes")
_FILES = ("lock", "config.toml", "index.sqlite", "vectors.sqlite")


@posix
def test_a_private_folder_that_is_a_link_is_named_and_nothing_is_written_through_it(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    for target in (outside, tmp_path / "nowhere"):
        (root / PRIVATE).symlink_to(target)
        for work in (lambda: private_folder(root), lambda: create(root), lambda: check_private(root / PRIVATE)):
            with pytest.raises(StoreError, match=rf"{PRIVATE}: is a symbolic link"):
                work()
        with pytest.raises(StoreError, match="symbolic link"), root_lock(root):
            pass
        (root / PRIVATE).unlink()
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "nowhere").exists()


def test_a_file_in_the_place_of_the_private_folder_is_named_and_kept(tmp_path: Path) -> None:
    (tmp_path / PRIVATE).write_text("mine")
    with pytest.raises(StoreError, match=rf"{PRIVATE}: is not a folder"):
        private_folder(tmp_path)
    assert (tmp_path / PRIVATE).read_text() == "mine"


@posix
@pytest.mark.parametrize("name", [*_FILES, "index.sqlite-wal", "vectors.sqlite-shm", "index.sqlite-journal"])
def test_what_is_no_regular_file_in_the_private_folder_is_named_and_never_opened(tmp_path: Path, name: str) -> None:
    folder = private_folder(tmp_path)
    check_private(folder, *_FILES)
    file, target = folder / name, tmp_path / "target"
    target.write_text("mine")
    file.write_text("")
    check_private(folder, *_FILES)
    for hostile in (
        lambda: file.symlink_to(target),
        lambda: file.symlink_to(tmp_path / "nowhere"),
        lambda: os.mkfifo(file),
        lambda: file.symlink_to(folder),
    ):
        file.unlink()
        hostile()
        with pytest.raises(StoreError, match=rf"{name}: is .* a regular file is expected"):
            check_private(folder, *_FILES)
    file.unlink()
    file.mkdir()
    with pytest.raises(StoreError, match=rf"{name}: is not a regular file"):
        check_private(folder, *_FILES)


@posix
def test_a_lock_that_is_a_link_or_a_pipe_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    lock, target = private_folder(tmp_path) / "lock", tmp_path / "target"
    target.write_text("mine")
    for hostile in (lambda: lock.symlink_to(target), lambda: os.mkfifo(lock)):
        hostile()
        with pytest.raises(StoreError, match="lock: is "), root_lock(tmp_path):
            pass
        lock.unlink()
    assert target.read_text() == "mine"
