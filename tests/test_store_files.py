"""One file: read strictly, written whole or not at all, and never over what could not be read."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store_support import environment, small_disk
from vademecum.errors import LockTimeoutError, MissingFileError, PathError, UnreadableFileError, UsageError, WriteError
from vademecum.store.files import Document, append, decode, read_text, replace, rewrite
from vademecum.store.journal import Journal
from vademecum.store.lock import root_lock
from vademecum.store.paths import Location, resolve

# Read before a test takes such variables away.
STRESS = bool(os.environ.get("VADEMECUM_STRESS"))

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX modes, links or signals")


def content(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if ".vademecum/" not in path.as_posix()}


def test_reading_keeps_line_ends_and_sets_the_byte_order_mark_aside(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    location = resolve(tmp_path, "x.md")
    file.write_bytes(b"\xef\xbb\xbf---\r\ntags: a\r\n---\r\nmixed\n")
    assert read_text(location) == Document("---\r\ntags: a\r\n---\r\nmixed\n", bom=True, newline="\r\n")
    file.write_bytes(b"")
    assert read_text(location) == Document("", bom=False, newline="\n")


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"ab\xff", 2),
        ("é".encode("latin-1"), 0),
        (b"\xef\xbb\xbfa\xffb", 4),
        (b"\xff\xfeh\0i\0", 0),
        (b"\xed\xa0\x80", 0),
    ],
)
def test_what_is_not_utf_8_is_named_with_the_place_and_never_rewritten(
    tmp_path: Path, data: bytes, offset: int
) -> None:
    (tmp_path / "x.md").write_bytes(data)
    for work in (
        lambda: read_text(resolve(tmp_path, "x.md")),
        lambda: append(tmp_path, resolve(tmp_path, "x.md"), "more"),
    ):
        with pytest.raises(UnreadableFileError, match=rf"x\.md: is not valid UTF-8 at byte {offset};"):
            work()
    with pytest.raises(UnreadableFileError):
        replace(tmp_path, resolve(tmp_path, "x.md"), Document("new"))
    assert (tmp_path / "x.md").read_bytes() == data


def test_only_a_missing_file_counts_as_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"x\.md"):
        read_text(resolve(tmp_path, "x.md"))
    (tmp_path / "x.md").mkdir()
    with pytest.raises(UnreadableFileError, match=r"x\.md"):
        read_text(resolve(tmp_path, "x.md"))
    with pytest.raises(UnreadableFileError):
        append(tmp_path, resolve(tmp_path, "x.md"), "more")
    (tmp_path / "page.md").write_text("a page")
    with pytest.raises(UnreadableFileError):
        read_text(resolve(tmp_path, "page.md/x.md"))


@posix
def test_a_pipe_with_the_name_of_a_page_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.md")
    with pytest.raises(UnreadableFileError, match="not a regular file"):
        read_text(resolve(tmp_path, "x.md"))


@posix
def test_a_name_that_became_a_link_after_the_check_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.md").write_text("outside")
    location = resolve(root, "x.md")
    (root / "x.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(UnreadableFileError):
        read_text(location)
    with pytest.raises(PathError, match="symbolic link"):
        append(root, location, "more")
    assert (tmp_path / "secret.md").read_text() == "outside"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b"new\n"),
        (b"", b"new\n"),
        (b"old", b"old\nnew\n"),
        (b"old\n", b"old\nnew\n"),
        (b"old\r\nmore", b"old\r\nmore\r\nnew\r\n"),
        (b"\xef\xbb\xbfold", b"\xef\xbb\xbfold\nnew\n"),
        (b"a\r\nb\nc\r\n", b"a\r\nb\nc\r\nnew\r\n"),
        (b"a\nb\r\nc\n", b"a\nb\r\nc\nnew\n"),
    ],
)
def test_append_starts_on_a_line_of_its_own_and_keeps_the_files_style(
    tmp_path: Path, before: bytes | None, after: bytes
) -> None:
    file = tmp_path / "sub" / "folder" / "x.md"
    if before is not None:
        file.parent.mkdir(parents=True)
        file.write_bytes(before)
    append(tmp_path, resolve(tmp_path, "sub/folder/x.md"), "new")
    assert file.read_bytes() == after


_LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\ufeff"), max_size=8)


@given(old=st.lists(_LINE, max_size=4), new=st.lists(_LINE, min_size=1, max_size=3), bom=st.booleans(),
       newline=st.sampled_from(["\n", "\r\n"]), closed=st.booleans())  # fmt: skip
def test_appended_text_is_read_back_and_the_old_bytes_stay(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str], bom: bool, newline: str, closed: bool
) -> None:
    root = tmp_path_factory.getbasetemp() / "round trip"
    root.mkdir(exist_ok=True)
    before = (b"\xef\xbb\xbf" if bom else b"") + newline.join([*old, ""] if closed else old).encode()
    (root / "x.md").write_bytes(before)
    text = "\n".join(new)
    append(root, resolve(root, "x.md"), text)
    after = (root / "x.md").read_bytes()
    document = decode(after, "x.md")
    assert after.startswith(before)
    assert document.bom == bom
    kept = decode(before, "x.md").text
    gap = "\n" if kept and not kept.endswith("\n") else ""
    assert document.text[len(kept) :].replace("\r\n", "\n") == gap + text + (
        "" if text.endswith("\n") or not text else "\n"
    )
    if newline == "\r\n" and b"\r\n" in before:
        assert "\n" not in document.text.replace("\r\n", "")


@posix
def test_mode_and_owner_survive_a_rewrite(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text("old\n")
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 12345, 54321)
    before = file.stat()
    append(tmp_path, resolve(tmp_path, "x.md"), "new")
    after = file.stat()
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert content(tmp_path) == {"x.md", ".vademecum"}


def test_text_that_cannot_be_encoded_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("old")
    with pytest.raises(UsageError, match="not valid Unicode"):
        append(tmp_path, resolve(tmp_path, "x.md"), "half a pair: \ud83d")
    assert (tmp_path / "x.md").read_text() == "old"
    assert content(tmp_path) == {"x.md", ".vademecum"}


def test_a_change_that_raises_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("old")

    def fail(_: Document | None) -> Document:
        raise RuntimeError("no idea")

    with pytest.raises(RuntimeError):
        rewrite(tmp_path, resolve(tmp_path, "x.md"), fail)
    assert (tmp_path / "x.md").read_text() == "old"
    append(tmp_path, resolve(tmp_path, "x.md"), "the lock is free")


def test_what_another_program_writes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    """An editor does not know our lock; the change is then made to what the editor saved."""
    file = tmp_path / "x.md"
    file.write_text("old\n")
    seen = []

    def change(old: Document | None) -> Document:
        assert old is not None
        seen.append(old.text)
        if len(seen) == 1:
            file.write_text("old\nby an editor\n")
        return Document(old.text + "new\n")

    rewrite(tmp_path, resolve(tmp_path, "x.md"), change)
    assert file.read_text() == "old\nby an editor\nnew\n"
    assert seen == ["old\n", "old\nby an editor\n"]


def test_a_file_that_never_rests_is_left_to_its_writer(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text("0")

    def change(old: Document | None) -> Document:
        assert old is not None
        file.write_text(str(int(old.text) + 1))
        return Document("lost")

    with pytest.raises(WriteError, match="keeps changing"):
        rewrite(tmp_path, resolve(tmp_path, "x.md"), change)
    assert int(file.read_text()) > 0


def test_a_root_that_is_gone_is_named_and_not_made_again(tmp_path: Path) -> None:
    location = Location("x.md", tmp_path / "gone" / "x.md")
    with pytest.raises(WriteError, match="gone"):
        append(tmp_path / "gone", location, "new")
    assert not (tmp_path / "gone").exists()


def test_a_page_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a page")
    with pytest.raises((WriteError, UnreadableFileError), match=r"a\.md"):
        append(tmp_path, resolve(tmp_path, "a.md/b.md"), "new")
    assert (tmp_path / "a.md").read_text() == "a page"


@pytest.mark.parametrize("text", ["new\n" * 200_000, Random(0).randbytes(300_000).hex()], ids=["page", "journal"])
def test_a_full_disk_leaves_the_old_content_and_no_scrap(tmp_path: Path, text: str) -> None:
    """Whether it is the page that finds no room, or what the journal keeps of it."""
    with small_disk(tmp_path / "disk", "400k") as root:
        (root / "x.md").write_text("old\n" * 5000)
        with pytest.raises(WriteError, match=r"x\.md.*(No space left|disk is full)"):
            append(root, resolve(root, "x.md"), text)
        assert (root / "x.md").read_text() == "old\n" * 5000
        assert content(root) == {"x.md", ".vademecum"}
        with pytest.raises(WriteError, match=r"new\.md"):
            append(root, resolve(root, "new.md"), text)
        assert not (root / "new.md").exists()
        append(root, resolve(root, "x.md"), "short")
        assert (root / "x.md").read_text() == "old\n" * 5000 + "short\n"


_APPEND = """
import sys
from pathlib import Path
from vademecum.store.files import append
from vademecum.store.paths import resolve
root, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(count):
    append(root, resolve(root, "memory/deep/2026-01-11.md"), f"- {name} {number}")
"""


@pytest.mark.stress
def test_twenty_processes_lose_no_line(tmp_path: Path) -> None:
    """Each line once, in the order of its writer, and each in the journal; 1,000 of them at full length."""
    count = 50 if STRESS else 8
    children = [
        subprocess.Popen([sys.executable, "-c", _APPEND, tmp_path, str(name), str(count)], env=environment())
        for name in range(20)
    ]
    assert [child.wait(timeout=120) for child in children] == [0] * 20
    lines = (tmp_path / "memory" / "deep" / "2026-01-11.md").read_text().splitlines()
    assert sorted(lines) == sorted(f"- {name} {number}" for name in range(20) for number in range(count))
    for name in range(20):
        assert [line for line in lines if line.startswith(f"- {name} ")] == [f"- {name} {i}" for i in range(count)]
    with Journal(tmp_path) as journal:
        entries = list(journal.entries())
    assert len(entries) == 20 * count
    assert all(newer.before == older.after for newer, older in pairwise(entries))


def test_eight_threads_lose_no_line(tmp_path: Path) -> None:
    def work(name: int) -> None:
        for number in range(10):
            append(tmp_path, resolve(tmp_path, "x.md"), f"- {name} {number}")

    threads = [threading.Thread(target=work, args=[name]) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set((tmp_path / "x.md").read_text().splitlines())) == 80


@posix
def test_a_killed_writer_leaves_the_old_or_the_new_content(tmp_path: Path) -> None:
    code = _APPEND.replace('f"- {name} {number}"', '"- " + str(number).zfill(6) * 5000')
    for wait in (0.0, 0.01, 0.02, 0.03, 0.05):
        child = subprocess.Popen([sys.executable, "-c", code, tmp_path, "x", "100000"], env=environment())
        file = tmp_path / "memory" / "deep" / "2026-01-11.md"
        size = file.stat().st_size if file.exists() else 0
        deadline = time.monotonic() + 20
        while (file.stat().st_size if file.exists() else 0) <= size and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        child.wait()
        lines = file.read_text().split("\n")
        assert lines.pop() == ""
        assert {len(line) for line in lines} == {30_002}
    append(tmp_path, resolve(tmp_path, "memory/deep/2026-01-11.md"), "the lock is free")
    assert content(tmp_path) == {"memory", "memory/deep", "memory/deep/2026-01-11.md", ".vademecum"}


def test_a_held_lock_times_out_and_says_that_it_may_be_tried_again(tmp_path: Path) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with root_lock(tmp_path):
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    try:
        with pytest.raises(LockTimeoutError) as caught, root_lock(tmp_path, timeout=0.05):
            pass
    finally:
        done.set()
        thread.join()
    assert caught.value.retryable
    assert str(tmp_path.resolve()) in str(caught.value)
    with root_lock(tmp_path, timeout=0.05), root_lock(tmp_path, timeout=0.05):
        pass


def test_another_process_is_kept_out_while_the_lock_is_held(tmp_path: Path) -> None:
    code = _APPEND + "print('written')\n"
    with root_lock(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", code, tmp_path, "x", "1"], env=environment())
        time.sleep(0.4)
        assert not (tmp_path / "memory").exists()
    assert child.wait(timeout=20) == 0
    assert (tmp_path / "memory" / "deep" / "2026-01-11.md").read_text() == "- x 0\n"
