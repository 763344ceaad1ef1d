"""Which layout a folder has, where its files belong, and what a path says."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from vademecum.errors import SettingsError, UsageError, WriteError
from vademecum.settings import Settings
from vademecum.store.layout import Layout, Place, detect, home, is_hidden, leading_date, valid_id
from vademecum.store.root import create, find_root
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
        ("users/alice/notes.md", SHARED, "memory", None),
        ("Memory/Users/bob/MEMORY.md", "user:bob", "memory", None),
        ("memory/users/Jürgen M/notes.md", "user:Jürgen M", "memory", None),
    ],
)
def test_a_path_in_a_workspace_says_scope_kind_and_date(path: str, scope: str, kind: str, day: str | None) -> None:
    assert WORKSPACE.classify(path) == Place(scope, kind, day)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["users/alice/x.md", "memory/users/alice/x.md", "USERS/alice/a/b.md"])
def test_a_private_folder_of_either_layout_stays_private_in_a_flat_root(path: str) -> None:
    assert FLAT.classify(path).scope == "user:alice"


def test_diaries_and_foreign_folders_are_not_part_of_the_memory() -> None:
    for folder in (
        "memory/dreams",
        "memory/dreams/2026",
        "memory/evolution",
        "memory/users/alice/dreams",
        "memory/agents/a/evolution",
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
