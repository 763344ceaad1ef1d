"""Faults of the second seed system, CowAgent, each with its smallest input. ``faults.toml`` says which is which."""

from __future__ import annotations

import asyncio
import base64
import random
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedders import HashedEmbedder
from memories import PATIENT, OpenMemory, paths, query, rows, texts, write
from vademecum import AsyncMemory, Memory
from vademecum.errors import MissingFileError, PathError, ProviderDownError, UsageError
from vademecum.text.estimate import estimate_tokens

if TYPE_CHECKING:
    from vademecum.types import Matrix, Vector


def _sound(memory: Memory) -> None:
    """The full text holds what the chunks hold, and SQLite finds no fault in it."""
    with closing(sqlite3.connect(memory.root / ".vademecum" / "index.sqlite")) as db:
        db.execute("INSERT INTO words(words) VALUES ('integrity-check')")
        assert (
            db.execute("SELECT count(*) FROM words").fetchone() == db.execute("SELECT count(*) FROM chunks").fetchone()
        )


@pytest.mark.parametrize("word", ["passport", "护照"])
@pytest.mark.parametrize("age", [0, 13, 47, 60, 400, 4000])
def test_c1_an_exact_word_is_found_without_vectors_at_any_age(open_memory: OpenMemory, word: str, age: int) -> None:
    day = (date.today() - timedelta(days=age)).isoformat()  # noqa: DTZ011 - the user's day, as the library sees it
    memory = open_memory({f"memory/{day}.md": f"Renewed the {word} today."})
    assert paths(memory.search(word)) == [f"memory/{day}.md"]


def test_c2_a_note_rewritten_twenty_times_leaves_no_ghost(open_memory: OpenMemory) -> None:
    memory = open_memory({f"note{n}.md": f"Unrelated note {n}." for n in range(4)})
    for n in range(20):
        write(memory.root, {"note.md": f"The broker is broker{n}, 经纪人{n}号. Common words stay."})
        memory.sync()
    assert [word for word in (f"broker{n}" for n in range(20)) if memory.search(word)] == ["broker19"]
    assert paths(memory.search("common words stay")) == ["note.md"]
    _sound(memory)


@pytest.mark.parametrize(
    "damage",
    [
        "INSERT INTO words(rowid, heading, body) VALUES (999, '', 'ghost 幽 灵 幽灵')",
        "DELETE FROM words",
        "UPDATE chunks SET text = 'ghost'",
    ],
)
def test_c3_rebuild_mends_rows_and_words_whatever_happened_to_them(open_memory: OpenMemory, damage: str) -> None:
    memory = open_memory({"a.md": "The broker is Schwab.", "b.md": "今天玩成语接龙游戏"})
    memory.sync()
    before = rows(memory)
    with closing(sqlite3.connect(memory.root / ".vademecum" / "index.sqlite")) as db, db:
        db.execute(damage)
    memory.rebuild()
    assert rows(memory) == before
    assert (paths(memory.search("Schwab")), paths(memory.search("接龙"))) == (["a.md"], ["b.md"])
    assert not memory.search("ghost 幽灵")
    _sound(memory)


LONG_LINES = {
    "words": "alphaword " + "x" * 2400 + " omegaword " + "y" * 2400 + " tailword",
    "prose": "alphaword " + "A sentence about bonds. " * 150 + "omegaword " + "And one about gold. " * 150 + "tailword",
    "han": "alphaword " + "债券" * 1200 + " omegaword " + "黄金" * 1200 + " tailword",
    "base64": "alphaword " + base64.b64encode(random.Random(4).randbytes(3000)).decode() + " omegaword tailword",
    "same": "alphaword " + "same " * 1500 + "omegaword tailword",
}


@pytest.mark.parametrize("line", LONG_LINES.values(), ids=LONG_LINES)
def test_c4_every_piece_of_a_long_line_is_found(open_memory: OpenMemory, line: str) -> None:
    memory = open_memory({"long.md": line})
    for word in ("alphaword", "omegaword", "tailword"):
        hits = memory.search(word)
        assert word in texts(hits)
        assert {(hit.start_line, hit.end_line) for hit in hits} == {(1, 1)}


def test_c5_one_bad_page_does_not_stop_the_others(open_memory: OpenMemory) -> None:
    memory = open_memory(
        {"a.md": LONG_LINES["words"], "b.md": b"not \xff text", "c.md": "NUL \0 inside.", "d.md": "The good page."}
    )
    report = memory.sync()
    assert [path for path, _ in report.failed] == ["b.md"]
    assert paths(memory.search("good page")) == ["d.md"]
    assert paths(memory.search("inside")) == ["c.md"]
    assert memory.sync().failed == report.failed


def test_c6_deleted_and_emptied_files_are_forgotten(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "The user has a cat.", "topics/pets.md": "The cat is called Tiger."})
    assert len(memory.search("cat")) == 2
    (memory.root / "topics" / "pets.md").unlink()
    write(memory.root, {"MEMORY.md": ""})
    assert not memory.search("cat")
    assert query(memory, "SELECT count(*) FROM chunks") == [(0,)]


def test_c7_rebuild_cuts_again_and_embeds_only_what_has_no_vector(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    memory = open_memory({f"note{n}.md": f"Text number {n}." for n in range(5)}, embedder=embedder)
    memory.sync()
    before = rows(memory)
    report = memory.rebuild()
    assert (report.chunks, report.embedded, report.pending) == (5, 0, 0)
    assert rows(memory) == before


class _Shifted(HashedEmbedder):
    """A space of its own: every text is embedded as if it said more."""

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(f"{text} shift")

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return super().embed_documents([f"{text} shift" for text in texts])


@pytest.mark.kernels
@pytest.mark.parametrize("dims", [64, 96])
def test_c8_vectors_of_two_models_are_never_compared(open_memory: OpenMemory, dims: int) -> None:
    pages = {f"note{n}.md": f"Words of note {n}" for n in range(5)}
    for embedder in (None, HashedEmbedder(), _Shifted(dims, model="shifted"), HashedEmbedder()):
        with open_memory(pages, embedder=embedder) as memory:
            hit = memory.search("Words of note 3")[0]
        assert hit.path == "note3.md"
        assert hit.trace.vector == (None if embedder is None else pytest.approx(1.0, abs=1e-5))


def test_c9_a_model_without_its_vectors_is_one_message(open_memory: OpenMemory) -> None:
    pages = {f"note{n}.md": f"Words of note {n}" for n in range(50)}
    with open_memory(pages, embedder=HashedEmbedder(64)) as memory:
        memory.sync()
    other = HashedEmbedder(96)
    other.fail(ProviderDownError("test: down"))
    with open_memory(embedder=other) as memory:
        result = memory.search("note", max_results=20)
    assert len(result) == 20
    assert result.notices == ("some texts have no vector yet: test: down",)
    assert result.channels["vector"].startswith("off: the vectors of test|hashed|96|||unit are not complete yet")


def test_c10_zero_means_zero(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "apple", "b.md": "pear"}, embedder=HashedEmbedder(256))
    assert not memory.search("apple", max_results=0)
    assert paths(memory.search("apple")) == ["a.md"]
    assert paths(memory.search("apple", min_score=0)) == ["a.md", "b.md"]
    with pytest.raises(UsageError, match="max_results"):
        memory.search("apple", max_results=-1)


@pytest.mark.parametrize(
    ("page", "word"),
    [
        ("Брокер пользователя находится в Москве.", "пользователя"),
        ("المستخدم يفضل السندات الحكومية.", "السندات"),
        ("Die Grüße aus München kamen an.", "grüße"),
        ("Die Straße ist gesperrt.", "strasse"),
        ("We met at the café.", "cafe"),
    ],
)
def test_c11_words_of_every_script_are_found(open_memory: OpenMemory, page: str, word: str) -> None:
    assert paths(open_memory({"page.md": page, "other.md": "Nothing of it."}).search(word)) == ["page.md"]


@pytest.mark.parametrize(
    ("page", "question"),
    [
        ("上周分享过一个教程链接，讲 Docker 网络。", "我上次说的那个教程链接呢"),
        ("她喜欢吃的水果是芒果和荔枝。", "喜欢什么水果"),
        ("用 Docker 部署时网络要用 host 模式。", "docker 部署 网络怎么配"),
    ],
)
def test_c12_a_chinese_question_need_not_occur_word_for_word(open_memory: OpenMemory, page: str, question: str) -> None:
    memory = open_memory({"page.md": page, "other.md": "昨天的天气很好，适合散步。"})
    assert memory.search(question)[0].path == "page.md"


def test_c13_the_best_of_many_is_found_and_no_character_is_a_wildcard(open_memory: OpenMemory) -> None:
    pages = {f"note{n:03}.md": f"第{n}条：今天吃了苹果。" for n in range(300)}
    memory = open_memory({**pages, "zz.md": "苹果手机的电池。", "a.md": "fileXname", "b.md": "file_name"})
    assert memory.search("苹果手机")[0].path == "zz.md"
    assert paths(memory.search("file_name")) == ["b.md"]
    assert not memory.search("%")


def test_c14_a_dated_name_in_knowledge_does_not_fade(open_memory: OpenMemory) -> None:
    memory = open_memory(
        {"knowledge/sources/report-2020-01-01.md": "Annual report.", "knowledge/2020-01-01.md": "Annual report."}
    )
    hits = memory.search("annual report", mmr=False)
    assert [(hit.date, hit.trace.decay) for hit in hits] == [(None, 1.0), (None, 1.0)]


def test_c18_no_viewer_sees_anothers_rows(open_memory: OpenMemory) -> None:
    pages = {
        "MEMORY.md": "The office code.",
        "memory/users/alice/MEMORY.md": "The code of Alice.",
        "memory/users/bob/2026-01-11.md": "The code of Bob.",
        "memory/agents/scout/MEMORY.md": "The code of Scout.",
    }
    everyone = open_memory(pages)
    assert paths(everyone.search("code")) == ["MEMORY.md"]
    alice = open_memory(user="alice")
    assert set(paths(alice.search("code"))) == {"MEMORY.md", "memory/users/alice/MEMORY.md"}
    assert set(paths(open_memory(agent="scout").search("code"))) == {"MEMORY.md", "memory/agents/scout/MEMORY.md"}
    with pytest.raises(PathError):
        alice.get("memory/users/bob/2026-01-11.md")
    assert "Bob" not in alice.context().text


def test_c21_parallel_syncs_embed_each_text_once(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder(batch_size=4)
    memory = open_memory({f"note{n}.md": f"Text number {n}." for n in range(40)}, embedder=embedder)
    with ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(lambda _: memory.sync(), range(3)))
    assert len(embedder.texts) == len(set(embedder.texts)) == 40
    assert [report.pending for report in reports] == [0, 0, 0]


def test_c22_a_page_is_never_absent_while_it_is_rewritten(open_memory: OpenMemory) -> None:
    memory = open_memory({"note.md": "The broker, version 0."})
    memory.sync()
    done = threading.Event()
    empty = 0

    def rewrite() -> None:
        for n in range(60):
            temporary = memory.root / ".new"
            temporary.write_text(f"The broker, version {n}.\n" * (n % 7 + 1))
            temporary.replace(memory.root / "note.md")
            memory.sync()
        done.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    while not done.is_set():
        empty += not memory.search("broker", wait_ms=0)
    writer.join()
    assert empty == 0


def test_c25_one_changed_line_of_a_long_page_embeds_a_few_chunks(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    bullets = [f"- Item {n}: {'some words about it ' * 5}" for n in range(400)]
    memory = open_memory({"list.md": "\n".join(bullets)}, embedder=embedder)
    memory.sync()
    first = len(embedder.texts)
    bullets[200] = "- Item 200 reads otherwise now."
    write(memory.root, {"list.md": "\n".join(bullets)})
    memory.sync()
    assert first > 20
    assert len(embedder.texts) - first <= 4


def test_c37_only_what_is_inside_and_not_hidden_is_indexed(open_memory: OpenMemory, tmp_path: Path) -> None:
    write(tmp_path, {"elsewhere/page.md": "mango outside"})
    memory = open_memory(
        {"knowledge/.obsidian/page.md": "mango hidden", ".git/page.md": "mango hidden", "knowledge/a/b.md": "mango"}
    )
    (memory.root / "knowledge" / "link.md").symlink_to(tmp_path / "elsewhere" / "page.md")
    (memory.root / "knowledge" / "folder").symlink_to(tmp_path / "elsewhere")
    result = memory.search("mango")
    assert paths(result) == ["knowledge/a/b.md"]
    assert any("knowledge/link.md" in notice for notice in result.notices)


def test_c38_a_page_that_is_not_utf_8_is_named(open_memory: OpenMemory) -> None:
    memory = open_memory({"latin.md": "Grüße".encode("latin-1"), "good.md": "Greetings."})
    ((path, reason),) = memory.sync().failed
    assert (path, "not valid UTF-8 at byte 2" in reason) == ("latin.md", True)
    result = memory.search("greetings")
    assert paths(result) == ["good.md"]
    assert any("latin.md" in notice for notice in result.notices)


def test_c39_a_running_event_loop_is_no_obstacle(tmp_path: Path) -> None:
    write(tmp_path, {"MEMORY.md": "The passport expires in May."})

    async def talk() -> list[list[str]]:
        with Memory.open(tmp_path, settings=PATIENT) as memory:
            inside = paths(memory.search("passport"))
        async with await AsyncMemory.open(tmp_path, settings=PATIENT) as memory:
            answers = await asyncio.gather(*(memory.search("passport") for _ in range(4)))
        return [inside, *map(paths, answers)]

    assert asyncio.run(talk()) == [["MEMORY.md"]] * 5


@pytest.mark.parametrize(
    "path", ["memory/../.env", ".env", "memory/../../.env", "config.json", "/etc/passwd", "memory", "a\0b.md", ""]
)
def test_c40_get_reads_pages_of_the_memory_only(open_memory: OpenMemory, path: str) -> None:
    memory = open_memory({"MEMORY.md": "Fine.", ".env": "KEY=secret", "config.json": "{}", "memory/a.md": "Fine."})
    with pytest.raises(PathError):
        memory.get(path)


def test_c40_get_counts_lines_as_asked(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "".join(f"line {n}\n" for n in range(1, 50))})
    assert memory.get("MEMORY.md", start=48, lines=9).text == "line 48\nline 49"
    beyond = memory.get("MEMORY.md", start=50)
    assert (beyond.text, beyond.total_lines, beyond.end_line) == ("", 49, 0)
    for wrong in ({"lines": -1}, {"lines": 0}, {"start": 0}, {"start": "1"}, {"lines": "5"}):
        with pytest.raises(UsageError):
            memory.get("MEMORY.md", **wrong)  # type: ignore[arg-type]
    with pytest.raises(MissingFileError, match=r"other\.md"):
        memory.get("other.md")


def test_c41_a_huge_line_still_leaves_something_to_read(open_memory: OpenMemory) -> None:
    context = open_memory({"MEMORY.md": "The user is a careful investor. " * 1000}).context(max_tokens=2000)
    assert context.text.count("careful investor") > 100
    assert context.tokens <= 2000


def test_c41_every_section_keeps_its_heading(open_memory: OpenMemory) -> None:
    sections = [f"## Topic {n}\n\n" + "".join(f"- Fact {m} of {n}.\n" for m in range(40)) for n in range(12)]
    context = open_memory({"MEMORY.md": "# Memory\n\n" + "\n".join(sections)}).context(max_tokens=800)
    assert [f"## Topic {n}\n" in context.text for n in range(12)] == [True] * 12
    assert context.tokens <= 800


def test_c42_chinese_chunks_fit_the_models_that_embed_them(open_memory: OpenMemory) -> None:
    memory = open_memory({"zh.md": "他在会议上说明了明年的投资计划和风险。" * 300})
    memory.sync()
    chunks = [str(text) for (text,) in query(memory, "SELECT text FROM chunks")]
    assert max(map(estimate_tokens, chunks)) <= 400
    assert max(map(len, chunks)) < 512


def test_c44_opening_an_index_again_writes_nothing(open_memory: OpenMemory) -> None:
    with open_memory({f"note{n}.md": f"文字 number {n}." for n in range(20)}, embedder=HashedEmbedder()) as memory:
        memory.sync()
        root = memory.root
    files = [root / ".vademecum" / name for name in ("index.sqlite", "vectors.sqlite")]
    before = [file.read_bytes() for file in files]
    for _ in range(3):
        with open_memory(embedder=HashedEmbedder()) as memory:
            assert memory.search("number")
    assert [file.read_bytes() for file in files] == before


def test_c67_failed_vectors_stay_pending_and_follow(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    embedder.fail(ProviderDownError("test: down"))
    with open_memory({"MEMORY.md": "The passport expires in May."}, embedder=embedder) as memory:
        assert memory.sync().pending == 1
        assert paths(memory.search("passport")) == ["MEMORY.md"]
        assert memory.status().missing_vectors == 1
        embedder.heal()
        assert memory.sync().pending == 0
    with open_memory(embedder=embedder) as memory:
        assert memory.search("passport")[0].trace.vector is not None
    assert len(embedder.batches[-1]) == 1
