"""What `.vademecumignore` keeps out stays out, everywhere and at once, and what it lets in comes back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories import OpenMemory, paths, write
from vademecum.errors import PathError, UnreadableFileError
from vademecum.store.ignore import IGNORE_FILE, ignored
from vademecum.store.layout import detect
from vademecum.store.scan import absent, scan


def found(root: Path) -> list[str]:
    return [file.path for file in scan(detect(root)).files]


def test_pages_and_folders_that_match_are_no_part_of_the_memory(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(("a.md", "a.draft.md", "keep.draft.md", "old/b.md", "x/old/c.md", "x/d.md"), "x"))
    write(tmp_path, {IGNORE_FILE: "# drafts\n*.draft.md\n!keep.draft.md\n\nold/\n"})
    assert found(tmp_path) == ["a.md", "keep.draft.md", "x/d.md"]
    layout = detect(tmp_path)
    assert absent(layout, "old/b.md")
    assert not absent(layout, "keep.draft.md")


def test_a_change_of_the_rules_is_a_change_of_the_memory(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "the red zebra", "private/b.md": "the blue zebra"})
    assert set(paths(memory.search("zebra"))) == {"a.md", "private/b.md"}
    (memory.root / IGNORE_FILE).write_text("private/\n")
    assert paths(memory.search("zebra")) == ["a.md"]
    assert memory.status().files_on_disk == 1
    (memory.root / IGNORE_FILE).unlink()
    assert set(paths(memory.search("zebra"))) == {"a.md", "private/b.md"}


def test_nothing_is_remembered_where_it_would_never_be_found(open_memory: OpenMemory) -> None:
    memory = open_memory({IGNORE_FILE: "scratch/\n"})
    with pytest.raises(PathError, match=f"{IGNORE_FILE} keeps it out"):
        memory.remember("a zebra", file="scratch/a.md")
    memory._core.index_file("scratch/a.md")
    assert memory.search("zebra", wait_ms=0).hits == ()
    assert not (memory.root / "scratch").exists()


@pytest.mark.parametrize("line", ["!", "/", "a[", "a\\", "[[:alpha:]].md"])
def test_a_line_that_is_no_pattern_is_named_and_the_others_count(tmp_path: Path, line: str) -> None:
    write(tmp_path, {"a.md": "x", "b.md": "x", IGNORE_FILE: f"{line}\r\nb.md\r\n"})
    assert found(tmp_path) == ["a.md"]
    ((path, text),) = scan(detect(tmp_path)).notices
    assert path == IGNORE_FILE
    assert f"line 1 ({line!r})" in text


def test_a_question_mark_stands_for_one_character_of_any_script(tmp_path: Path) -> None:
    write(tmp_path, {"é.md": "x", "日.md": "x", "日记.md": "x", IGNORE_FILE: "?.md\n"})
    assert found(tmp_path) == ["日记.md"]


def test_a_link_that_is_kept_out_is_not_talked_of(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", IGNORE_FILE: "link.md\n"})
    (tmp_path / "link.md").symlink_to("a.md")
    assert scan(detect(tmp_path)).notices == ()


@pytest.mark.parametrize("spoil", [lambda file: file.mkdir(), lambda file: file.write_bytes(b"\xff\xfe")])
def test_rules_that_cannot_be_read_let_nothing_in(open_memory: OpenMemory, spoil: object) -> None:
    memory = open_memory({"a.md": "the red zebra"})
    assert paths(memory.search("zebra")) == ["a.md"]
    spoil(memory.root / IGNORE_FILE)
    write(memory.root, {"secret.md": "the secret zebra"})
    with pytest.raises(UnreadableFileError, match=IGNORE_FILE):
        scan(detect(memory.root))
    result = memory.search("zebra")
    assert IGNORE_FILE in str(result.disabled)
    assert not absent(detect(memory.root), "a.md")


PARTS = st.sampled_from(
    ["a", "b", "a.md", "*.md", "*", "**", "***", "?", "?.md", "[ab]", "[!a]", "[^a-b]*", "[]a]", "a*", "*b", "[z-a]",
     "\\a", "b\\*", "[\\]a]", "a.md ", "a[", "\\", "#a"]
)  # fmt: skip
PATTERNS = st.lists(
    st.tuples(st.sampled_from(["", "!"]), st.sampled_from(["", "/"]), st.lists(PARTS, min_size=1, max_size=3),
              st.sampled_from(["", "/"])).map(lambda p: f"{p[0]}{p[1]}{'/'.join(p[2])}{p[3]}"),
    max_size=4,
)  # fmt: skip
PAGES = [f"{folder}{name}.md" for folder in ("", "a/", "b/", "a/b/", "c/", "b/a/b/") for name in ("a", "b", "c")]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "config", "core.quotepath", "false"], cwd=root, check=True)
    return root


@given(patterns=PATTERNS)
def test_the_rules_are_those_of_git(repository: Path, patterns: list[str]) -> None:
    text = "\n".join(patterns)
    write(repository, {".gitignore": text, IGNORE_FILE: text})
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        cwd=repository, input="\n".join(PAGES), capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    rules = ignored(repository)
    assert [page for page in PAGES if rules.hides(page)] == asked.stdout.splitlines()
