"""Lines of a page: numbered from 1, capped, and honest about what there is."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.errors import MissingFileError, PathError, UnreadableFileError, UsageError
from vademecum.store.excerpt import read_lines
from vademecum.types import Excerpt


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "x.md").write_bytes(b"\xef\xbb\xbfone\r\ntwo\nthree\r\n\r\nfive")
    (tmp_path / "empty.md").touch()
    return tmp_path


def lines(*values: object, truncated: bool = False) -> Excerpt:
    """An excerpt whose hash is not judged."""
    return Excerpt(*values, truncated, ANY)  # type: ignore[arg-type]


def test_lines_are_exact_and_numbered_from_one(root: Path) -> None:
    assert read_lines(root, "x.md") == lines("x.md", 1, 5, 5, "one\ntwo\nthree\n\nfive")
    assert read_lines(root, "x.md", 2, 2) == lines("x.md", 2, 3, 5, "two\nthree")
    assert read_lines(root, "x.md", 4, 1) == lines("x.md", 4, 4, 5, "")
    assert read_lines(root, "x.md", 5, 99) == lines("x.md", 5, 5, 5, "five")


def test_a_final_line_end_opens_no_further_line(root: Path) -> None:
    (root / "y.md").write_text("a\nb\n")
    assert read_lines(root, "y.md") == lines("y.md", 1, 2, 2, "a\nb")


def test_beyond_the_end_there_is_no_text_and_the_total_says_why(root: Path) -> None:
    assert read_lines(root, "x.md", 50) == lines("x.md", 50, 0, 5, "")
    assert read_lines(root, "empty.md") == lines("empty.md", 1, 0, 0, "")


@pytest.mark.parametrize(
    ("cap", "text", "end"),
    [(8, "ab\n日\nx", 3), (7, "ab\n日", 2), (6, "ab\n日", 2), (5, "ab", 1), (2, "ab", 1), (1, "a", 1)],
)
def test_the_cap_cuts_after_a_whole_line_and_says_so(root: Path, cap: int, text: str, end: int) -> None:
    (root / "y.md").write_text("ab\n日\nx\n", encoding="utf-8")
    assert read_lines(root, "y.md", max_bytes=cap) == lines("y.md", 1, end, 3, text, truncated=cap < 8)


def test_a_line_longer_than_the_cap_is_cut_between_characters(root: Path) -> None:
    (root / "y.md").write_text("日" * 2_000_000, encoding="utf-8")
    found = read_lines(root, "y.md")
    assert found.text == "日" * (65_536 // 3)
    assert (found.end_line, found.total_lines, found.truncated) == (1, 1, True)


@pytest.mark.parametrize("arguments", [{"start": 0}, {"start": -3}, {"start": "2"}, {"start": True}, {"lines": 0},
                                       {"lines": -1}, {"lines": 1.5}, {"max_bytes": 0}])  # fmt: skip
def test_numbers_that_name_no_line_are_refused_by_name(root: Path, arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(arguments))} = "):
        read_lines(root, "x.md", **arguments)  # type: ignore[arg-type]


def test_missing_unreadable_and_foreign_files_are_three_different_errors(root: Path) -> None:
    with pytest.raises(MissingFileError, match=r"y\.md"):
        read_lines(root, "y.md")
    (root / "y.md").write_bytes(b"\xff")
    with pytest.raises(UnreadableFileError, match=r"y\.md"):
        read_lines(root, "y.md")
    with pytest.raises(PathError, match=r"\.env"):
        read_lines(root, "memory/../.env")


@given(lines=st.lists(st.text("aé日 ", max_size=4), max_size=6), start=st.integers(1, 8),
       count=st.integers(1, 8), cap=st.integers(1, 40))  # fmt: skip
def test_an_excerpt_is_a_run_of_the_files_lines_within_the_cap(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], start: int, count: int, cap: int
) -> None:
    root = tmp_path_factory.mktemp("excerpt")
    (root / "p.md").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = read_lines(root, "p.md", start, count, cap)
    wanted = "\n".join(lines[start - 1 : start - 1 + count])
    assert found.total_lines == len(lines)
    assert len(found.text.encode()) <= cap
    assert wanted.startswith(found.text)
    assert found.truncated == (found.text != wanted)
    if found.end_line and not found.truncated:
        assert lines[start - 1 : found.end_line] == found.text.split("\n")


def test_the_hash_is_that_of_the_whole_file(root: Path) -> None:
    assert read_lines(root, "x.md", 2, 1).hash == sha256((root / "x.md").read_bytes()).hexdigest()
