"""What hosts, other programs and other users do to an open memory, and what it must not do in return."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from embedders import HashedEmbedder
from memories import PATIENT, write
from store_support import environment
from vademecum import Memory
from vademecum.errors import ProviderDownError, SettingsError
from vademecum.memory import core, init


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return init(tmp_path / "root")


def paths(result: object) -> list[str]:
    return [hit.path for hit in result]  # type: ignore[attr-defined]


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def delete_index(state: Path) -> None:
    for file in state.glob("index.sqlite*"):
        file.unlink()


def delete_vectors(state: Path) -> None:
    for file in state.glob("vectors.sqlite*"):
        file.unlink()


@pytest.mark.parametrize("delete", [delete_index, delete_vectors, shutil.rmtree])
def test_the_index_may_be_deleted_at_will_even_while_it_is_open(root: Path, delete: Callable[[Path], None]) -> None:
    write(root, {"a.md": "the passport lies in the drawer"})
    with Memory.open(root, settings=PATIENT, embedder=HashedEmbedder()) as memory:
        memory.sync()
        delete(root / ".vademecum")
        with ThreadPoolExecutor(6) as pool:
            results = list(pool.map(lambda _: memory.search("passport", wait_ms=-1), range(24)))
        assert {result.disabled for result in results} == {None}
        assert {tuple(paths(result)) for result in results} == {("a.md",)}
        memory.remember("a zebra")
        assert paths(memory.search("zebra")) == ["MEMORY.md"]


def test_an_index_that_another_process_made_anew_is_the_one_that_all_threads_use(root: Path) -> None:
    write(root, {"a.md": "hello"})
    with Memory.open(root, settings=PATIENT) as memory:
        memory.sync()
        delete_index(root / ".vademecum")
        script = f"from vademecum import Memory\nwith Memory.open({str(root)!r}) as m: m.search('hello', wait_ms=-1)\n"
        subprocess.run([sys.executable, "-c", script], env=environment(), check=True, timeout=60)
        for number in range(5):
            memory.remember(f"fact zebra{number}")
            with ThreadPoolExecutor(6) as pool:
                found = list(pool.map(lambda _, n=number: paths(memory.search(f"zebra{n}")), range(12)))
            assert found == [["MEMORY.md"]] * 12


def test_nobody_learns_of_anothers_files_through_notices_or_reports(root: Path) -> None:
    write(root, {"memory/users/bob/MEMORY.md": "Bob is secretly POISON getting divorced", "a.md": "hello"})
    write(root, {"memory/users/bob/secret-plan.md": b"\xff\xfe"})
    embedder = HashedEmbedder(poison={"POISON"})
    with Memory.open(root, settings=PATIENT, embedder=embedder, user="alice") as alice:
        told = [*alice.search("hello", wait_ms=-1).notices, *alice.status().notices, str(alice.sync())]
        assert not [text for text in told if "bob" in text or "divorce" in text or "secret" in text]
    with Memory.open(root, settings=PATIENT, embedder=embedder, user="bob") as bob:
        told = [path for path, _ in bob.sync().failed]
        assert "memory/users/bob/secret-plan.md" in told


def test_nobody_learns_anothers_words_through_frequencies(root: Path) -> None:
    write(root, {"memory/users/bob/MEMORY.md": "divorce", "a.md": "hello there"})
    with Memory.open(root, settings=PATIENT, user="alice") as alice:
        known, unknown = alice.search("divorce hello"), alice.search("giraffe hello")
        assert known.explanation["terms"]["divorce"] == 0
        assert known[0].score == unknown[0].score


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_child_may_use_the_memory_that_it_inherited(root: Path) -> None:
    """At rest, that is: SQLite's own locks do not survive a fork in the middle of another thread's call."""
    write(root, {"a.md": "bond"})
    script = (
        "import os, warnings; warnings.simplefilter('ignore')\n"
        "from vademecum import Memory\n"
        f"m = Memory.open({str(root)!r}); m.search('bond', wait_ms=-1)\n"
        "for _ in range(6):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        os._exit(0 if [h.path for h in m.search('bond', wait_ms=-1)] == ['a.md'] else 1)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", script], env=environment(), check=True, timeout=60)


def test_remembering_does_not_wait_for_a_long_first_sync(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vademecum.sync import syncer

    slow = syncer.chunk_markdown

    def chunk_slowly(*arguments: object) -> object:
        time.sleep(0.02)
        return slow(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(syncer, "chunk_markdown", chunk_slowly)
    write(root, {f"{number}.md": "text" for number in range(100)})
    with Memory.open(root, settings=PATIENT) as memory:
        memory.search("text", wait_ms=1)
        began = time.monotonic()
        memory.remember("pomelo")
        assert time.monotonic() - began < 1
        assert paths(memory.search("pomelo", wait_ms=0)) == ["MEMORY.md"]


def test_an_open_and_a_search_need_no_write_lock(root: Path) -> None:
    write(root, {"a.md": "bond"})
    with Memory.open(root, settings=PATIENT) as memory:
        memory.sync()
    with closing(sqlite3.connect(root / ".vademecum" / "index.sqlite", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with Memory.open(root, settings=PATIENT) as memory:
            assert paths(memory.search("bond", wait_ms=200)) == ["a.md"]
            assert time.monotonic() - began < 5
            writer.execute("ROLLBACK")


def test_an_index_that_cannot_be_written_is_read_and_the_answer_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {"a.md": "bond"})
    with Memory.open(root, settings=PATIENT) as memory:
        memory.sync()

        def full(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr("vademecum.index.rows.replace_source", full)
        write(root, {"b.md": "bond two"})
        result = memory.search("bond")
        assert (paths(result), result.fresh, result.disabled) == (["a.md"], False, None)
        assert any("disk is full" in notice for notice in result.notices)


class Wrong(HashedEmbedder):
    """Gives vectors of another size, or no vectors at all."""

    def __init__(self, reply: object) -> None:
        super().__init__()
        self.reply = reply

    def embed_query(self, text: str):  # type: ignore[no-untyped-def]
        return self.reply

    def embed_documents(self, texts):  # type: ignore[no-untyped-def]
        return [self.reply] * len(texts)


@pytest.mark.parametrize("reply", [np.ones(3, np.float32), None, "text", np.ones((2, 64)), [float("nan")] * 64, []])
def test_an_embedder_that_answers_rubbish_costs_vectors_only(root: Path, reply: object) -> None:
    write(root, {"a.md": "bond"})
    with Memory.open(root, settings=PATIENT, embedder=Wrong(reply)) as memory:
        result = memory.search("bond", wait_ms=-1)
        assert (paths(result), result.disabled) == (["a.md"], None)
        assert result.channels["vector"].startswith(("failed: ", "off: "))
        assert memory.sync().pending == 1
        assert memory.status().index is not None


def test_a_provider_whose_dimensions_are_unknown_and_that_is_down_costs_vectors_only(root: Path) -> None:
    class Unreachable(HashedEmbedder):
        @property
        def fingerprint(self):  # type: ignore[no-untyped-def]
            raise ProviderDownError("connection refused")

    write(root, {"a.md": "bond"})
    with Memory.open(root, settings=PATIENT, embedder=Unreachable()) as memory:
        report = memory.sync()
        assert (report.added, report.failed) == (2, (("embedding", "connection refused"),))
        assert report.pending == 1
        status = memory.status()
        assert status.index is not None
        assert status.embedding.startswith("failed: connection refused")
        assert paths(memory.search("bond")) == ["a.md"]


def test_closing_while_others_search_raises_nothing(root: Path) -> None:
    write(root, {"a.md": "bond"})
    memory = Memory.open(root, settings=PATIENT)
    memory.sync()
    errors: list[BaseException] = []
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            try:
                memory.search("bond")
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    memory.close()
    time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors under /proc")
def test_a_storm_of_threads_takes_a_bounded_number_of_descriptors_and_gives_them_back(root: Path) -> None:
    write(root, {"a.md": "bond"})
    with Memory.open(root, settings=PATIENT) as memory:
        memory.sync()
        most = 0

        def ask(_: int) -> list[str]:
            nonlocal most
            found = paths(memory.search("bond", wait_ms=0))
            most = max(most, open_files())
            return found

        before = open_files()
        with ThreadPoolExecutor(80) as pool:
            assert list(pool.map(ask, range(300))) == [["a.md"]] * 300
        assert most - before < 16 * 8
        assert open_files() - before < 6 * 8


def test_an_empty_answer_says_what_kept_the_candidates_out(root: Path) -> None:
    write(root, {"a.md": "bond fund cash"})
    with Memory.open(root, settings=PATIENT, embedder=HashedEmbedder()) as memory:
        memory.sync()
        (notice,) = memory.search("nothing at all in common", min_score=0.9).notices
        assert "min_score 0.9" in notice
        (notice,) = memory.search("bond", path="nope/*").notices
        assert "filters" in notice
        assert memory.search("bond").notices == ()


def test_another_embedder_for_an_open_root_is_refused_not_ignored(root: Path) -> None:
    first = HashedEmbedder()
    with Memory.open(root, settings=PATIENT, embedder=first):
        Memory.open(root, settings=PATIENT, embedder=first).close()
        with pytest.raises(SettingsError, match="another embedder"):
            Memory.open(root, settings=PATIENT, embedder=HashedEmbedder())


def test_a_memory_that_is_dropped_lets_go_of_its_root(root: Path) -> None:
    for _ in range(5):
        Memory.open(root, settings=PATIENT).search("x")
    gc.collect()
    assert core._cores == {}


def test_another_layout_is_not_answered_from_rows_of_the_old_one(root: Path) -> None:
    from dataclasses import replace

    write(root, {"2026-01-01.md": "bond", "memory/users/bob/MEMORY.md": "bond of bob"})
    for layout in ("workspace", "flat", "workspace"):
        with Memory.open(root, settings=replace(PATIENT, layout=layout)) as memory:
            assert paths(memory.search("bond")) == ["2026-01-01.md"]
