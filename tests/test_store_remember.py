"""Adding a memory keeps a page good Markdown and loses nothing that was there."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store_support import python, read_only, small_disk
from vademecum.chunk import chunk_markdown
from vademecum.errors import PathError, UnreadableFileError, UsageError, WriteError
from vademecum.settings import ChunkSettings, ContextSettings
from vademecum.store.excerpt import read_lines
from vademecum.store.layout import Layout, detect
from vademecum.store.remember import remember, standing
from vademecum.store.root import create
from vademecum.store.scan import FileStat, load
from vademecum.text.markdown import scan
from vademecum.types import Viewer, Written

DAY = date(2026, 1, 11)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return create(tmp_path)


def test_plain_lines_become_one_list_under_the_title(layout: Layout) -> None:
    assert remember(layout, "Likes tea.", "MEMORY.md") == Written("MEMORY.md", 3, 3)
    assert remember(layout, "  中文 也行 \n", "MEMORY.md") == Written("MEMORY.md", 4, 4)
    assert (layout.root / "MEMORY.md").read_text(encoding="utf-8") == "# Memory\n\n- Likes tea.\n- 中文 也行\n"


def test_new_pages_begin_with_their_title(layout: Layout) -> None:
    daily = layout.alias("daily", Viewer(user="al"), DAY)
    assert remember(layout, "Sold the fund.", daily) == Written("memory/users/al/2026-01-11.md", 3, 3)
    assert (layout.root / daily).read_text() == "# 2026-01-11\n\n- Sold the fund.\n"
    remember(layout, "x", layout.alias("long_term", Viewer(agent="a"), DAY))
    assert (layout.root / "memory/agents/a/MEMORY.md").read_text() == "# Memory\n\n- x\n"
    assert remember(layout, "x", "goals.md") == Written("goals.md", 1, 1)
    assert remember(layout, "# My own title\n\ntext", "memory/2026-01-12.md") == Written("memory/2026-01-12.md", 1, 3)


@pytest.mark.parametrize("old", ["", "\n\n", "  ", "\ufeff"])
def test_a_page_without_content_gets_its_title(layout: Layout, old: str) -> None:
    (layout.root / "MEMORY.md").write_text(old, encoding="utf-8")
    remember(layout, "x", "MEMORY.md")
    assert (layout.root / "MEMORY.md").read_text(encoding="utf-8").endswith("# Memory\n\n- x\n")


@pytest.mark.parametrize(
    ("old", "text", "new"),
    [
        ("- a\n", "b", "- a\n- b\n"),
        ("- a", "b", "- a\n- b\n"),
        ("* a\n  more\n", "b", "* a\n  more\n- b\n"),
        ("- a\n\n", "b", "- a\n\n- b\n"),
        ("A paragraph.\n", "b", "A paragraph.\n\n- b\n"),
        ("## Head\n", "b", "## Head\n\n- b\n"),
        ("- a\n", "## Trades\n\n- one\n- two\n\n", "- a\n\n## Trades\n\n- one\n- two\n"),
        ("- a\n", "- one\n- two", "- a\n- one\n- two\n"),
        ("- a\n", "1. one", "- a\n1. one\n"),
        ("- a\n", "> quoted", "- a\n\n> quoted\n"),
        ("text\n", "---", "text\n\n---\n"),
        ("text\n", "==", "text\n\n- ==\n"),
        ("- a\n", "one\ntwo", "- a\n\none\ntwo\n"),
        ("- a\n", "\n\n    code\n    more\n", "- a\n\n    code\n    more\n"),
        ("- a\n", "```\ncode\n```", "- a\n\n```\ncode\n```\n"),
        ("| a |\n|---|\n", "b", "| a |\n|---|\n\n- b\n"),
        ("- a\n", "#tag is no heading", "- a\n- #tag is no heading\n"),
        ("- a\n", "2026 was good.", "- a\n- 2026 was good.\n"),
        ("- a\n", "-5 % today", "- a\n- -5 % today\n"),
        ("- a\n", "one\r\ntwo\rthree", "- a\n\none\ntwo\nthree\n"),
    ],
)
def test_what_is_added_stays_what_it_is(layout: Layout, old: str, text: str, new: str) -> None:
    (layout.root / "x.md").write_text(old)
    written = remember(layout, text, "x.md")
    assert (layout.root / "x.md").read_text() == new
    assert new.splitlines()[written.start_line - 1 : written.end_line][-1] == new.splitlines()[-1]


_FIELDS = "---\nsecret: quince42\n---"


@pytest.mark.parametrize(
    "old", [None, "", "\n", "\ufeff", "---\n", "---\ntitle: pear\n", "---\na: pear\n---\n", "# T\n"]
)
@pytest.mark.parametrize("text", [_FIELDS, f"\n{_FIELDS}\n", "---\n---", "...", "---", f"a: fig\n{_FIELDS}"])
def test_no_text_becomes_front_matter_and_none_makes_front_matter_of_what_was_there(
    layout: Layout, old: str | None, text: str
) -> None:
    file = layout.root / "new.md"
    if old is not None:
        file.write_text(old, encoding="utf-8")
    before = [block for block in scan((old or "").removeprefix("\ufeff")) if block.kind == "front_matter"]
    written = remember(layout, text, "new.md")
    page = file.read_text(encoding="utf-8-sig")
    assert [block for block in scan(page) if block.kind == "front_matter"] == before
    assert page.startswith((old or "").removeprefix("\ufeff"))
    found = read_lines(layout.root, "new.md", written.start_line)
    assert found.text.removeprefix("- ") == text.strip()


def test_a_remembered_text_that_looks_like_front_matter_is_in_a_chunk(layout: Layout) -> None:
    remember(layout, _FIELDS, "new.md")
    page = load(layout, FileStat("new.md", "", 0), 0.0)
    assert any("quince42" in chunk.text for chunk in chunk_markdown(page.text, ChunkSettings()))
    assert page.source.tags == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("```python\ncode\n", "```python\ncode\n```\n\n- fig\n"),
        ("```\ncode", "```\ncode\n```\n\n- fig\n"),
        ("text\n\n````\n```\n\n", "text\n\n````\n```\n\n````\n\n- fig\n"),
        ("~~~~ sh\n", "~~~~ sh\n~~~~\n\n- fig\n"),
        ("- a\n  ```\n  code\n", "- a\n  ```\n  code\n  ```\n\n- fig\n"),
        ("- ```\n  code\n", "- ```\n  code\n  ```\n\n- fig\n"),
        ("```\r\ncode\r\n", "```\r\ncode\r\n```\r\n\r\n- fig\r\n"),
        ("```\ncode\n```\n", "```\ncode\n```\n\n- fig\n"),
        ("```\ncode\n~~~\n```\n\n", "```\ncode\n~~~\n```\n\n- fig\n"),
    ],
)
def test_code_that_a_page_left_open_does_not_swallow_what_is_remembered(layout: Layout, old: str, new: str) -> None:
    (layout.root / "x.md").write_bytes(old.encode())
    written = remember(layout, "fig", "x.md")
    page = (layout.root / "x.md").read_bytes().decode()
    assert page == new
    assert scan(page)[-1].kind == "item"
    assert page[scan(page)[-1].start :].strip() == read_lines(layout.root, "x.md", written.start_line).text == "- fig"


def test_the_pages_style_of_line_ends_is_kept(layout: Layout) -> None:
    (layout.root / "x.md").write_bytes(b"\xef\xbb\xbf# T\r\n\r\nold\r\n")
    assert remember(layout, "one\ntwo", "x.md") == Written("x.md", 5, 6)
    assert (layout.root / "x.md").read_bytes() == b"\xef\xbb\xbf# T\r\n\r\nold\r\n\r\none\r\ntwo\r\n"


@pytest.mark.parametrize("text", ["", " ", "\n\t\n", "\ufeff", " \ufeff\n", "a\0b", None, b"x"])
def test_nothing_to_remember_is_an_error_and_makes_no_file(layout: Layout, text: object) -> None:
    with pytest.raises(UsageError, match="text"):
        remember(layout, text, "x.md")  # type: ignore[arg-type]
    assert not (layout.root / "x.md").exists()


@pytest.mark.parametrize("path", ["memory/dreams/x.md", "venv/x.md", "a/node_modules/x.md"])
def test_a_page_that_no_search_would_find_is_refused(layout: Layout, path: str) -> None:
    with pytest.raises(PathError, match="not indexed"):
        remember(layout, "x", path)
    assert not (layout.root / path).exists()


@pytest.mark.parametrize("path", ["../x.md", "index.sqlite", ".vademecum/x.md", "memory", ""])
def test_the_guard_stands_before_every_write(layout: Layout, path: str) -> None:
    with pytest.raises(PathError):
        remember(layout, "x", path)


def test_a_page_that_cannot_be_decoded_is_left_alone(layout: Layout) -> None:
    (layout.root / "MEMORY.md").write_bytes(b"\xff\xfeold")
    with pytest.raises(UnreadableFileError, match=r"^MEMORY\.md: is not valid UTF-8"):
        remember(layout, "x", "MEMORY.md")
    assert (layout.root / "MEMORY.md").read_bytes() == b"\xff\xfeold"


def test_a_read_only_root_is_an_error_that_names_it_and_can_still_be_read(layout: Layout) -> None:
    with read_only(layout.root) as root:
        with pytest.raises(WriteError, match=str(layout.root)):
            remember(detect(root), "x", "MEMORY.md")
        assert read_lines(root, "MEMORY.md").text == ""


def test_a_full_disk_is_an_error_that_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "400k") as root:
        layout = create(root)
        remember(layout, "kept", "MEMORY.md")
        with pytest.raises(WriteError, match=r"No space left|disk is full"):
            remember(layout, "x" * 1_000_000, "MEMORY.md")
        assert (root / "MEMORY.md").read_text() == "# Memory\n\n- kept\n"


_REFUSED = """
import sys
from pathlib import Path
from vademecum.errors import WriteError
from vademecum.store.layout import detect
from vademecum.store.remember import remember
from vademecum.store.root import create
root = Path(sys.argv[1])
root.chmod(0o555)
try:
    for work in (lambda: remember(detect(root), "x", "MEMORY.md"), lambda: create(root / "new")):
        try:
            work()
        except WriteError as error:
            print(root.name in str(error))
finally:
    root.chmod(0o755)
"""


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    assert python(_REFUSED, tmp_path, unprivileged=True).stdout.split() == ["True", "True"]
    assert list(tmp_path.iterdir()) == []


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


@given(texts=st.lists(_TEXT, min_size=1, max_size=4))
def test_where_a_text_is_said_to_stand_it_stands(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    layout = Layout(tmp_path_factory.mktemp("remember").resolve(), "workspace")
    (layout.root / "r.md").unlink(missing_ok=True)
    for text in texts:
        try:
            written = remember(layout, text, "r.md")
        except UsageError:
            continue
        found = read_lines(layout.root, "r.md", written.start_line, written.end_line - written.start_line + 1)
        if written.existed:
            assert standing(found.text, text.strip()) or text.split() == found.text.removeprefix("- ").split()
            continue
        assert written.end_line == found.total_lines
        assert text.replace("\r\n", "\n").replace("\r", "\n").strip("\ufeff").strip() in found.text


@pytest.mark.parametrize(
    ("page", "text", "line"),
    [
        ("# M\n\n- Likes tea.\n", "Likes tea.", 3),
        ("# M\n\n- Likes tea.\n- x\n", "- Likes  tea", 3),
        ("* Zu\u0308rich\n", "Z\u00fcrich", 1),
        ("- Likes\n  tea.\n", "Likes tea.", 1),
        ("Likes tea.\r\n", "Likes tea。", 1),
        ("- a\n\n## Trades\n\n- one\n- two\n", "## Trades\n\n- one\n- two", 3),
    ],
)
def test_what_is_there_word_for_word_is_not_written_again(layout: Layout, page: str, text: str, line: int) -> None:
    (layout.root / "x.md").write_bytes(page.encode())
    written = remember(layout, text, "x.md")
    assert (written.existed, written.start_line, written.entry) == (True, line, None)
    assert (layout.root / "x.md").read_bytes() == page.encode()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("- The limit is at most 5 %.\n", "The limit is at most 8 %."),
        ("- Alice likes tea.\n", "Bob likes tea."),
        ("- Alice likes tea.\n", "Alice does not like tea."),
        ("- Alice likes tea.\n", "ALICE likes tea."),
        ("- [ ] Call the bank.\n", "- [x] Call the bank."),
        ("- No longer true:\n  - Likes tea.\n", "Likes tea."),
        ("> Likes tea.\n", "Likes tea."),
        ("```\nLikes tea.\n```\n", "Likes tea."),
        ("- Likes tea and cake.\n", "Likes tea"),
        ("---\ntags: a\n---\n\ntext\n", "---\ntags: a\n---"),
        ("- one\n- two more\n", "- one\n- two"),
    ],
)
def test_what_differs_in_a_number_a_name_or_a_word_is_news(layout: Layout, page: str, text: str) -> None:
    (layout.root / "x.md").write_text(page)
    assert not remember(layout, text, "x.md").existed
    assert (layout.root / "x.md").read_text().startswith(page)
    assert text.splitlines()[-1] in (layout.root / "x.md").read_text()[len(page) :]


def test_a_writer_is_warned_when_the_memory_becomes_longer_than_what_is_told_of_it(layout: Layout) -> None:
    (layout.root / "MEMORY.md").write_text("# M\n\n## Old\n\n" + "".join(f"- {n}\n" for n in range(195)))
    assert remember(layout, "fits", "MEMORY.md").warnings == ()
    (warning,) = remember(layout, "too much", "MEMORY.md").warnings
    assert warning.startswith("MEMORY.md has 201 lines and ")
    assert "items cut from Old" in warning
    assert remember(layout, "x\n" * 300, "elsewhere.md").warnings == ()
    assert remember(layout, "x", "MEMORY.md", limits=ContextSettings(max_lines=999)).warnings == ()


def test_a_writer_is_told_of_secrets_without_repeating_them(layout: Layout) -> None:
    key = "ghp" + "_" + "a1B2c3D4e5F6" * 3
    assert remember(layout, f"key {key}", "x.md").warnings == (
        "x.md:1: what looks like an api key is kept as it was written",
    )
    assert remember(layout, f"again {key}", "x.md", by="agent").warnings == (
        "x.md:2: what looks like an api key was blacked out",
    )
