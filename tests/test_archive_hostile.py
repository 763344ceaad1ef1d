"""Archives: what goes in comes out again, and what is no archive is named."""

from __future__ import annotations

import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from memories import PATIENT, write
from vademecum import Memory
from vademecum.errors import StoreError, UsageError
from vademecum.transfer.archive import export_archive, restore_archive

SUM = sha256(b"x").hexdigest()


def archive(file: Path, files: list[object], members: list[str]) -> Path:
    manifest = json.dumps({"format": 1, "files": files}).encode()
    with tarfile.open(file, "w") as tar:
        for name, data in (("manifest.json", manifest), *((name, b"x") for name in members)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file


def test_pages_with_odd_names_and_all_diaries_come_out_again_and_foreign_folders_stay(tmp_path):
    ours = {"MEMORY.md", "memory/..notes.md", "memory/evolution/2026-01-01.md", "memory/users/a/dreams/2026-01-01.md"}
    others = {".obsidian/dreams/x.md", "node_modules/q/dreams/y.md"}
    write(tmp_path / "notes", dict.fromkeys(ours | others, "- a\n"))
    with Memory.open(tmp_path / "notes", settings=PATIENT) as memory:
        export_archive(memory, tmp_path / "a.tar")
    restore_archive(tmp_path / "a.tar", tmp_path / "again")
    assert {file.relative_to(tmp_path / "again").as_posix() for file in (tmp_path / "again").rglob("*.md")} == ours


def test_a_file_that_comes_twice_does_not_stand_for_one_that_is_missing(tmp_path):
    files = [{"path": name, "sha256": SUM} for name in ("a.md", "b.md")]
    with pytest.raises(StoreError, match=r"a\.md"):
        restore_archive(archive(tmp_path / "a.tar", files, ["a.md", "a.md"]), tmp_path / "again")
    with pytest.raises(StoreError, match=r"first b\.md"):
        restore_archive(archive(tmp_path / "b.tar", files, ["a.md"]), tmp_path / "other")


@pytest.mark.parametrize("files", [[{"path": ["a.md"], "sha256": SUM}], ["a.md"], {"a.md": SUM}, 5])
def test_a_manifest_of_another_shape_is_refused(tmp_path, files):
    with pytest.raises(UsageError, match="no archive"):
        restore_archive(archive(tmp_path / "a.tar", files, ["a.md"]), tmp_path / "again")


def test_an_archive_that_is_not_there_and_a_place_that_is_no_folder_are_named(tmp_path):
    with pytest.raises(UsageError, match=r"no\.tar"):
        restore_archive(tmp_path / "no.tar", tmp_path / "again")
    (tmp_path / "taken").write_text("x")
    good = archive(tmp_path / "a.tar", [{"path": "a.md", "sha256": SUM}], ["a.md"])
    with pytest.raises(UsageError, match="taken"):
        restore_archive(good, tmp_path / "taken")
