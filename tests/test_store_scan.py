"""What belongs to a memory, what does not and is named, and that "cannot be seen" is never taken for "is gone"."""

from __future__ import annotations

import os
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest

from store_support import python
from vademecum.errors import MissingFileError, StoreError, UnreadableFileError
from vademecum.store.layout import Layout, detect
from vademecum.store.scan import FileStat, absent, load, scan

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX links or names")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "memory").mkdir()
    return detect(tmp_path)


def write(layout: Layout, *paths: str, text: str = "x") -> None:
    for path in paths:
        file = layout.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")


def paths(layout: Layout) -> list[str]:
    return [file.path for file in scan(layout).files]


def stat_of(layout: Layout, path: str) -> FileStat:
    return next(file for file in scan(layout).files if file.path == path)


def test_every_page_is_found_and_nothing_else(layout: Layout) -> None:
    pages = ["..notes.md", "MEMORY.md", "UPPER.MD", "a/b/c/deep.md", "goals.md", "knowledge/a/b.md",
             "memory/2026-01-11.md", "memory/users/al/x.md", "日记.md"]  # fmt: skip
    others = [".hidden.md", ".git/x.md", ".vademecum/x.md", "knowledge/.obsidian/x.md", "memory/dreams/2026-01-11.md",
              "memory/evolution/x.md", "memory/users/al/dreams/x.md", "node_modules/p/README.md", "venv/README.md",
              "notes.txt", "md", "x.mdx", "index.sqlite"]  # fmt: skip
    write(layout, *pages, *others)
    found = scan(layout)
    assert [file.path for file in found.files] == sorted(pages)
    assert found.notices == found.unreadable == ()


def test_an_empty_memory_is_an_empty_scan(layout: Layout) -> None:
    assert scan(layout).files == ()


def test_a_folder_with_the_name_of_a_page_is_named_and_looked_into(layout: Layout) -> None:
    write(layout, "x.md/inner.md")
    found = scan(layout)
    assert [file.path for file in found.files] == ["x.md/inner.md"]
    assert len(found.notices) == 1
    assert found.notices[0][0] == "x.md"
    assert found.notices[0][1].startswith("x.md: skipped")


@posix
def test_links_are_skipped_with_a_notice_that_names_link_and_target(layout: Layout, tmp_path: Path) -> None:
    write(layout, "MEMORY.md")
    outside = tmp_path.parent / f"{tmp_path.name} outside"
    outside.mkdir()
    (outside / "secret.md").write_text("outside")
    (layout.root / "vault").symlink_to(outside)
    (layout.root / "page.md").symlink_to(outside / "secret.md")
    (layout.root / "loop").symlink_to("memory")
    (layout.root / "memory" / "up").symlink_to("..")
    (layout.root / "broken.md").symlink_to("nowhere")
    (layout.root / "self.md").symlink_to("self.md")
    (layout.root / "notes.txt").symlink_to("MEMORY.md")
    found = scan(layout)
    assert [file.path for file in found.files] == ["MEMORY.md"]
    assert [path for path, _ in found.notices] == [
        "broken.md", "loop", "memory/up", "page.md", "self.md", "vault"
    ]  # fmt: skip
    assert str(outside / "secret.md") in found.notices[3][1]


@posix
def test_a_root_that_is_a_link_is_followed(layout: Layout) -> None:
    write(layout, "MEMORY.md")
    link = layout.root.parent / f"{layout.root.name}-link"
    link.symlink_to(layout.root)
    assert paths(detect(link)) == ["MEMORY.md"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that takes any bytes as a name")
def test_a_name_that_is_not_utf_8_is_named_and_skipped(layout: Layout) -> None:
    (layout.root / os.fsdecode(b"caf\xe9.md")).write_text("x")
    (layout.root / os.fsdecode(b"dir\xe9")).mkdir()
    (layout.root / os.fsdecode(b"dir\xe9") / "x.md").write_text("x")
    found = scan(layout)
    assert found.files == ()
    assert len(found.notices) == 2
    assert "caf\\udce9.md: skipped" in found.notices[0][1]
    "".join(map("".join, found.notices)).encode()


@posix
def test_a_pipe_with_the_name_of_a_page_is_named_and_not_opened(layout: Layout) -> None:
    os.mkfifo(layout.root / "x.md")
    found = scan(layout)
    assert found.files == ()
    assert "not a regular file" in found.notices[0][1]


def test_a_root_that_is_missing_or_no_folder_is_an_error_and_never_an_empty_memory(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="gone"):
        scan(Layout(tmp_path / "gone", "workspace"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="file"):
        scan(Layout(tmp_path / "file", "workspace"))


def test_a_root_exchanged_during_the_scan_is_an_error(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    write(layout, "MEMORY.md", "memory/x.md")
    listed = []
    real = os.scandir

    def exchange(folder: str) -> object:
        listed.append(folder)
        if len(listed) == 2:
            layout.root.rename(f"{layout.root}-away")
            layout.root.mkdir()
        return real(folder)

    monkeypatch.setattr(os, "scandir", exchange)
    with pytest.raises(StoreError, match="exchanged"):
        scan(layout)


_CLOSED = """
import os, sys
from pathlib import Path
from vademecum.errors import StoreError, UnreadableFileError, WriteError
from vademecum.store.files import append
from vademecum.store.layout import detect
from vademecum.store.paths import resolve
from vademecum.store.scan import absent, load, scan

layout = detect(Path(sys.argv[1]))
(layout.root / "memory" / "closed").chmod(0)
(layout.root / "memory" / "listed").chmod(0o444)
(layout.root / "secret.md").chmod(0)
(layout.root / "fixed.md").chmod(0o444)
try:
    found = scan(layout)
    print(*[file.path for file in found.files])
    print(*found.unreadable)
    asked = ("memory/closed/a/b.md", "memory/listed/x.md", "memory/closed.md", "gone.md")
    print(*[found.hides(path) for path in asked])
    print(*[absent(layout, path) for path in asked])
    secret = next(file for file in found.files if file.path == "secret.md")
    for work in (
        lambda: load(layout, secret, 0.0),
        lambda: append(layout.root, resolve(layout.root, "secret.md"), "more"),
        lambda: append(layout.root, resolve(layout.root, "fixed.md"), "more"),
        lambda: append(layout.root, resolve(layout.root, "memory/closed/new.md"), "more"),
    ):
        try:
            work()
        except (UnreadableFileError, WriteError) as error:
            print(type(error).__name__)
    layout.root.chmod(0)
    try:
        scan(layout)
    except StoreError:
        print("StoreError")
finally:
    layout.root.chmod(0o755)
    for path in ("memory/closed", "memory/listed", "secret.md", "fixed.md"):
        (layout.root / path).chmod(0o755)
"""


@posix
def test_what_cannot_be_read_is_named_kept_and_never_rewritten(layout: Layout) -> None:
    write(layout, "MEMORY.md", "memory/closed/a/b.md", "memory/listed/x.md", "secret.md", "fixed.md")
    said = python(_CLOSED, layout.root, unprivileged=True).stdout.splitlines()
    assert said == [
        "MEMORY.md fixed.md secret.md",
        "memory/closed memory/listed/x.md",
        "True True False False",
        "False False True True",
        "UnreadableFileError",
        "UnreadableFileError",
        "WriteError",
        "UnreadableFileError",
        "StoreError",
    ]
    assert (layout.root / "secret.md").read_text() == (layout.root / "fixed.md").read_text() == "x"


def test_a_page_written_after_the_scan_is_not_absent(layout: Layout) -> None:
    write(layout, "a.md", "memory/dreams/x.md", "x.md/inner.md")
    assert not absent(layout, "a.md")
    for path in ("b.md", "no/folder/b.md", "a.md/b.md", "memory/dreams/x.md", "x.md"):
        assert absent(layout, path), path


@posix
def test_a_page_that_became_a_link_or_stands_behind_one_is_absent(layout: Layout) -> None:
    write(layout, "a.md", "memory/x.md")
    (layout.root / "link.md").symlink_to("a.md")
    (layout.root / "folder").symlink_to("memory")
    assert absent(layout, "link.md")
    assert absent(layout, "folder/x.md")


def test_a_stamp_changes_with_content_replacement_and_time(layout: Layout) -> None:
    write(layout, "a.md", text="one")
    stamps = {stat_of(layout, "a.md").stamp}
    assert stat_of(layout, "a.md").stamp in stamps
    write(layout, "a.md", text="three")
    stamps.add(stat_of(layout, "a.md").stamp)
    os.utime(layout.root / "a.md", (1, 1))
    stamps.add(stat_of(layout, "a.md").stamp)
    write(layout, "new", text="three")
    os.utime(layout.root / "new", (1, 1))
    (layout.root / "new").replace(layout.root / "a.md")
    stamps.add(stat_of(layout, "a.md").stamp)
    assert len(stamps) == 4


def test_a_page_is_loaded_with_all_that_the_index_must_know(layout: Layout) -> None:
    text = "\ufeff---\r\ntags: [Tax, 税]\r\n---\r\n\r\n# Day\r\n"
    write(layout, "memory/users/al/2026-01-11.md", text=text)
    file = stat_of(layout, "memory/users/al/2026-01-11.md")
    now = (layout.root / file.path).stat().st_ctime
    page = load(layout, file, now + 10)
    assert page.text == text[1:]
    assert page.source.path == file.path
    assert page.source.scope == "user:al"
    assert page.source.kind == "daily"
    assert page.source.date == "2026-01-11"
    assert page.source.stat == file.stamp
    assert page.source.fingerprint == sha256(text.encode()).hexdigest()
    assert page.source.tags == ("tax", "税")
    assert page.source.settled
    assert not load(layout, file, now + 0.5).source.settled
    assert not load(layout, file, now - 100).source.settled


@pytest.mark.parametrize(("head", "day"), [("true", None), ("false", "2026-01-11"), ("maybe", "2026-01-11")])
def test_front_matter_can_make_a_dated_page_evergreen(layout: Layout, head: str, day: str | None) -> None:
    write(layout, "2026-01-11.md", text=f"---\nevergreen: {head}\n---\ntext\n")
    assert load(layout, stat_of(layout, "2026-01-11.md"), 0.0).source.date == day


def test_a_page_that_changed_or_went_since_the_scan_is_seen_as_it_is(layout: Layout) -> None:
    write(layout, "a.md", text="old")
    file = stat_of(layout, "a.md")
    write(layout, "a.md", text="newer")
    page = load(layout, file, time.time())
    assert page.text == "newer"
    assert page.source.stat == stat_of(layout, "a.md").stamp != file.stamp
    (layout.root / "a.md").write_bytes(b"\xff")
    with pytest.raises(UnreadableFileError, match=r"^[^/]*\.md: is not valid UTF-8 at byte 0"):
        load(layout, file, 0.0)
    (layout.root / "a.md").unlink()
    with pytest.raises(MissingFileError):
        load(layout, file, 0.0)


def test_ten_thousand_pages_are_scanned_in_a_blink(layout: Layout) -> None:
    for number in range(10_000):
        folder = layout.root / "memory" / str(number % 50)
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.md").touch()
    took = []
    for _ in range(3):
        start = time.perf_counter()
        assert len(scan(layout).files) == 10_000
        took.append(time.perf_counter() - start)
    # 0.1 s on a machine that does nothing else.
    assert min(took) < 1.0
