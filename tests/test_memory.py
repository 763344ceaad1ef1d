"""The public face, end to end: real files, a real index, the deterministic embedder."""

from __future__ import annotations

import asyncio
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
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from embedders import HashedEmbedder
from store_support import environment, read_only, small_disk
from vademecum import AsyncMemory, Memory, Settings
from vademecum.errors import (
    IndexUnavailableError,
    MissingFileError,
    PathError,
    ProviderDownError,
    ProviderRefusedError,
    SettingsError,
    StoreError,
    UsageError,
)
from vademecum.memory import core, init
from vademecum.settings import ChunkSettings, EmbeddingSettings, SearchSettings

NONE = Settings(embedding=EmbeddingSettings(provider="none"), search=SearchSettings(wait_ms=60_000))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return init(tmp_path / "root")


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def paths(result: object) -> list[str]:
    return [hit.path for hit in result]  # type: ignore[attr-defined]


def test_the_readme_example_works_without_server_and_key(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "notes", settings=NONE) as memory:
        first = memory.remember("Single positions stay under 5 % of the portfolio.")
        memory.remember("Sold half of the bond fund.", daily=True)
        hits = memory.search("how large may positions be?", max_results=6, min_score=0.1)
        assert (hits[0].path, hits[0].text.strip()) == (
            "MEMORY.md",
            "# Memory\n\n- Single positions stay under 5 % of the portfolio.",
        )
        assert memory.get("MEMORY.md", start=first.start_line, lines=5).text == (
            "- Single positions stay under 5 % of the portfolio."
        )
        context = memory.context(max_tokens=2000)
        assert context.text.index("Single positions") < context.text.index("Sold half")
        assert context.cut == ()


def test_what_was_just_remembered_is_found_by_the_next_search(root: Path) -> None:
    with Memory.open(root, settings=NONE) as memory:
        for number in range(20):
            memory.remember(f"fact number{number} about something")
            assert memory.search(f"number{number}", max_results=1)[0].text.find(f"number{number}") >= 0


def test_an_edit_by_another_program_is_found_by_the_next_search(root: Path) -> None:
    with Memory.open(root, settings=NONE) as memory:
        write(root, "broker.md", "the broker is Fidelity\n")
        assert paths(memory.search("Fidelity")) == ["broker.md"]
        write(root, "broker.md", "the broker is Schwab\n")
        assert paths(memory.search("Fidelity")) == []
        assert paths(memory.search("Schwab")) == ["broker.md"]
        (root / "broker.md").unlink()
        assert paths(memory.search("Schwab")) == []


def test_vectors_find_what_keywords_do_not_and_the_trace_says_so(root: Path) -> None:
    class Twins(HashedEmbedder):
        def embed_query(self, text: str):  # type: ignore[no-untyped-def]
            return super().embed_query(text.replace("automobile", "car"))

    write(root, "a.md", "the car is red\n")
    write(root, "b.md", "tea at five\n")
    with Memory.open(root, settings=NONE, embedder=Twins()) as memory:
        hit = memory.search("automobile", wait_ms=-1)[0]
        assert (hit.path, hit.trace.channels, hit.trace.keyword) == ("a.md", ("vector",), 0.0)
        assert hit.trace.vector is not None
        assert 0.1 < hit.trace.vector <= 1
        assert hit.score == pytest.approx(hit.trace.fused * hit.trace.decay)


@pytest.mark.parametrize(
    ("error", "word"),
    [(ProviderDownError("connection refused"), "refused"), (ProviderRefusedError("wrong key"), "key")],
)
def test_a_provider_that_fails_degrades_the_answer_and_is_named(root: Path, error: Exception, word: str) -> None:
    write(root, "a.md", "the passport lies in the drawer\n")
    embedder = HashedEmbedder()
    embedder.fail(error)
    with Memory.open(root, settings=NONE, embedder=embedder) as memory:
        result = memory.search("passport", wait_ms=-1)
        assert paths(result) == ["a.md"]
        assert result.channels["keyword"] == "ok"
        assert result.channels["vector"].startswith("failed: ")
        assert word in result.channels["vector"]
        assert any(word in notice for notice in result.notices)
        embedder.heal()
        assert memory.sync().pending == 0


def test_an_embedder_of_the_host_may_raise_anything_and_search_goes_on(root: Path) -> None:
    write(root, "a.md", "the passport lies in the drawer\n")
    embedder = HashedEmbedder()
    embedder.fail(ZeroDivisionError("a bug of the host"))
    with Memory.open(root, settings=NONE, embedder=embedder) as memory:
        result = memory.search("passport", wait_ms=-1)
        assert paths(result) == ["a.md"]
        assert result.channels["vector"].startswith("failed: the embedder failed: ZeroDivisionError: a bug of the host")
        assert memory.sync().pending == 1
        embedder.heal()
        assert memory.sync().embedded == 1
        assert memory.search("passport").channels["vector"] == "ok"


def test_a_provider_that_is_down_is_not_asked_for_every_search(root: Path) -> None:
    write(root, "a.md", "the passport lies in the drawer\n")
    embedder = HashedEmbedder()
    embedder.fail(ProviderDownError("connection refused", "unreachable"))
    with Memory.open(root, settings=NONE, embedder=embedder) as memory:
        for _ in range(5):
            result = memory.search("passport", wait_ms=-1)
            assert paths(result) == ["a.md"]
            assert result.channels["vector"] == "failed: connection refused (not asked again for a moment)"
        assert (len(embedder.queries), len(embedder.batches)) == (0, 1)


def test_without_an_embedder_keywords_work_and_the_channel_says_why(root: Path) -> None:
    write(root, "a.md", "the passport lies in the drawer\n")
    with Memory.open(root, settings=NONE) as memory:
        result = memory.search("passport")
        assert result[0].score > 0.1
        assert result.channels == {"keyword": "ok", "vector": "off: embedding.provider is none"}
        assert memory.status().embedding.startswith("off: ")


def test_a_start_without_the_model_loses_no_vector(root: Path) -> None:
    write(root, "a.md", "text\n")
    embedder = HashedEmbedder()
    with Memory.open(root, settings=NONE, embedder=embedder) as memory:
        memory.sync()
    with Memory.open(root, settings=NONE) as memory:
        memory.sync()
    with Memory.open(root, settings=NONE, embedder=embedder) as memory:
        assert memory.sync().embedded == 0
    assert embedder.texts.count("text") == 1


def test_another_model_gets_vectors_of_its_own_and_keywords_do_not_notice(root: Path) -> None:
    write(root, "a.md", "Clyde is the cat\n")
    with Memory.open(root, settings=NONE, embedder=HashedEmbedder(64)) as memory:
        memory.sync()
    with Memory.open(root, settings=NONE, embedder=HashedEmbedder(32, model="other")) as memory:
        assert paths(memory.search("Clyde", wait_ms=0)) == ["a.md"]
        memory.sync()
        assert memory.search("Clyde")[0].trace.vector is not None
        index = memory.status().index
        assert index.vectors == {"test|hashed|64|||unit": index.chunks, "test|other|32|||unit": index.chunks}


def test_without_any_time_the_disk_is_not_looked_at_and_own_writes_are_found_all_the_same(root: Path) -> None:
    with Memory.open(root, settings=NONE) as memory:
        memory.remember("the passport lies in the drawer")
        write(root, "a.md", "passport\n")
        result = memory.search("passport", wait_ms=0)
        assert (paths(result), result.fresh) == (["MEMORY.md"], False)
        assert "no time" in result.notices[0]
        assert set(paths(memory.search("passport"))) == {"MEMORY.md", "a.md"}


def test_a_search_that_may_not_wait_says_that_it_is_not_fresh(root: Path) -> None:
    gate = threading.Event()

    class Slow(HashedEmbedder):
        def embed_documents(self, texts):  # type: ignore[no-untyped-def]
            gate.wait(10)
            return super().embed_documents(texts)

    write(root, "a.md", "the passport lies in the drawer\n")
    with Memory.open(root, settings=NONE, embedder=Slow()) as memory:
        result = memory.search("passport", wait_ms=200)
        assert (paths(result), result.fresh) == (["a.md"], False)
        assert any("vectors" in notice for notice in result.notices)
        assert result.elapsed_ms < 5000
        gate.set()
        assert memory.search("passport", wait_ms=-1).fresh


def test_filters_limit_what_is_found(root: Path) -> None:
    write(root, "MEMORY.md", "bond one\n")
    write(root, "memory/2026-01-11-standup.md", "bond two\n")
    write(root, "memory/2026-03-01.md", "bond three\n")
    write(root, "knowledge/x/y.md", "---\ntags: [fixed, income]\n---\nbond four\n")
    with Memory.open(root, settings=NONE) as memory:
        assert set(paths(memory.search("bond", kind="knowledge"))) == {"knowledge/x/y.md"}
        assert set(paths(memory.search("bond", kind=("memory", "knowledge")))) == {"MEMORY.md", "knowledge/x/y.md"}
        assert set(paths(memory.search("bond", since="2026-02-01"))) == {"memory/2026-03-01.md"}
        assert set(paths(memory.search("bond", until="2026-02-01"))) == {"memory/2026-01-11-standup.md"}
        assert set(paths(memory.search("bond", path="memory/*"))) == {
            "memory/2026-01-11-standup.md",
            "memory/2026-03-01.md",
        }
        assert set(paths(memory.search("bond", tag="#income"))) == {"knowledge/x/y.md"}


def test_nobody_sees_another_users_memory(root: Path) -> None:
    with (
        Memory.open(root, settings=NONE, user="ann") as ann,
        Memory.open(root, settings=NONE, user="bob") as bob,
        Memory.open(root, settings=NONE) as nobody,
    ):
        written = ann.remember("the secret plan of ann")
        assert written.path == "memory/users/ann/MEMORY.md"
        nobody.remember("a secret that all share")
        assert set(paths(ann.search("secret"))) == {"MEMORY.md", "memory/users/ann/MEMORY.md"}
        assert set(paths(bob.search("secret"))) == {"MEMORY.md"}
        assert set(paths(nobody.search("secret"))) == {"MEMORY.md"}
        for other in (bob, nobody):
            with pytest.raises(PathError, match="somebody else"):
                other.get("memory/users/ann/MEMORY.md")
            with pytest.raises(PathError, match="somebody else"):
                other.remember("x", file="memory/users/ann/MEMORY.md")
            assert "ann" not in other.context().text
        assert "secret plan" in ann.context().text
        assert ann.get("long_term").path == "memory/users/ann/MEMORY.md"


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".", "..", "a\0b", "x" * 200, "a b"])
def test_an_id_that_could_leave_its_folder_is_refused(root: Path, name: str) -> None:
    with pytest.raises(UsageError):
        Memory.open(root, settings=NONE, user=name)
    with pytest.raises(UsageError):
        Memory.open(root, settings=NONE, agent=name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_results": -1}, "max_results"),
        ({"max_results": 1.5}, "max_results"),
        ({"min_score": 1.5}, "min_score"),
        ({"min_score": float("nan")}, "min_score"),
        ({"since": "yesterdays"}, "since"),
        ({"until": "2026-13-45"}, "until"),
        ({"since": "2026-02-02", "until": "2026-02-01"}, "since"),
        ({"kind": "diary"}, "kind"),
        ({"fusion": "best"}, "fusion"),
    ],
)
def test_arguments_that_cannot_be_meant_are_named(root: Path, arguments: dict[str, object], message: str) -> None:
    with Memory.open(root, settings=NONE) as memory, pytest.raises(UsageError, match=message):
        memory.search("bond", **arguments)  # type: ignore[arg-type]


def test_zero_means_zero(root: Path) -> None:
    write(root, "a.md", "bond\n")
    write(root, "b.md", "something else\n")
    with Memory.open(root, settings=NONE, embedder=HashedEmbedder()) as memory:
        memory.sync()
        assert len(memory.search("bond", max_results=0)) == 0
        assert "b.md" not in paths(memory.search("bond"))
        assert "b.md" in paths(memory.search("bond", min_score=0))


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_a_blank_query_is_answered_without_asking_anybody(root: Path, query: str) -> None:
    embedder = HashedEmbedder()
    with Memory.open(root, settings=NONE, embedder=embedder) as memory:
        result = memory.search(query)
        assert (len(result), result.disabled) == (0, None)
        assert "empty" in result.notices[0]
    assert embedder.queries == []


@pytest.mark.parametrize(
    "query", ['"', "()", "AND", "*", "NEAR(", "foo:bar", "\0", "\ud800", "😀", "a" * 100_000, "' OR 1=1 --"]
)
def test_no_query_breaks_the_full_text_parser(root: Path, query: str) -> None:
    write(root, "a.md", "bond\n")
    with Memory.open(root, settings=NONE, embedder=HashedEmbedder()) as memory:
        assert memory.search(query, wait_ms=-1).disabled is None


def test_a_folder_that_does_not_exist_is_made_or_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="vademecum init"):
        Memory.open(tmp_path / "none", create=False, settings=NONE)
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="not a folder"):
        Memory.open(tmp_path / "file", settings=NONE)
    Memory.open(tmp_path / "new", settings=NONE).close()
    assert (tmp_path / "new" / "MEMORY.md").is_file()


def test_a_root_that_vanishes_disables_search_and_forgets_nothing(root: Path) -> None:
    write(root, "a.md", "bond\n")
    with Memory.open(root, settings=NONE) as memory:
        memory.sync()
        root.rename(root.with_name("away"))
        result = memory.search("bond")
        assert result.disabled is not None
        assert str(root) in result.disabled
        with pytest.raises(MissingFileError):
            memory.get("a.md")
        root.with_name("away").rename(root)
        assert paths(memory.search("bond")) == ["a.md"]


def damage_header(state: Path) -> None:
    (state / "index.sqlite").write_bytes(b"this is no database" * 1000)


def damage_pages(state: Path) -> None:
    with closing(sqlite3.connect(state / "index.sqlite")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray((state / "index.sqlite").read_bytes())
    for start in range(4096, len(data), 4096):
        data[start : start + 64] = b"\xff" * 64
    (state / "index.sqlite").write_bytes(data)


@pytest.mark.parametrize("damage", [damage_header, damage_pages])
def test_a_damaged_index_is_set_aside_and_built_anew(root: Path, damage: Callable[[Path], None]) -> None:
    for number in range(30):
        write(root, f"{number}.md", f"bond number{number}\n" * 20)
    embedder = HashedEmbedder()
    with Memory.open(root, settings=NONE, embedder=embedder) as memory:
        memory.sync()
    before = {file.name: file.read_bytes() for file in root.glob("*.md")}
    for suffix in ("-wal", "-shm"):
        (root / ".vademecum" / f"index.sqlite{suffix}").unlink(missing_ok=True)
    damage(root / ".vademecum")
    embedded = len(embedder.texts)
    with Memory.open(root, settings=NONE, embedder=embedder) as memory:
        result = memory.search("number7", wait_ms=-1)
        assert paths(result)[0] == "7.md"
        assert any("damaged" in notice for notice in result.notices)
    assert list((root / ".vademecum").glob("index.sqlite.corrupt-*"))
    assert {file.name: file.read_bytes() for file in root.glob("*.md")} == before
    assert len(embedder.texts) == embedded


def test_damage_met_while_open_is_healed_by_the_same_search(root: Path) -> None:
    for number in range(30):
        write(root, f"{number}.md", f"bond number{number}\n" * 20)
    with Memory.open(root, settings=NONE) as memory:
        memory.sync()
        damage_pages(root / ".vademecum")
        assert paths(memory.search("number7", wait_ms=-1))[:1] == ["7.md"]


def test_an_index_of_a_newer_version_is_refused_by_name_and_rebuild_sets_it_aside(root: Path) -> None:
    write(root, "a.md", "bond\n")
    with Memory.open(root, settings=NONE) as memory:
        memory.sync()
    with closing(sqlite3.connect(root / ".vademecum" / "index.sqlite")) as db:
        db.execute("PRAGMA user_version = 99")
    with Memory.open(root, settings=NONE) as memory:
        result = memory.search("bond")
        assert "newer vademecum" in (result.disabled or "")
        assert memory.status().disabled == result.disabled
        with pytest.raises(IndexUnavailableError, match="newer"):
            memory.sync()
        memory.remember("still works")
        assert "still works" in memory.get("MEMORY.md").text
        assert "still works" in memory.context().text
        assert memory.rebuild().added == 2
        assert paths(memory.search("bond")) == ["a.md"]


def test_an_index_that_cannot_be_opened_leaves_the_rest_working(root: Path) -> None:
    (root / ".vademecum" / "vectors.sqlite").mkdir(parents=True)
    with Memory.open(root, settings=NONE) as memory:
        memory.remember("still works")
        assert "still works" in memory.get("long_term").text
        result = memory.search("works")
        assert (len(result), result.fresh) == (0, False)
        assert "vectors.sqlite" in (result.disabled or "")


def test_rebuild_writes_every_row_anew_and_pays_for_no_vector(root: Path) -> None:
    write(root, "a.md", "bond\n")
    embedder = HashedEmbedder()
    with Memory.open(root, settings=NONE, embedder=embedder) as memory:
        memory.sync()
        with closing(sqlite3.connect(root / ".vademecum" / "index.sqlite")) as db, db:
            db.execute("UPDATE words SET body = 'wrong'")
        assert paths(memory.search("bond", mmr=False)) == ["a.md"]
        report = memory.rebuild()
        assert (report.chunks, report.embedded) == (1, 0)
        assert {hit.trace.keyword for hit in memory.search("wrong", min_score=0)} == {0.0}
        assert memory.search("bond")[0].trace.keyword == 1.0


def test_other_chunk_settings_rebuild_the_index(root: Path) -> None:
    write(root, "a.md", "".join(f"- item number {number} of a long list\n" for number in range(200)))
    with Memory.open(root, settings=NONE) as memory:
        few = memory.sync().chunks
    smaller = replace(NONE, chunk=ChunkSettings(tokens=50, overlap_tokens=10))
    with Memory.open(root, settings=smaller) as memory:
        assert memory.sync().chunks > 2 * few


def test_two_memories_of_one_root_share_one_core_and_close_it_together(root: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: Memory.open(root, settings=NONE), range(8)))
    assert len({id(memory._core) for memory in opened}) == 1
    for memory in opened[1:]:
        memory.close()
        memory.close()
    opened[0].remember("alive")
    assert len(opened[0].search("alive")) == 1
    opened[0].close()
    assert core._cores == {}
    assert "closed" in (opened[0].search("alive").disabled or "")


def test_other_settings_for_a_root_that_is_open_are_refused(root: Path) -> None:
    with Memory.open(root, settings=NONE):
        with pytest.raises(SettingsError, match="already open"):
            Memory.open(root, settings=replace(NONE, timezone="Europe/Berlin"))
        Memory.open(root, settings=replace(NONE, search=SearchSettings(max_results=1))).close()


def test_threads_may_search_and_write_at_once(root: Path) -> None:
    with Memory.open(root, settings=NONE, embedder=HashedEmbedder()) as memory:

        def work(number: int) -> None:
            memory.remember(f"thread number{number} was here")
            assert memory.search(f"number{number}").disabled is None

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(40)))
        memory.sync()
        lines = [line for line in memory.get("MEMORY.md").text.splitlines() if "was here" in line]
        assert len(lines) == len(set(lines)) == 40


def test_processes_that_open_an_empty_root_at_once_all_succeed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    write(root, "a.md", "bond\n")
    script = (
        "import sys; from vademecum import Memory\n"
        f"with Memory.open({str(root)!r}) as m:\n"
        "    r = m.search('bond', wait_ms=-1); assert [h.path for h in r] == ['a.md'], r\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script], env=environment()) for _ in range(6)]
    assert [process.wait(120) for process in running] == [0] * 6


def test_a_program_that_forgets_to_close_still_ends_and_loses_nothing(root: Path) -> None:
    script = f"from vademecum import Memory\nm = Memory.open({str(root)!r})\nm.remember('kept')\nm.search('kept')\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "kept" in (root / "MEMORY.md").read_text()


def test_a_forked_child_does_not_use_its_parents_connections(root: Path) -> None:
    write(root, "a.md", "bond\n")
    script = (
        "import os, warnings; warnings.simplefilter('ignore')\n"
        "from vademecum import Memory\n"
        f"m = Memory.open({str(root)!r}); m.search('bond', wait_ms=-1)\n"
        "pid = os.fork()\n"
        f"ok = [h.path for h in Memory.open({str(root)!r}).search('bond', wait_ms=-1)] == ['a.md']\n"
        "if pid == 0: os._exit(0 if ok else 1)\n"
        "assert ok and os.waitpid(pid, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", script], env=environment(), check=True, timeout=60)


def test_the_async_facade_does_the_same_without_blocking_the_loop(root: Path) -> None:
    async def scenario() -> None:
        async with await AsyncMemory.open(root, settings=NONE) as memory:
            written = await memory.remember("the passport lies in the drawer")
            results = await asyncio.gather(*(memory.search("passport") for _ in range(4)))
            assert [paths(result) for result in results] == [["MEMORY.md"]] * 4
            assert (await memory.get(written.path, start=written.start_line)).text.endswith("drawer")
            assert "passport" in (await memory.context()).text
            assert (await memory.sync()).failed == ()
            assert (await memory.rebuild()).failed == ()
            assert (await memory.status()).pending == 0

    asyncio.run(scenario())


def test_today_is_the_users_day_not_the_servers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(2026, 3, 1, 19, 53, tzinfo=UTC)

    monkeypatch.setattr(core, "datetime", Clock)
    with Memory.open(root, settings=replace(NONE, timezone="Asia/Shanghai")) as memory:
        assert memory.remember("03:53 there", daily=True).path == "memory/2026-03-02.md"
    with Memory.open(root, settings=replace(NONE, timezone="America/New_York")) as memory:
        assert memory.remember("14:53 there", daily=True).path == "memory/2026-03-01.md"


def test_status_recounts_the_disk(root: Path) -> None:
    write(root, "a.md", "bond\n")
    with Memory.open(root, settings=NONE, embedder=HashedEmbedder()) as memory:
        before = memory.status()
        assert (before.files_on_disk, before.pending) == (2, 2)
        memory.sync()
        after = memory.status()
        assert (after.pending, after.missing_vectors, after.index.sources) == (0, 0, 2)
        assert after.index.vectors == {"test|hashed|64|||unit": after.index.chunks}
        write(root, "b.md", "more\n")
        (root / "a.md").unlink()
        assert memory.status().pending == 2


def test_a_read_only_root_is_searched_with_its_index_in_the_users_cache(root: Path, tmp_path: Path) -> None:
    write(root, "a.md", "bond\n")
    shutil.rmtree(root / ".vademecum")
    with read_only(root) as view, Memory.open(view, settings=NONE) as memory:
        assert paths(memory.search("bond", wait_ms=-1)) == ["a.md"]
        assert os.environ["XDG_CACHE_HOME"] in memory.status().state
        with pytest.raises(StoreError):
            memory.remember("no")
        assert "bond" in memory.get("a.md").text


def test_a_full_disk_loses_neither_markdown_nor_search(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as folder:
        root = init(folder / "root")
        write(root, "a.md", "bond\n")
        with Memory.open(root, settings=NONE) as memory:
            assert paths(memory.search("bond", wait_ms=-1)) == ["a.md"]
            filler = folder / "filler"
            with pytest.raises(OSError), filler.open("wb") as stream:
                while True:
                    stream.write(b"x" * 4096)
                    stream.flush()
            before = (root / "MEMORY.md").read_bytes()
            with pytest.raises(StoreError):
                memory.remember("y" * 100_000)
            assert (root / "MEMORY.md").read_bytes() == before
            filler.unlink()
            memory.remember("there is room again")
            assert paths(memory.search("room", wait_ms=-1)) == ["MEMORY.md"]


def test_a_search_is_not_held_up_by_a_writer_in_another_process(root: Path) -> None:
    write(root, "a.md", "bond\n")
    with Memory.open(root, settings=NONE) as memory:
        memory.sync()
        with closing(sqlite3.connect(root / ".vademecum" / "index.sqlite", isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            write(root, "b.md", "bond too\n")
            began = time.monotonic()
            result = memory.search("bond", wait_ms=100)
            assert time.monotonic() - began < 5
            assert (paths(result), result.fresh) == (["a.md"], False)
            writer.execute("ROLLBACK")
        assert set(paths(memory.search("bond", wait_ms=-1))) == {"a.md", "b.md"}
