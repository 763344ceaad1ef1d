"""The index equals the folder: whatever is edited, renamed, deleted or fails in between."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedders import HashedEmbedder
from vademecum.backends import EmbeddedIndex
from vademecum.embed import DocumentBatches
from vademecum.errors import ProviderDownError, StoreError
from vademecum.history import HistoryFile
from vademecum.settings import ChunkSettings
from vademecum.store.layout import detect
from vademecum.store.places import Places
from vademecum.store.scan import FileStat, Scan
from vademecum.sync import Sessions, SingleFlight, Syncer, VectorFiller, plan
from vademecum.types import IndexSpec, Source

SPEC = IndexSpec("test", "test")
CHUNKS = ChunkSettings(tokens=32, overlap_tokens=8)


class Bench:
    """A root with an index beside it."""

    def __init__(
        self,
        root: Path,
        state: Path,
        embedder: HashedEmbedder | None = None,
        vault: Path | None = None,
        history: HistoryFile | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        state.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.vault = vault
        self.state = state
        self.index = EmbeddedIndex(state, SPEC)
        self.embedder = embedder
        filler = VectorFiller(self.index, embedder, DocumentBatches(embedder)) if embedder else None
        places = Places(detect(root), {"vault": vault} if vault else {}, spoken=history is not None)
        sessions = Sessions(places, history, CHUNKS, None, 1 << 26) if history else None
        self.syncer = Syncer(places, self.index, CHUNKS, filler, clock, sessions)

    def file(self, path: str) -> Path:
        """Where a page of the index is on disk."""
        return self.vault / path[7:] if self.vault and path.startswith("@vault/") else self.root / path

    def write(self, path: str, text: str) -> None:
        file = self.file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")

    def close(self) -> None:
        self.syncer.close()
        self.index.close()

    def rows(self) -> list[tuple[object, ...]]:
        """Everything that an answer can depend on, except ids."""
        with closing(sqlite3.connect(self.state / "index.sqlite")) as db:
            return db.execute(
                "SELECT f.path, f.scope, f.kind, f.date, f.fingerprint, f.tags, c.scope, c.kind, c.date, c.heading,"
                " c.hash, c.occurrence, c.start_line, c.end_line, c.text, w.heading, w.body"
                " FROM files f LEFT JOIN chunks c ON c.file_id = f.id LEFT JOIN words w ON w.rowid = c.id"
                " ORDER BY f.path, c.start_line, c.end_line, c.heading, c.hash, c.occurrence"
            ).fetchall()

    def vocabulary(self) -> list[tuple[str, int]]:
        """Every occurrence of every word, by term: an instance table sees what a row count would hide."""
        with closing(sqlite3.connect(self.state / "index.sqlite")) as db:
            db.execute("CREATE VIRTUAL TABLE temp.seen USING fts5vocab(main, words, instance)")
            return db.execute("SELECT term, count(*) FROM temp.seen GROUP BY term ORDER BY term").fetchall()

    def sound(self) -> None:
        with closing(sqlite3.connect(self.state / "index.sqlite")) as db:
            db.execute("INSERT INTO words(words) VALUES ('integrity-check')")
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert (
                db.execute("SELECT count(*) FROM words").fetchone()
                == db.execute("SELECT count(*) FROM chunks").fetchone()
            )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    root = tmp_path / "root"
    root.mkdir()
    made = Bench(root, tmp_path / "state", HashedEmbedder())
    yield made
    made.close()


NAMES = (
    "MEMORY.md",
    "memory/2026-01-01.md",
    "memory/2026-01-02.md",
    "notes.md",
    "knowledge/a/b.md",
    "memory/users/ann/MEMORY.md",
    "@vault/notes.md",
    "@vault/memory/users/ann/2026-01-01.md",
)
LINES = st.sampled_from(
    [
        "# One",
        "## Two",
        "- the broker is Fidelity",
        "- the broker is Schwab",
        "",
        "风险偏好是保守的",
        "```",
        "word " * 40,
        "A sentence. Another one.",
    ]
)
TEXTS = st.lists(LINES, max_size=12).map("\n".join)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(NAMES), TEXTS),
        st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just("")),
        st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("top"), st.sampled_from(NAMES), LINES),
        st.tuples(st.just("sync"), st.just(""), st.just("")),
    ),
    min_size=1,
    max_size=14,
)


def edit(bench: Bench, action: str, path: str, value: str) -> None:
    file = bench.file(path)
    if action == "write":
        bench.write(path, value)
    elif action == "delete":
        file.unlink(missing_ok=True)
    elif action == "rename" and file.exists():
        bench.file(value).parent.mkdir(parents=True, exist_ok=True)
        file.replace(bench.file(value))
    elif action == "top" and file.exists():
        bench.write(path, f"{value}\n{file.read_text(encoding='utf-8')}")
    elif action == "sync":
        bench.syncer.run()


@settings(max_examples=200)
@given(edits=EDITS)
def test_after_any_edits_the_index_equals_a_fresh_build(edits: list[tuple[str, str, str]]) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder, "root")
        (root / "memory").mkdir(parents=True)
        vault = Path(folder, "vault")
        vault.mkdir()
        (vault / "stays.md").write_text("a folder without pages could be a disk that is not there")
        lived = Bench(root, Path(folder, "lived"), HashedEmbedder(), vault)
        for action, path, value in edits:
            edit(lived, action, path, value)
        lived.syncer.run()
        fresh = Bench(root, Path(folder, "fresh"), HashedEmbedder(), vault)
        fresh.syncer.run()
        assert lived.rows() == fresh.rows()
        assert lived.vocabulary() == fresh.vocabulary()
        assert lived.syncer.plan().empty
        assert lived.syncer.missing_vectors() == 0
        assert lived.index.health().vectors == fresh.index.health().vectors
        lived.sound()
        lived.close()
        fresh.close()


def test_a_second_sync_reads_nothing_and_embeds_nothing(bench: Bench) -> None:
    bench.write("MEMORY.md", "# A\n\none\n")
    os.utime(bench.root / "MEMORY.md", ns=(1, 1))
    bench.syncer.run()
    embedded = len(bench.embedder.texts)
    report = bench.syncer.run()
    assert (report.added, report.changed, report.removed, report.chunks, report.embedded) == (0, 0, 0, 0, 0)
    assert len(bench.embedder.texts) == embedded


def test_a_change_of_equal_size_within_one_clock_tick_is_seen(bench: Bench) -> None:
    bench.write("a.md", "the broker is Fidelity\n")
    bench.syncer.run()
    stamp = (bench.root / "a.md").stat()
    bench.write("a.md", "the broker is Schwab!!\n")
    os.utime(bench.root / "a.md", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    bench.syncer.run()
    assert [row[14] for row in bench.rows()] == ["the broker is Schwab!!"]
    assert "Fidelity" not in str(bench.rows())


def test_two_lines_on_top_of_a_long_list_embed_a_few_chunks_again(bench: Bench) -> None:
    bullets = [
        f"- item {number} says something about topic {number % 17} and house {number % 29}\n" for number in range(400)
    ]
    bench.write("list.md", "# List\n\n" + "".join(bullets))
    bench.syncer.run()
    before = len(bench.embedder.texts)
    assert before > 50
    bench.write("list.md", "# List\n\n- new one\n- new two\n" + "".join(bullets))
    report = bench.syncer.run()
    assert 1 <= report.embedded <= 4
    assert report.pending == 0


def test_a_renamed_file_is_not_embedded_again(bench: Bench) -> None:
    bench.write("old.md", "# Title\n\nsome text\n")
    bench.syncer.run()
    (bench.root / "old.md").rename(bench.root / "new.md")
    report = bench.syncer.run()
    assert (report.added, report.removed, report.embedded) == (1, 1, 0)
    assert {row[0] for row in bench.rows()} == {"new.md"}


PLACES = ("", "x", "x/y", "memory", "memory/users/ann", "memory/users/bob", "knowledge/a", "x/y/deep")
TURNS = st.lists(
    st.one_of(
        st.tuples(st.just("folder"), st.sampled_from(PLACES[1:]), st.sampled_from(PLACES[1:])),
        st.tuples(st.just("page"), st.sampled_from(PLACES), st.sampled_from(["a.md", "2026-01-01.md", "MEMORY.md"])),
        st.tuples(st.just("sync"), st.just(""), st.just("")),
    ),
    max_size=14,
)


@given(turns=TURNS)
def test_after_folders_were_moved_about_the_index_equals_a_fresh_build(turns: list[tuple[str, str, str]]) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder, "root")
        (root / "memory").mkdir(parents=True)
        lived = Bench(root, Path(folder, "lived"), clock=lambda: time.time() + 60)
        for number, (action, one, two) in enumerate(turns):
            if action == "page":  # of a length of its own: what the clock is too coarse for, the size must show
                lived.write(f"{one}/{two}".lstrip("/"), f"# Page\n\n{'word ' * (number + 1)}\n")
            elif action == "folder" and (root / one).is_dir() and not (root / two).exists():
                if not two.startswith(f"{one}/"):
                    (root / two).parent.mkdir(parents=True, exist_ok=True)
                    (root / one).rename(root / two)
            else:
                lived.syncer.run()
        lived.syncer.run()
        fresh = Bench(root, Path(folder, "fresh"), clock=lambda: time.time() + 60)
        fresh.syncer.run()
        assert lived.rows() == fresh.rows()
        assert lived.vocabulary() == fresh.vocabulary()
        assert lived.syncer.plan().empty
        lived.sound()
        lived.close()
        fresh.close()


def test_a_renamed_folder_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    root.mkdir()
    bench = Bench(root, tmp_path / "state", clock=lambda: time.time() + 60)
    for number in range(20):
        bench.write(f"old/{number % 3}/{number}.md", f"note {number}\n")
    bench.syncer.run()
    before = [row[11:] for row in sorted(bench.rows())]
    (root / "old").rename(root / "new")
    bench.write("new/0/0.md", "another note\n")
    read: list[str] = []
    original = Places.load
    monkeypatch.setattr(Places, "load", lambda places, file, now: read.append(file.path) or original(places, file, now))
    report = bench.syncer.run()
    assert (report.added, report.removed, report.chunks) == (20, 20, 1)
    assert read == ["new/0/0.md"]
    assert {row[0] for row in bench.rows()} == {f"new/{number % 3}/{number}.md" for number in range(20)}
    assert len(before) == len(bench.rows())
    assert bench.syncer.plan().empty
    (root / "new").rename(root / "memory")
    (root / "memory/0").rename(root / "users")
    bench.syncer.run()
    assert {row[1] for row in bench.rows()} == {"shared"}
    bench.close()


def test_text_is_searchable_although_the_embedder_is_down_and_vectors_follow(bench: Bench) -> None:
    bench.write("a.md", "the passport lies in the drawer\n")
    bench.embedder.fail(ProviderDownError("loopback: connection refused"))
    report = bench.syncer.run()
    assert ("embedding", "loopback: connection refused") in report.failed
    assert report.pending == 1
    with bench.index.reader() as reader:
        assert len(reader.search_keyword(["passport"], 5, ())) == 1
    bench.embedder.heal()
    assert bench.syncer.run().embedded == 1


def test_finished_batches_are_kept_when_a_later_one_fails(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    embedder = HashedEmbedder(batch_size=2)
    bench = Bench(root, tmp_path / "state", embedder)
    for number in range(6):
        bench.write(f"{number}.md", f"text number {number}\n")
    original = embedder.embed_documents

    def third_call_fails(texts: list[str]) -> object:
        if len(embedder.batches) == 2:
            raise ProviderDownError("later")
        return original(texts)

    embedder.embed_documents = third_call_fails  # type: ignore[assignment, method-assign]
    assert bench.syncer.run().pending == 2
    embedder.embed_documents = original  # type: ignore[method-assign]
    assert bench.syncer.run().embedded == 2
    assert len(embedder.texts) == 6
    bench.close()


def test_one_refused_text_does_not_stop_the_others_and_is_named(bench: Bench) -> None:
    bench.embedder.poison = {"poison"}
    for number in range(5):
        bench.write(f"{number}.md", f"text number {number}\n")
    bench.write("bad.md", "this is poison\n")
    report = bench.syncer.run()
    assert report.embedded == 5
    assert [path for path, _ in report.failed] == ["bad.md"]


def test_one_unreadable_file_does_not_stop_the_others_and_keeps_its_rows(bench: Bench) -> None:
    bench.write("a.md", "first text\n")
    bench.write("b.md", "second text\n")
    bench.syncer.run()
    (bench.root / "a.md").write_bytes(b"first \xff\xfe text\n")
    bench.write("b.md", "other text\n")
    report = bench.syncer.run()
    assert [path for path, _ in report.failed] == ["a.md"]
    assert {row[14] for row in bench.rows()} == {"first text", "other text"}
    bench.write("a.md", "mended text\n")
    assert bench.syncer.run().failed == ()


def test_a_vanished_root_is_an_error_and_deletes_nothing(bench: Bench) -> None:
    bench.write("a.md", "text\n")
    bench.syncer.run()
    shutil.rmtree(bench.root)
    with pytest.raises(StoreError, match="root"):
        bench.syncer.run()
    assert len(bench.rows()) == 1


def test_files_outside_what_could_be_listed_are_not_taken_for_deleted() -> None:
    known = {path: Source(path, "shared", "memory", None, "s", "f") for path in ("a.md", "x/b.md", "xy/c.md", "d.md")}
    found = Scan((FileStat("a.md", "s", 1),), (), ("x",))
    assert plan(found, known).removed == ("d.md", "xy/c.md")
    assert plan(found, known).kept == 2


def test_a_crash_between_text_and_link_is_healed_by_the_next_open(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    bench = Bench(root, tmp_path / "state", HashedEmbedder())
    bench.write("a.md", "text\n")
    bench.syncer.run()
    bench.close()
    with closing(sqlite3.connect(tmp_path / "state" / "index.sqlite")) as db, db:
        db.execute("UPDATE chunks SET text_id = NULL")
    again = Bench(root, tmp_path / "state", HashedEmbedder())
    assert again.syncer.run().embedded == 0
    assert again.syncer.missing_vectors() == 0
    again.close()


def test_a_foreign_vectors_file_is_noticed_and_never_mixed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    bench = Bench(root, tmp_path / "state", HashedEmbedder())
    bench.write("a.md", "text\n")
    bench.syncer.run()
    bench.close()
    for file in (tmp_path / "state").glob("vectors.sqlite*"):
        file.unlink()
    again = Bench(root, tmp_path / "state", HashedEmbedder())
    assert again.syncer.run().embedded == 1
    again.close()


def test_requests_during_a_run_get_one_later_run_not_one_each() -> None:
    gate, runs = threading.Event(), []

    def job() -> int:
        runs.append(1)
        gate.wait(10)
        return len(runs)

    flight = SingleFlight("test", job)
    first = flight.request()
    while not runs:
        time.sleep(0.001)
    later = [flight.request() for _ in range(20)]
    assert flight.wait(later[0], timeout=0.01) is None
    gate.set()
    assert flight.wait(first, 10) in (1, 2)
    assert [flight.wait(ticket, 10) for ticket in later] == [2] * 20
    assert len(runs) == 2
    flight.close()


def test_an_error_of_a_run_reaches_those_who_wait_and_the_next_run_is_new() -> None:
    outcomes = iter([StoreError("gone"), None])

    def job() -> str:
        error = next(outcomes)
        if error:
            raise error
        return "fine"

    flight = SingleFlight("test", job)
    with pytest.raises(StoreError, match="gone"):
        flight.wait(flight.request(), 10)
    assert flight.wait(flight.request(), 10) == "fine"
    flight.close()
