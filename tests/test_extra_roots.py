"""Extra folders are found and read, never written; what is wrong with one is said, and unreadable is not deleted."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from memories import PATIENT, OpenMemory, paths, rows, write
from store_support import python
from vademecum import Memory, Settings
from vademecum.config import load_settings
from vademecum.errors import PathError, SettingsError

PAGES = {"MEMORY.md": "The gold is in the safe.\n"}
VAULT = {"Ideas/gold.md": "# Gold\n\nAn idea about gold. #metal\n", "2026-01-02.md": "Gold again.\n"}


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere" / "My Vault"
    write(folder, VAULT)
    write(folder, {".obsidian/workspace.md": "gold", ".obsidian/app.json": "{}"})
    return folder


def with_roots(*roots: str | Path) -> Settings:
    return replace(PATIENT, roots=tuple(map(str, roots)))


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes and the time of its last change."""
    return {
        str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def notices(memory: Memory) -> str:
    return "\n".join(memory.search("gold").notices)


def test_pages_of_an_extra_folder_are_found_under_its_name_and_read(open_memory: OpenMemory, vault: Path) -> None:
    memory = open_memory(PAGES, settings=with_roots(vault))
    assert set(paths(memory.search("gold"))) == {"MEMORY.md", "@My Vault/Ideas/gold.md", "@My Vault/2026-01-02.md"}
    assert paths(memory.search("gold", path="@My Vault/Ideas/*", tag="metal")) == ["@My Vault/Ideas/gold.md"]
    assert paths(memory.search("gold", kind="daily")) == ["@My Vault/2026-01-02.md"]
    excerpt = memory.get("@My Vault/Ideas/gold.md", start=3, lines=1)
    assert (excerpt.path, excerpt.text) == ("@My Vault/Ideas/gold.md", "An idea about gold. #metal")
    assert memory.status().files_on_disk == 3


def test_an_extra_folder_is_never_written(open_memory: OpenMemory, vault: Path) -> None:
    before = contents(vault)
    memory = open_memory(PAGES, settings=with_roots(f"v={vault}"))
    memory.sync()
    memory.rebuild()
    for target in ("@v/new.md", "@v/Ideas/gold.md", "@v/2026-01-02.md"):
        with pytest.raises(PathError, match="never written"):
            memory.remember("gold", file=target)
    assert contents(vault) == before
    assert not (memory.root / "@v").exists()


def test_paths_cannot_leave_an_extra_folder(open_memory: OpenMemory, vault: Path) -> None:
    memory = open_memory(PAGES, settings=with_roots(f"v={vault}"))
    write(vault.parent, {"secret.md": "gold"})
    (vault / "out.md").symlink_to(vault.parent / "secret.md")
    (vault / "out").symlink_to(vault.parent)
    for target in ("@v/../secret.md", "@v/out.md", "@v/out/secret.md", "@v/.obsidian/workspace.md", "@v/", "@v"):
        with pytest.raises(PathError):
            memory.get(target)
    found = notices(memory)
    assert "@v/out.md: skipped, it is a link to" in found
    assert "@v/out: skipped, it is a link to" in found
    assert "@v/out/secret.md" not in set(paths(memory.search("gold")))


def test_a_linked_root_is_followed_and_links_in_a_circle_are_not(
    open_memory: OpenMemory, vault: Path, tmp_path: Path
) -> None:
    link = tmp_path / "vault-link"
    link.symlink_to(vault)
    (vault / "again").symlink_to(vault)
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    memory = open_memory(PAGES, settings=with_roots(link, tmp_path / "a"))
    assert "@vault-link/Ideas/gold.md" in paths(memory.search("gold"))
    assert len(rows(memory)) == 3
    assert "@vault-link/again: skipped, it is a link" in notices(memory)
    assert "@a: " in notices(memory)


def test_no_page_is_found_twice(open_memory: OpenMemory, vault: Path, tmp_path: Path) -> None:
    """The memory inside an extra folder, an extra folder inside another, inside the memory, and under two names."""
    root = tmp_path / "notes"
    write(root, {"topics/gold.md": "gold"})
    settings = with_roots(
        f"all={tmp_path}", f"v={vault}", f"twice={vault}", f"inside={root / 'topics'}", f"self={root}"
    )
    memory = open_memory(PAGES, settings=settings)
    expected = {"MEMORY.md", "topics/gold.md", "@v/Ideas/gold.md", "@v/2026-01-02.md"}
    assert {row[0] for row in rows(synced(memory))} == expected
    found = notices(memory)
    for part in ("@twice: ", "under another name already", "@inside: ", "@self: ", "part of the memory itself"):
        assert part in found
    assert "@all: " in found, "all of its pages are somebody else's"


def synced(memory: Memory) -> Memory:
    memory.sync()
    return memory


def test_a_folder_that_is_not_there_is_not_deleted(open_memory: OpenMemory, vault: Path) -> None:
    memory = synced(open_memory(PAGES, settings=with_roots(f"v={vault}")))
    before = rows(memory)
    away = vault.with_name("unmounted")
    vault.rename(away)
    assert "@v: " in notices(memory)
    assert "what is known of it is kept" in notices(memory)
    vault.mkdir()  # the empty folder on which a disk is mounted
    report = memory.sync()
    assert report.removed == 0
    assert "as if it were not mounted" in dict(report.notices)["@v"]
    assert rows(memory) == before
    vault.rmdir()
    away.rename(vault)
    (vault / "2026-01-02.md").unlink()
    assert memory.sync().removed == 1
    assert memory.search("gold").notices == ()


def test_an_unreadable_extra_folder_keeps_its_pages(tmp_path: Path, vault: Path) -> None:
    code = """
import sys, os
from vademecum import Memory, Settings
from vademecum.settings import EmbeddingSettings
root, vault = sys.argv[1:]
settings = Settings(embedding=EmbeddingSettings(provider="none"), roots=(f"v={vault}",))
with Memory.open(root, settings=settings) as memory:
    assert memory.sync().added == 2
    os.chmod(vault, 0)
    try:
        report = memory.sync()
    finally:
        os.chmod(vault, 0o755)
    assert report.removed == 0, report
    assert "@v: " in str(report.notices), report
    assert len(memory.search("gold", wait_ms=0)) == 2
"""
    (tmp_path / "root").mkdir(mode=0o777)
    python(code, tmp_path / "root", vault, unprivileged=True)


def test_pages_of_a_folder_that_is_no_longer_named_are_forgotten(tmp_path: Path, vault: Path) -> None:
    root = tmp_path / "notes"
    write(root, PAGES)
    with Memory.open(root, settings=with_roots(f"v={vault}")) as memory:
        assert memory.sync().added == 3
    with Memory.open(root, settings=PATIENT) as memory:
        assert paths(memory.search("gold")) == ["MEMORY.md"]


def test_what_is_private_in_an_extra_memory_stays_private(open_memory: OpenMemory, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other, {"MEMORY.md": "shared gold", "memory/users/bob/MEMORY.md": "gold of bob", "users/ann/a.md": "anns"})
    settings = with_roots(other)
    memory = open_memory(PAGES, settings=settings)
    assert set(paths(memory.search("gold"))) == {"MEMORY.md", "@other/MEMORY.md"}
    with pytest.raises(PathError, match="somebody else"):
        memory.get("@other/memory/users/bob/MEMORY.md")
    bob = open_memory(settings=settings, user="bob")
    assert "@other/memory/users/bob/MEMORY.md" in paths(bob.search("gold"))
    assert bob.get("@other/memory/users/bob/MEMORY.md").text == "gold of bob"


def test_a_folder_of_the_memory_that_has_the_name_is_not_shadowed(open_memory: OpenMemory, vault: Path) -> None:
    memory = open_memory({"@v/own.md": "own gold"}, settings=with_roots(f"v={vault}"))
    assert paths(memory.search("gold")) == ["@v/own.md"]
    assert "the memory has a folder of this name" in notices(memory)


@pytest.mark.parametrize(
    ("roots", "why"),
    [
        (("vault",), "absolute path"),
        (("./vault",), "absolute path"),
        (("",), "absolute path"),
        (("/",), "gives no name"),
        (("/srv/.hidden",), "gives no name"),
        (("/srv/a", "/tmp/A"), "two folders are named"),
        (("a=relative",), "absolute path"),
        (("/srv/\0",), "absolute path"),
        ((7,), "absolute path"),
        ("/srv/vault", "list of folders"),
    ],
)
def test_what_cannot_be_an_extra_folder_is_named(roots: object, why: str) -> None:
    with pytest.raises(SettingsError, match=f"roots.*{why}"):
        Settings(roots=roots)  # type: ignore[arg-type]


def test_names_and_homes_are_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Settings(roots=["~/vault", "work=/srv/a=b", "/srv/x=y"])  # type: ignore[arg-type]
    assert settings.extra_folders() == {"vault": tmp_path / "vault", "work": Path("/srv/a=b"), "x=y": Path("/srv/x=y")}


def test_a_memory_folder_cannot_choose_which_other_folders_are_read(open_memory: OpenMemory, vault: Path) -> None:
    root = open_memory(PAGES).root
    (root / ".vademecum" / "config.toml").write_text(f'roots = ["{vault}"]\n')
    with pytest.raises(SettingsError, match="roots cannot be set in"):
        load_settings(root, os.environ)


def test_an_exchanged_link_shows_the_other_folder(open_memory: OpenMemory, vault: Path, tmp_path: Path) -> None:
    other, link = tmp_path / "other", tmp_path / "link"
    shutil.copytree(vault, other)
    (other / "2026-01-02.md").write_text("Something else.\n")
    link.symlink_to(vault)
    memory = synced(open_memory(PAGES, settings=with_roots(f"v={link}")))
    link.unlink()
    link.symlink_to(other)
    assert memory.sync().changed >= 1
    assert memory.get("@v/2026-01-02.md").text == "Something else."
