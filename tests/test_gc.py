"""What a collection takes and what it leaves, while others read and write."""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from embedders import HashedEmbedder
from memories import PATIENT, OpenMemory, paths, write
from store_support import python
from vademecum import Memory, cli
from vademecum.errors import StoreError, UsageError

PAGES = {f"note{number}.md": f"Words of note number{number}" for number in range(40)}


def state(memory: Memory) -> Path:
    return memory.root / ".vademecum"


def age(memory: Memory, days: float) -> None:
    """Let every lane and text be so much older."""
    with closing(sqlite3.connect(state(memory) / "vectors.sqlite")) as db, db:
        db.execute("UPDATE lanes SET used = used - ?", (days * 86_400,))
        db.execute("UPDATE texts SET made = made - ?", (days * 86_400,))


def counts(memory: Memory) -> tuple[int, ...]:
    """Texts, and rows of each lane."""
    with closing(sqlite3.connect(state(memory) / "vectors.sqlite")) as db:
        tables = ["texts", *(f"v{lane}" for (lane,) in db.execute("SELECT id FROM lanes ORDER BY id").fetchall())]
        return tuple(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)


def of_two_models(open_memory: OpenMemory) -> Memory:
    """Forty notes with vectors of an old and a new model; ten of the notes are gone."""
    with open_memory(PAGES, embedder=HashedEmbedder(64)) as memory:
        memory.sync()
    memory = open_memory(embedder=HashedEmbedder(32, model="new"))
    memory.sync()
    for number in range(10):
        (memory.root / f"note{number}.md").unlink()
    return memory


def test_only_what_is_old_enough_goes_and_a_dry_run_only_tells(open_memory: OpenMemory) -> None:
    memory = of_two_models(open_memory)
    assert memory.gc().vectors == 0
    age(memory, 31)
    planned = memory.gc(dry_run=True)
    assert counts(memory) == (40, 40, 40)
    assert planned.dry_run
    done = memory.gc()
    assert done.lanes == planned.lanes == ("test|hashed|64|||unit",)
    assert (done.texts, done.vectors) == (planned.texts, planned.vectors) == (10, 50)
    assert counts(memory) == (30, 30)
    assert memory.gc(keep_days=0).vectors == 0
    result = memory.search("Words of note number11")
    assert (result[0].path, result[0].trace.vector) == ("note11.md", pytest.approx(1, abs=1e-5))


def test_the_lane_that_serves_and_the_one_being_built_stay_whatever_their_age(open_memory: OpenMemory) -> None:
    with open_memory(PAGES, embedder=HashedEmbedder(64)) as memory:
        memory.sync()
    refusing = HashedEmbedder(32, model="new", batch_size=8)
    with open_memory(embedder=refusing) as memory:
        refusing.poison = {"number39"}
        refusing.fail(OSError("down"))
        memory.sync()
        age(memory, 1000)
        assert memory.gc(keep_days=0).lanes == ()
        assert len(counts(memory)) == 1 + 2
    with open_memory() as memory:
        # Nobody wants the new one any more, and it has not answered; the old one still could.
        assert memory.gc(keep_days=0).lanes == ("test|new|32|||unit",)


def test_all_lanes_stay_while_the_model_in_use_cannot_be_told(open_memory: OpenMemory) -> None:
    class Dumb(HashedEmbedder):
        @property
        def fingerprint(self):  # type: ignore[no-untyped-def]
            raise OSError("no route to host")

    memory = of_two_models(open_memory)
    memory.close()
    with open_memory(embedder=Dumb()) as memory:
        age(memory, 31)
        found = memory.gc()
    assert (found.lanes, found.texts) == ((), 10)
    assert found.kept[0][0] == "lanes"
    assert "no route to host" in found.kept[0][1]


def test_numbers_are_never_given_again(open_memory: OpenMemory) -> None:
    memory = of_two_models(open_memory)
    memory.gc(keep_days=0)
    memory.close()
    with open_memory(PAGES, embedder=HashedEmbedder(64)) as memory:
        memory.sync()
        with closing(sqlite3.connect(state(memory) / "vectors.sqlite")) as db:
            assert [lane for (lane,) in db.execute("SELECT id FROM lanes ORDER BY id")] == [2, 3]
            assert min(text for (text,) in db.execute("SELECT id FROM texts ORDER BY id DESC LIMIT 10")) > 40


def test_a_text_that_is_only_not_indexed_yet_is_not_taken_for_lost(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    memory = open_memory(PAGES, embedder=embedder)
    memory.sync()
    for file in memory.root.glob("note*.md"):
        file.rename(file.with_name(f"moved-{file.name}"))
    memory.close()
    for file in state(memory).glob("index.sqlite*"):
        file.unlink()
    with open_memory(embedder=embedder) as memory:
        assert memory.gc(keep_days=0).texts == 0
        assert memory.sync().embedded == 0


def test_nothing_goes_while_a_page_cannot_be_read(open_memory: OpenMemory) -> None:
    memory = open_memory(PAGES, embedder=HashedEmbedder())
    memory.sync()
    (memory.root / "note1.md").unlink()
    (memory.root / "note2.md").write_bytes(b"\xff\xfe")
    with pytest.raises(StoreError, match=r"nothing was removed, because note2\.md"):
        memory.gc(keep_days=0)
    assert counts(memory) == (40, 40)


@pytest.mark.parametrize("days", [-1, "7", True, float("nan"), 1e9])
def test_days_that_cannot_be_meant_are_named(open_memory: OpenMemory, days: object) -> None:
    with pytest.raises(UsageError, match="keep_days"):
        open_memory().gc(keep_days=days)  # type: ignore[arg-type]


def test_graphs_of_lanes_that_are_gone_and_old_damaged_files_go_and_history_stays(open_memory: OpenMemory) -> None:
    memory = of_two_models(open_memory)
    folder = state(memory)
    kept = {
        "index.sqlite.corrupt-29990101T000000",
        "history.sqlite.corrupt-20200101T000000",
        "index.sqlite.corrupt-mine",
    }
    gone = {"vectors.sqlite.corrupt-20200101T000000", "index.sqlite.corrupt-20200101T000000-wal"}
    graphs = {"lane1.hnsw", "lane1.json", "lane1.hnsw.new", "lane7.json"}
    (folder / "ann").mkdir()
    for name in (*kept, *gone, *(f"ann/{name}" for name in graphs), "ann/lane2.json", "ann/turn.sqlite"):
        (folder / name).write_text("")
    age(memory, 31)
    assert set(memory.gc(dry_run=True).files) == gone | {f"ann/{name}" for name in graphs}
    assert set(memory.gc().files) == gone | {f"ann/{name}" for name in graphs}
    assert {file.name for file in folder.glob("*.corrupt-*")} == kept
    assert {file.name for file in (folder / "ann").iterdir()} == {"lane2.json", "turn.sqlite"}


def test_the_file_shrinks_when_much_of_it_is_empty(open_memory: OpenMemory) -> None:
    pages = {f"note{number}.md": f"Words of note number{number}" for number in range(300)}
    with open_memory(pages, embedder=HashedEmbedder(2048)) as memory:
        memory.sync()
    with open_memory(embedder=HashedEmbedder(32, model="new")) as memory:
        memory.sync()
        memory.search("number7")
        file = state(memory) / "vectors.sqlite"
        before = file.stat().st_size
        assert memory.gc(keep_days=0).freed > 2_000_000
        assert file.stat().st_size < before - 2_000_000
        assert paths(memory.search("Words of note number7"))[0] == "note7.md"


def _search_all_the_while(root: str, ready: object, stop: object, wrong: object) -> None:
    with Memory.open(root, settings=PATIENT, embedder=HashedEmbedder(32, model="new")) as memory:
        memory.search("number30")
        ready.set()  # type: ignore[attr-defined]
        number = 20
        while not stop.is_set():  # type: ignore[attr-defined]
            number = 20 + (number - 19) % 20
            result = memory.search(f"Words of note number{number}")
            cosine = result[0].trace.vector if result.hits else None
            if not result.hits or result[0].path != f"note{number}.md" or cosine is None or abs(cosine - 1) > 1e-4:
                wrong.put(f"{number}: {result}")  # type: ignore[attr-defined]
                return


def test_other_processes_read_and_write_meanwhile(open_memory: OpenMemory) -> None:
    context = multiprocessing.get_context("spawn")
    memory = of_two_models(open_memory)
    ready, stop, wrong = context.Event(), context.Event(), context.Queue()
    reader = context.Process(target=_search_all_the_while, args=(str(memory.root), ready, stop, wrong))
    reader.start()
    assert ready.wait(60)
    for turn in range(8):
        write(memory.root, {f"extra{number}.md": f"Extra number{number} of turn{turn}" for number in range(20)})
        memory.sync()
        memory._core.open_index().lane(HashedEmbedder(16, model=f"m{turn}").fingerprint, HashedEmbedder().calibration)
        found = memory.gc(keep_days=0)
        assert (found.texts > 0) or turn == 0
    stop.set()
    reader.join(60)
    assert wrong.empty(), wrong.get()
    assert reader.exitcode == 0
    assert memory.sync().pending == 0


def test_a_lane_that_another_process_removes_while_it_is_filled_is_begun_again(open_memory: OpenMemory) -> None:
    with open_memory(PAGES, embedder=HashedEmbedder(64)) as memory:
        memory.sync()
    gate, begun = threading.Event(), threading.Event()

    class Slow(HashedEmbedder):
        def embed_documents(self, texts):  # type: ignore[no-untyped-def]
            begun.set()
            gate.wait(30)
            return super().embed_documents(texts)

    with open_memory(embedder=Slow(32, model="new")) as memory:
        reports: list[object] = []
        thread = threading.Thread(target=lambda: reports.append(memory.sync()))
        thread.start()
        assert begun.wait(30)
        code = (
            f"from vademecum import Memory\nwith Memory.open({str(memory.root)!r}) as m: print(m.gc(keep_days=0).lanes)"
        )
        assert "test|new|32" in python(code).stdout
        gate.set()
        thread.join(30)
        assert memory.sync().pending == 0
        assert memory.search("Words of note number3")[0].trace.vector == pytest.approx(1, abs=1e-5)


# on the command line


def test_the_command_tells_what_went(open_memory: OpenMemory, capsys: pytest.CaptureFixture[str]) -> None:
    memory = of_two_models(open_memory)
    root = str(memory.root)
    memory.close()
    age(memory, 31)
    assert cli.main(["gc", "--root", root, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "would go: vectors of test|hashed|64|||unit" in out
    assert "would go: 50 vectors, 10 texts that stand nowhere" in out
    assert cli.main(["gc", "--root", root, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["dry_run"], answer["texts"], answer["vectors"]) == (False, 10, 50)
    assert cli.main(["gc", "--root", root, "--keep-days", "-1"]) == 2
    assert "keep_days = -1" in capsys.readouterr().err


def test_the_clock_decides_nothing_but_age(open_memory: OpenMemory) -> None:
    """A text made a second ago stays for keep_days; one that is needed stays for ever."""
    memory = open_memory(PAGES, embedder=HashedEmbedder())
    memory.sync()
    (memory.root / "note1.md").unlink()
    age(memory, 10)
    assert memory.gc(keep_days=11).texts == 0
    assert memory.gc(keep_days=9).texts == 1
    age(memory, (time.time() - 1) / 86_400)
    assert memory.gc(keep_days=0).texts == 0
