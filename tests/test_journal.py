"""Nothing that a page said is lost: every change keeps what was there, by whom it was made and why."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from store_support import environment
from vademecum.errors import ConflictError, MissingFileError, StoreError, UsageError
from vademecum.settings import JournalSettings
from vademecum.store.files import Document, append, move, read_text, remove, replace, rewrite
from vademecum.store.journal import Journal, content_hash
from vademecum.store.lock import root_lock
from vademecum.store.paths import Location, resolve
from vademecum.types import LogEntry

# Read before a test takes such variables away.
STRESS = bool(os.environ.get("VADEMECUM_STRESS"))

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX modes")


def page(root: Path, path: str = "MEMORY.md") -> Location:
    return resolve(root, path)


def log(root: Path, path: str | None = None) -> list[LogEntry]:
    with Journal(root) as journal:
        return list(journal.entries(path))


def kept(root: Path, digest: str | None) -> bytes:
    assert digest is not None
    with Journal(root) as journal:
        return journal.content(digest)


def test_a_change_keeps_what_was_there_with_who_when_and_why(tmp_path: Path) -> None:
    append(tmp_path, page(tmp_path), "- one")
    append(tmp_path, page(tmp_path), "- two", by="flush", why="before compaction")
    second, first = log(tmp_path)
    assert (first.by, first.why, first.path, first.before) == ("person", "", "MEMORY.md", None)
    assert (second.by, second.why, second.before) == ("flush", "before compaction", first.after)
    assert first.at <= second.at
    assert (kept(tmp_path, second.before), kept(tmp_path, second.after)) == (b"- one\n", b"- one\n- two\n")


def test_what_the_journal_keeps_is_written_before_the_page_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a power cut at any point leaves a page, and a journal that knows the one before it."""
    append(tmp_path, page(tmp_path), "old")
    seen = []
    original = Path.replace

    def look(self: Path, target: Path) -> Path:
        seen.append([kept(tmp_path, entry.before) for entry in log(tmp_path) if entry.before])
        return original(self, target)

    monkeypatch.setattr(Path, "replace", look)
    replace(tmp_path, page(tmp_path), Document("new\n"))
    assert seen == [[b"old\n"]]


def test_content_that_stays_the_same_is_no_change(tmp_path: Path) -> None:
    append(tmp_path, page(tmp_path), "old")
    before = page(tmp_path).file.stat()
    assert rewrite(tmp_path, page(tmp_path), lambda old: old or Document("")).entry is None
    assert len(log(tmp_path)) == 1
    assert page(tmp_path).file.stat().st_ino == before.st_ino


def test_a_change_expected_to_meet_other_content_is_refused_and_names_both(tmp_path: Path) -> None:
    append(tmp_path, page(tmp_path), "seen by the reader")
    seen = read_text(page(tmp_path)).hash
    append(tmp_path, page(tmp_path), "written meanwhile")
    found = content_hash(page(tmp_path).file.read_bytes())
    for work in (
        lambda: rewrite(tmp_path, page(tmp_path), lambda _: Document("lost"), expect=seen),
        lambda: remove(tmp_path, page(tmp_path), expect=seen),
        lambda: move(tmp_path, page(tmp_path), page(tmp_path, "x.md"), expect=seen),
    ):
        with pytest.raises(
            ConflictError, match=f"expected content {seen[:12]}, found {found[:12]}.*read it again"
        ) as c:
            work()
        assert not c.value.retryable
        assert isinstance(c.value, StoreError)
    assert page(tmp_path).file.read_text() == "seen by the reader\nwritten meanwhile\n"
    rewrite(tmp_path, page(tmp_path), lambda _: Document("decided anew\n"), expect=found[:12])
    with pytest.raises(UsageError, match="12 to 64 digits"):
        rewrite(tmp_path, page(tmp_path), lambda _: Document("x"), expect="newest")
    with pytest.raises(ConflictError, match="found nothing"):
        rewrite(tmp_path, page(tmp_path, "gone.md"), lambda _: Document("x"), expect=found)


def test_moving_and_deleting_are_on_record_and_a_page_is_followed_to_its_old_names(tmp_path: Path) -> None:
    append(tmp_path, page(tmp_path, "a.md"), "text")
    move(tmp_path, page(tmp_path, "a.md"), page(tmp_path, "deep/b.md"), why="a better name")
    assert (tmp_path / "deep" / "b.md").read_text() == "text\n"
    append(tmp_path, page(tmp_path, "a.md"), "another page of that name")
    remove(tmp_path, page(tmp_path, "deep/b.md"), by="agent")
    assert not (tmp_path / "deep" / "b.md").exists()
    history = log(tmp_path, "deep/b.md")
    assert [(entry.path, entry.moved_from, entry.after is None) for entry in history] == [
        ("deep/b.md", None, True),
        ("deep/b.md", "a.md", False),
        ("a.md", None, False),
    ]
    assert kept(tmp_path, history[0].before) == b"text\n"


def test_a_page_never_moves_onto_another(tmp_path: Path) -> None:
    append(tmp_path, page(tmp_path, "a.md"), "a")
    append(tmp_path, page(tmp_path, "b.md"), "b")
    with pytest.raises(ConflictError, match=r"b\.md: exists already"):
        move(tmp_path, page(tmp_path, "a.md"), page(tmp_path, "b.md"))
    with pytest.raises(MissingFileError, match=r"c\.md"):
        move(tmp_path, page(tmp_path, "c.md"), page(tmp_path, "d.md"))
    assert ((tmp_path / "a.md").read_text(), (tmp_path / "b.md").read_text()) == ("a\n", "b\n")
    assert len(log(tmp_path)) == 2


def test_what_a_killed_process_only_announced_is_struck_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, page(tmp_path), "old")

    class KilledError(BaseException):
        pass

    def die(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        patch.setattr(Journal, "settle", die)
        with pytest.raises(KilledError):
            append(tmp_path, page(tmp_path), "never written")
    assert len(log(tmp_path)) == 2
    append(tmp_path, page(tmp_path, "other.md"), "any later change looks after it")
    assert [entry.path for entry in log(tmp_path)] == ["other.md", "MEMORY.md"]


def test_old_entries_are_forgotten_by_age_and_by_size_but_never_the_newest(tmp_path: Path) -> None:
    for number in range(40):
        replace(tmp_path, page(tmp_path), Document(os.urandom(20_000).hex() + f"\n{number}\n"))
    last = log(tmp_path)[0]
    with root_lock(tmp_path), Journal(tmp_path) as journal:
        journal.prune(JournalSettings(), last.at)
        assert len(list(journal.entries())) == 40
        journal.prune(JournalSettings(max_mb=0.5), last.at)
        left = list(journal.entries())
        assert 5 < len(left) < 25
        for entry in left:
            assert journal.content(entry.after or "").endswith(b"\n")
        journal.prune(JournalSettings(keep_days=1), last.at + 3 * 86_400)
        assert list(journal.entries()) == [last]
        journal.prune(JournalSettings(max_mb=0.1), last.at)
        assert list(journal.entries()) == [last]
        assert len(journal.content(last.before or "")) > 20_000


def test_a_damaged_journal_is_set_aside_and_memory_goes_on(tmp_path: Path) -> None:
    append(tmp_path, page(tmp_path), "old")
    file = tmp_path / ".vademecum" / "journal" / "journal.sqlite"
    file.write_bytes(b"not a database, whatever it was before" * 300)
    with pytest.raises(StoreError, match=r"journal\.sqlite"):
        log(tmp_path)
    append(tmp_path, page(tmp_path), "new")
    assert page(tmp_path).file.read_text() == "old\nnew\n"
    assert [kept(tmp_path, entry.before) for entry in log(tmp_path)] == [b"old\n"]
    assert len(list(file.parent.glob("journal.sqlite.corrupt-*[0-9]"))) == 1


@posix
def test_the_journal_is_closed_to_other_users_and_follows_no_link(tmp_path: Path) -> None:
    append(tmp_path, page(tmp_path), "private")
    folder = tmp_path / ".vademecum" / "journal"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "journal.sqlite").stat().st_mode) == 0o600
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    with pytest.raises(StoreError, match="symbolic link"):
        append(tmp_path, page(tmp_path), "lost")
    assert page(tmp_path).file.read_text() == "private\n"


@posix
@pytest.mark.stress
def test_a_writer_killed_at_any_moment_leaves_whole_pages_and_a_journal_that_knows_them(tmp_path: Path) -> None:
    kills = 200 if STRESS else 25
    killer = Path(__file__).with_name("killer.py")
    done = subprocess.run(
        [sys.executable, killer, tmp_path, str(kills), "7"],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > kills / 5, "the writers did not live long enough to be killed at work"
