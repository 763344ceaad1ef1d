"""What users of such systems reported as broken, by kind; the numbers are those of ``faults.toml``."""

from __future__ import annotations

import os
import re
import sqlite3
import time
import unicodedata
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vademecum
from embedders import HashedEmbedder
from memories import PATIENT, OpenMemory, paths, query, texts, write
from store_support import python
from vademecum import Memory
from vademecum.backends import EmbeddedIndex
from vademecum.cli import main
from vademecum.errors import ProviderDownError, UsageError
from vademecum.store.files import Document, append
from vademecum.store.files import replace as replace_page
from vademecum.store.paths import resolve
from vademecum.types import Calibration, Chunk, Condition, Fingerprint, IndexSpec, Lane, Source

if TYPE_CHECKING:
    from vademecum.types import Matrix, Vector

# -- 3-A: keyword search in other scripts ---------------------------------------------------------------------------

GAME = "今天玩成语接龙游戏"


@pytest.mark.parametrize("word", ["成语接龙", "接龙", "龙", "今天", GAME])
def test_3a_any_part_of_a_chinese_run_is_found(open_memory: OpenMemory, word: str) -> None:
    memory = open_memory({"a.md": GAME, "b.md": "王小姐明早到。", "c.md": "새로운 게임이 나왔다"})
    assert paths(memory.search(word)) == ["a.md"]


@given(st.data())
@settings(max_examples=60)
def test_3a_every_substring_of_text_without_spaces_is_found(data: st.DataObject) -> None:
    han = st.text("今天玩成语接龙游戏王小姐カラオケゲームのした게임이나왔다ภาษาไทย", min_size=1, max_size=30)
    page = data.draw(han)
    start = data.draw(st.integers(0, len(page) - 1))
    part = page[start : data.draw(st.integers(start + 1, len(page)))]
    if unicodedata.category(part[0]).startswith("M") or unicodedata.category((page + " ")[start + len(part)])[0] == "M":
        return  # half a character is none
    with TemporaryDirectory() as folder:
        write(Path(folder), {"page.md": page, "other.md": "nothing of it"})
        with Memory.open(folder, settings=PATIENT) as memory:
            assert paths(memory.search(part)) == ["page.md"]


def test_3a_one_full_text_table_with_one_tokeniser(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": GAME})
    memory.sync()
    tables = query(memory, "SELECT name FROM sqlite_master WHERE sql LIKE '%fts5(%'")
    assert tables == [("words",)]


def test_3a_a_missing_segment_only_ranks_lower(open_memory: OpenMemory) -> None:
    memory = open_memory({"part.md": "云工开物 300 元学生券", "whole.md": "云工开物 300 元优惠券"})
    assert paths(memory.search("云工开物 优惠券", mmr=False)) == ["whole.md", "part.md"]


def test_3a_a_hit_points_at_its_own_lines(open_memory: OpenMemory) -> None:
    lines = [f"第{n}天，我们讨论了投资组合和风险。" for n in range(1, 400)]
    lines[380] = "最后决定参加成语接龙比赛。"
    memory = open_memory({"long.md": "\n\n".join(lines)})
    hit = memory.search("成语接龙")[0]
    found = memory.get("long.md", start=hit.start_line, lines=hit.end_line - hit.start_line + 1)
    assert "成语接龙" in found.text
    assert hit.start_line > 600


def test_3a_an_empty_index_answers_nothing(open_memory: OpenMemory) -> None:
    result = open_memory().search("交互")
    assert (list(result), result.disabled, result.channels["keyword"]) == ([], None, "ok")


@pytest.mark.parametrize(
    ("page", "asked"),
    [
        ("Пользователь любит облигации.", "облигации отсутствует"),
        ("Ο χρήστης προτιμά ομόλογα.", "ομόλογα απουσιάζει"),
        ("המשתמש מעדיף אגרות חוב.", "אגרות חסר"),
        ("يفضل المستخدم السندات.", "السندات غائب"),
        ("ผู้ใช้ชอบพันธบัตร", "พันธบัตร หายไป"),
        ("उपयोगकर्ता बांड पसंद करता है।", "बांड अनुपस्थित"),
    ],
)
def test_3a_one_known_word_of_two_is_enough_in_any_script(open_memory: OpenMemory, page: str, asked: str) -> None:
    assert paths(open_memory({"page.md": page, "other.md": "Nothing of it."}).search(asked)) == ["page.md"]


def test_3a_full_text_finds_what_a_plain_scan_finds(open_memory: OpenMemory, request: pytest.FixtureRequest) -> None:
    examples = request.config.rootpath / "examples" / "investor"
    pages = {str(page.relative_to(examples)): page.read_bytes() for page in examples.rglob("*.md")}
    memory = open_memory(pages)
    memory.sync()
    chunks = [(str(path), str(text)) for path, text in query(memory, _CHUNK_TEXTS)]
    words = sorted({word for _, text in chunks for word in re.findall(r"[A-Za-z]{4,}|[\u4e00-\u9fff]{2}", text)})
    assert len(words) > 500
    for word in words[::25]:
        scanned = {path for path, text in chunks if re.search(rf"(?<![A-Za-z]){word}(?![A-Za-z])", text, re.IGNORECASE)}
        assert scanned <= set(paths(memory.search(word, max_results=1000, mmr=False))), word


_CHUNK_TEXTS = "SELECT f.path, c.text FROM chunks c JOIN files f ON f.id = c.file_id"

# -- 3-B: what a user types -----------------------------------------------------------------------------------------

TYPED = {
    "2026-03-31": "Due on 2026-03-31 at noon.",
    "real-time": "A real-time feed.",
    "v1.0.21": "Released v1.0.21 today.",
    '"1.0.21"': "Released v1.0.21 today.",
    "C++": "Written in C++ and tested.",
    "user@example.com": "Write to user@example.com please.",
    "don't": "We don't trade options.",
    "don’t": "We don't trade options.",
    "foo:bar": "Set foo:bar in the file.",
    "file_name": "See file_name for it.",
    "chat-send": "The event chat-send failed.",
    "text:secret": "A text without it; secret is another word.",
    "real-time AND feed": "A real-time feed.",
    "NEAR(": "It is near the station.",
}


@pytest.mark.parametrize(("typed", "page"), TYPED.items())
def test_3b_what_is_typed_is_looked_up_literally(open_memory: OpenMemory, typed: str, page: str) -> None:
    memory = open_memory({"page.md": page, "other.md": "Nothing at all, 2025 04 30, 1.0.22."})
    assert paths(memory.search(typed))[:1] == ["page.md"]


@pytest.mark.parametrize(
    "typed", ['"', "()", "*", "AND", "OR NOT", "-", "'", "a*", "^a", "{a b}:c", "\\", "\0", "%", "💥", "\ud800", ";--"]
)
def test_3b_no_query_is_an_error(open_memory: OpenMemory, typed: str) -> None:
    result = open_memory({"a.md": "Some text."}, embedder=HashedEmbedder()).search(typed)
    assert result.disabled is None
    assert result.channels["keyword"] == "ok"


@given(st.text(max_size=40))
@settings(max_examples=100)
def test_3b_no_text_whatever_is_an_error(typed: str) -> None:
    with TemporaryDirectory() as folder:
        write(Path(folder), {"page.md": "Some text with a date, 2026-03-31."})
        with Memory.open(folder, settings=PATIENT) as memory:
            assert memory.search(typed).disabled is None


def test_3b_operators_are_words(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "bonds", "b.md": "gold"})
    assert sorted(paths(memory.search("bonds NOT gold"))) == ["a.md", "b.md"]
    assert not memory.search("bon*")
    assert not memory.search("body:silver")


def test_3b_three_words_need_not_stand_in_one_chunk(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "The meeting is on Monday.", "b.md": "The budget grew.", "c.md": "A budget review."})
    assert paths(memory.search("meeting budget review", mmr=False))[0] == "c.md"
    assert len(memory.search("meeting budget review")) == 3


@pytest.mark.parametrize("typed", ["", " ", "\n\t", "\u3000"])
def test_3b_a_blank_query_asks_no_provider(open_memory: OpenMemory, typed: str) -> None:
    embedder = HashedEmbedder()
    memory = open_memory({"a.md": "Some text."}, embedder=embedder)
    assert not memory.search(typed)
    assert embedder.queries == []


def test_3b_ids_with_hyphens_are_only_ids(open_memory: OpenMemory) -> None:
    memory = open_memory(user="team-a.b@example")
    memory.remember("The code is 4711.")
    assert paths(memory.search("code")) == ["memory/users/team-a.b@example/MEMORY.md"]
    assert not open_memory(user="team-a").search("code")


# -- 3-C: scores, thresholds, fusion --------------------------------------------------------------------------------


@pytest.mark.kernels
@pytest.mark.parametrize("fusion", ["calibrated", "weighted"])
def test_3c_an_exact_rare_word_is_never_dropped_by_the_defaults(open_memory: OpenMemory, fusion: str) -> None:
    pages = {f"note{n}.md": f"A note about plan {n} and the usual matters of the week." for n in range(40)}
    long = "Many other things were said on that day, and most of them do not matter. " * 12
    memory = open_memory({**pages, "rare.md": f"{long}zyxwv {long}"}, embedder=HashedEmbedder())
    for floor in (PATIENT.search.min_score, 1.0):
        assert "rare.md" in paths(memory.search("zyxwv", fusion=fusion, min_score=floor))  # type: ignore[arg-type]


@pytest.mark.kernels
@pytest.mark.parametrize("fusion", ["calibrated", "weighted", "rrf"])
def test_3c_scores_are_between_zero_and_one_and_higher_is_better(open_memory: OpenMemory, fusion: str) -> None:
    pages = {f"note{n}.md": f"Bonds and gold, part {n}. {'Silver too. ' * n}" for n in range(12)}
    memory = open_memory({**pages, "best.md": "gold bonds"}, embedder=HashedEmbedder(256))
    hits = memory.search("gold bonds", mmr=False, fusion=fusion, max_results=20)  # type: ignore[arg-type]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] < scores[0] <= 1
    assert hits[0].path == "best.md"
    assert hits[0].trace.vector == pytest.approx(1.0, abs=1e-5)
    strict = memory.search("gold bonds", mmr=False, fusion=fusion, min_score=0.7)  # type: ignore[arg-type]
    assert strict[0].path == "best.md"
    assert all(hit.trace.keyword is not None and hit.trace.fused > 0 for hit in hits)


def test_3c_keywords_do_not_depend_on_the_model(open_memory: OpenMemory) -> None:
    pages = {"a.md": "Clyde is the dog.", "b.md": "Bonnie is the cat."}
    down = HashedEmbedder(32, model="third")
    down.fail(ProviderDownError("test: down"))
    for embedder in (HashedEmbedder(), HashedEmbedder(96, model="second"), down, None):
        with open_memory(pages, embedder=embedder) as memory:
            hits = memory.search("Clyde")
            assert hits[0].path == "a.md"
            assert "keyword" in hits[0].trace.channels


@pytest.mark.kernels
def test_3c_a_filter_applies_before_the_ranking(open_memory: OpenMemory) -> None:
    big = {f"big/page{n}.md": "gold gold gold bonds" for n in range(200)}
    memory = open_memory({**big, "tiny/page.md": "A long page that mentions gold once."}, embedder=HashedEmbedder())
    assert paths(memory.search("gold", path="tiny/*")) == ["tiny/page.md"]


class _OfAnyLength(HashedEmbedder):
    """Vectors of any length but one, as some models give them."""

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(text) * np.float32(3)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return super().embed_documents(texts) * np.float32(7)


class _OneTooFew(HashedEmbedder):
    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        return super().embed_documents(texts)[:-1]


@pytest.mark.kernels
def test_3c_vectors_are_made_unit_length_at_the_boundary(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "apple tree", "b.md": "quite another text"}, embedder=_OfAnyLength())
    hit = memory.search("apple tree")[0]
    assert (hit.path, hit.trace.vector) == ("a.md", pytest.approx(1.0, abs=1e-5))


def test_3c_a_reply_of_the_wrong_size_stops_vectors_only(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "apple tree", "b.md": "quite another text"}, embedder=_OneTooFew())
    report = memory.sync()
    assert report.pending == 2
    assert "vectors for" in dict(report.failed)["embedding"]
    assert paths(memory.search("apple tree")) == ["a.md"]


def _ten_thousand(folder: Path) -> tuple[EmbeddedIndex, Lane, Vector]:
    """An index of 10,000 chunks with vectors of 1536 dimensions, and one of those vectors."""
    index = EmbeddedIndex(folder, IndexSpec("test", "test"))
    lane = index.lane(Fingerprint("test", "random", 1536), Calibration(0.0, 1.0))
    random = np.random.default_rng(5)
    for page in range(100):
        names = [f"page {page} line {line}" for line in range(1, 101)]
        chunks = [
            Chunk(name, line, line, (), sha256(name.encode()).digest(), 0, name, "")
            for line, name in enumerate(names, 1)
        ]
        rows = random.standard_normal((100, 1536), dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        index.put_vectors(lane, [chunk.hash for chunk in chunks], rows)
        index.replace_source(Source(f"{page}.md", "shared", "memory", None, "stat", str(page)), chunks)
    return index, lane, rows[76]


@pytest.mark.kernels
def test_3c_ten_thousand_vectors_are_searched_in_a_moment(tmp_path: Path) -> None:
    index, lane, vector = _ten_thousand(tmp_path)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        with index.reader() as reader:
            hits = reader.search_vector(lane, vector, 24, (Condition("scope", "in", ("shared",)),))
            (row,) = reader.get([hits[0].id])
        times.append(time.perf_counter() - began)
    index.close()
    assert (row.path, row.start_line, len(hits)) == ("99.md", 77, 24)
    assert min(times) < 0.5  # seconds; the systems that were reported took 1.4 to 8.5


# -- 3-E: chunks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("glyph", ["：", "█", "🙂", "─"])
def test_3e_a_line_of_dear_glyphs_does_not_spoil_the_others(open_memory: OpenMemory, glyph: str) -> None:
    embedder = HashedEmbedder()
    memory = open_memory({"odd.md": glyph * 3000, "good.md": "The good page."}, embedder=embedder)
    assert memory.sync().pending == 0
    assert max(map(len, embedder.texts)) <= 400
    assert memory.search("good page")[0].path == "good.md"


def test_3e_text_of_a_hit_is_a_slice_of_the_file(open_memory: OpenMemory) -> None:
    line = '{"items": [' + ", ".join(f'{{"id": {n}, "name": "item {n}"}}' for n in range(2000)) + "]}"
    page = f"# Data\r\n\r\n{line}\r\n\r\nAn end.\r\n"
    memory = open_memory({"data.md": page})
    assert len(line) > 50_000
    memory.sync()
    chunks = [str(text) for (text,) in query(memory, "SELECT text FROM chunks")]
    assert len(chunks) > 30
    assert all(text in page for text in chunks)


def test_3e_hits_stand_under_all_their_headings(open_memory: OpenMemory) -> None:
    filler = "Nothing else is known about it, and it is not needed often. " * 30
    page = f"# People\n\n## Alice\n\n{filler}\n\n### Phone\n\n555-0100\n\n## Bob\n\n{filler}\n\n### Phone\n\n555-0199\n"
    memory = open_memory({"people.md": page})
    assert memory.search("555-0199")[0].heading[:2] == ("People", "Bob")
    assert "555-0199" in memory.search("Bob Phone")[0].text


def test_3e_two_lines_on_top_embed_nothing_else_again(open_memory: OpenMemory) -> None:
    embedder = HashedEmbedder()
    page = "".join(f"## Section {n}\n\n{f'Text {n} of it. ' * 90}\n\n" for n in range(50))
    memory = open_memory({"page.md": page}, embedder=embedder)
    memory.sync()
    first = len(embedder.texts)
    write(memory.root, {"page.md": f"A new first line.\nAnd a second.\n\n{page}"})
    memory.sync()
    assert first >= 50
    assert len(embedder.texts) - first <= 2
    assert memory.search("Section 49")[0].start_line > 190


def test_3e_structure_needs_explicit_syntax(open_memory: OpenMemory) -> None:
    page = "[10:32] Ann: # not a heading\n10:33 Bob: 1) nor this\n- [ ] a checkbox\n#hashtag at the start\nTitle:\n"
    memory = open_memory({"page.md": page})
    memory.sync()
    assert query(memory, "SELECT DISTINCT heading FROM chunks") == [("[]",)]
    assert memory.search("hashtag")[0].text.strip() == page.strip()


@pytest.mark.parametrize(
    ("page", "heading"),
    [
        ("```bash\n# install deps\npip install x\n```\n", ()),
        ("\ufeff# First\n\nBody of it.\n", ("First",)),
        ("---\ntags: [a]\n---\n# Real\n\nBody.\n", ("Real",)),
        ("Setext title\n============\n\nBody.\n", ("Setext title",)),
        ("# 王\n\n王\n", ("王",)),
    ],
)
def test_3e_headings_are_what_markdown_says(open_memory: OpenMemory, page: str, heading: tuple[str, ...]) -> None:
    memory = open_memory({"page.md": page})
    memory.sync()
    (found,) = query(memory, "SELECT json_array_length(heading), text FROM chunks")
    assert found[0] == len(heading)
    hit = memory.search("body install 王")[0]
    assert hit.heading == heading
    assert hit.text in page


def test_3e_identical_pieces_stay_apart(open_memory: OpenMemory) -> None:
    memory = open_memory({"page.md": "same " * 3000})
    memory.sync()
    ((pieces, identities),) = query(memory, "SELECT count(*), count(DISTINCT hex(hash) || occurrence) FROM chunks")
    assert pieces == identities
    assert pieces in range(6, 60)


def test_3e_a_book_is_read_without_a_model(open_memory: OpenMemory) -> None:
    page = "".join(f"## Chapter {n}\n\n{'A sentence about the matter. ' * 80}\n\n" for n in range(21))
    memory = open_memory({"book.md": page})
    began = time.perf_counter()
    assert memory.search("chapter 20", mmr=False)
    assert len(page) > 48_000
    assert time.perf_counter() - began < 2


# -- 3-I: paths, encodings, platforms -------------------------------------------------------------------------------


def test_3i_a_name_is_found_under_either_normalisation(open_memory: OpenMemory) -> None:
    decomposed = unicodedata.normalize("NFD", "Jürgen Müller/test.md")
    memory = open_memory({decomposed: "Likes hiking."})
    assert paths(memory.search("hiking")) == [decomposed]
    assert memory.get("Jürgen Müller/test.md").text == "Likes hiking."


def test_3i_a_root_that_is_a_link_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "vault", {"MEMORY.md": "Likes hiking.", "loop.txt": ""})
    (tmp_path / "vault" / "again").symlink_to(tmp_path / "vault")
    (tmp_path / "memory").symlink_to(tmp_path / "vault")
    with Memory.open(tmp_path / "memory", settings=PATIENT) as memory:
        result = memory.search("hiking")
        assert paths(result) == ["MEMORY.md"]
        assert any(notice.startswith("again: skipped") for notice in result.notices)
        assert memory.status().root == str((tmp_path / "vault").resolve())


def test_3i_a_backslash_in_a_filter_is_only_a_character(open_memory: OpenMemory) -> None:
    memory = open_memory({"knowledge/a.md": "Likes hiking."})
    assert not memory.search("hiking", path="knowledge\\a.md")
    assert paths(memory.search("hiking", path="knowledge/a.md")) == ["knowledge/a.md"]


def test_3i_mark_and_line_ends_are_understood_and_kept(open_memory: OpenMemory) -> None:
    page = b"\xef\xbb\xbf---\r\ntags: [work]\r\n---\r\n# Memory\r\n\r\n- Likes hiking.\r\n"
    memory = open_memory({"MEMORY.md": page})
    assert paths(memory.search("hiking", tag="work")) == ["MEMORY.md"]
    memory.remember("And tea.")
    assert (memory.root / "MEMORY.md").read_bytes() == page + b"- And tea.\r\n"


def test_3i_an_unreadable_page_or_folder_is_named_and_its_rows_stay(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "Likes hiking.", "shut/b.md": "Likes sailing.", "c.md": "Likes tea."})
    with Memory.open(tmp_path, settings=PATIENT) as memory:
        assert len(memory.search("likes")) == 3
    (tmp_path / "shut").chmod(0)
    (tmp_path / "a.md").chmod(0)
    os.utime(tmp_path / "a.md")
    code = """
import sys
from vademecum import Memory
with Memory.open(sys.argv[1]) as memory:
    report = memory.sync()
    print(report.removed, *sorted(path for path, _ in report.failed), *(path for path, _ in report.notices))
    print(*sorted(hit.path for hit in memory.search("likes", wait_ms=-1)))
"""
    try:
        done = python(code, tmp_path, unprivileged=True)
    finally:
        (tmp_path / "shut").chmod(0o700)
    assert done.stdout.splitlines() == ["0 a.md shut", "a.md c.md shut/b.md"]


# -- 3-J: dates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("memory/2026-01-11.md", "2026-01-11"),
        ("memory/daily/2026-01-11-standup.md", "2026-01-11"),
        ("memory/2024-02-29.md", "2024-02-29"),
        ("memory/2026-02-29.md", None),
        ("memory/2026-13-45.md", None),
        ("memory/0000-01-01.md", None),
        ("memory/12026-01-11.md", None),
        ("memory/9999-12-31.md", "9999-12-31"),
        ("runbook.md", None),
    ],
)
def test_3j_a_valid_date_in_front_of_the_name_makes_a_note_fade(
    open_memory: OpenMemory, path: str, day: str | None
) -> None:
    memory = open_memory({path: "The server moved."})
    os.utime(memory.root / path, (0, 0))
    hit = memory.search("server")[0]
    assert hit.date == day
    assert (hit.trace.decay < 1) == (day is not None and day < "9999")


# -- 3-D, 3-F, 3-G, 3-M: what of them this already owes -------------------------------------------------------------


def test_3d_what_was_just_written_is_found_at_once(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "Nothing yet."})
    memory.sync()
    write(memory.root, {"memory/2026-01-11.md": "Bought a bicycle."})
    assert paths(memory.search("bicycle")) == ["memory/2026-01-11.md"]
    memory.remember("The bicycle is red.")
    assert "MEMORY.md" in paths(memory.search("red bicycle", wait_ms=0))


def test_3d_an_answer_that_may_be_stale_says_so(open_memory: OpenMemory) -> None:
    memory = open_memory({f"note{n}.md": f"Text number {n}. " * 300 for n in range(200)})
    result = memory.search("number", wait_ms=1)
    assert not result.fresh
    assert any("still being indexed" in notice for notice in result.notices)
    assert memory.search("number").fresh


@pytest.mark.parametrize("change", ["unlink", "rename", "move folder", "rename to text"])
def test_3d_no_ghost_of_a_moved_page_is_found(open_memory: OpenMemory, change: str) -> None:
    memory = open_memory({"topics/old.md": "Likes hiking."})
    assert memory.search("hiking")
    old = memory.root / "topics" / "old.md"
    changes: dict[str, tuple[Callable[[], object], list[str]]] = {
        "unlink": (old.unlink, []),
        "rename": (lambda: old.rename(old.with_name("new.md")), ["topics/new.md"]),
        "move folder": (lambda: old.parent.rename(memory.root / "themes"), ["themes/old.md"]),
        "rename to text": (lambda: old.rename(old.with_name("old.txt")), []),
    }
    act, expected = changes[change]
    act()
    assert paths(memory.search("hiking")) == expected


def test_3d_status_recounts_the_disk(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "One.", "b.md": "Two."})
    memory.sync()
    write(memory.root, {"c.md": "Three."})
    status = memory.status()
    assert (status.files_on_disk, status.pending) == (3, 1)


def test_3d_a_change_of_one_page_leaves_the_others(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "Likes hiking.", "b.md": "Likes sailing."}, embedder=HashedEmbedder())
    memory.sync()
    write(memory.root, {"a.md": "Likes climbing."})
    assert "sailing" in texts(memory.search("sailing"))
    hit = memory.search("climbing")[0]
    assert hit.trace.vector is not None


def test_3f_without_a_provider_everything_is_indexed_and_status_says_what_is_missing(open_memory: OpenMemory) -> None:
    memory = open_memory({"a.md": "Likes hiking."})
    assert paths(memory.search("hiking")) == ["a.md"]
    status = memory.status()
    assert status.embedding.startswith("off: ")
    assert status.index is not None
    assert status.index.chunks == 1


def test_3g_eight_processes_open_an_empty_folder_at_once(tmp_path: Path) -> None:
    write(tmp_path, {f"note{n}.md": f"Text number {n}." for n in range(20)})
    code = """
import sys
from vademecum import Memory
with Memory.open(sys.argv[1]) as memory:
    print(len(memory.search("number", max_results=50, wait_ms=-1)), memory.status().disabled)
"""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: python(code, tmp_path).stdout.split(), range(8)))
    assert answers == [["20", "None"]] * 8
    with Memory.open(tmp_path, settings=replace(PATIENT, timezone="UTC")) as memory:
        assert query(memory, "SELECT count(*), count(DISTINCT hash) FROM chunks") == [(20, 20)]


def test_3g_a_reader_is_not_blocked_by_a_writer(open_memory: OpenMemory) -> None:
    memory = open_memory({f"note{n}.md": f"Text number {n}." for n in range(5)})
    memory.sync()
    index = memory._core.open_index()
    with index._transaction():  # type: ignore[attr-defined]
        began = time.perf_counter()
        assert len(memory.search("number", wait_ms=0)) == 5
        assert time.perf_counter() - began < 1


def test_3g_no_lock_is_held_while_the_model_works(open_memory: OpenMemory) -> None:
    held = []

    class Curious(HashedEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> Matrix:
            for name in ("index.sqlite", "vectors.sqlite"):
                with closing(sqlite3.connect(state / name, timeout=0)) as db:
                    try:
                        db.execute("BEGIN IMMEDIATE")
                    except sqlite3.OperationalError as error:
                        held.append((name, str(error)))
            return super().embed_documents(texts)

    embedder = Curious(batch_size=2)
    memory = open_memory({f"note{n}.md": f"Text number {n}." for n in range(8)}, embedder=embedder)
    state = memory.root / ".vademecum"
    assert memory.sync().embedded == 8
    assert (held, len(embedder.batches)) == ([], 4)


# -- 3-K, 3-L, 3-M: writing ------------------------------------------------------------------------------------------


def test_3k_no_public_call_puts_a_new_text_in_the_place_of_a_whole_page(open_memory: OpenMemory) -> None:
    """A model that is told to store something overwrites the day's file if it can. Here it can append, or name what is
    to be changed."""
    before = "# Today\n\n- The only copy.\n"
    memory = open_memory({"memory/2026-01-11.md": before}, origin="agent")
    memory.remember("# Today\n\n- Something else.", file="memory/2026-01-11.md")
    assert (memory.root / "memory" / "2026-01-11.md").read_text().startswith(before)
    with pytest.raises(UsageError):
        memory.edit("memory/2026-01-11.md", "", "all of it")
    assert not any(hasattr(memory, name) for name in ("write", "save", "replace", "overwrite", "put"))


def test_3k_pages_are_changed_in_one_place_only() -> None:
    """A second way to write would be without journal, lock and precondition. What may swap files is imported by the
    one door, and by what keeps its own file in the private folder."""
    source = Path(vademecum.__file__).parent
    code = {file.relative_to(source).as_posix(): file.read_text(encoding="utf-8") for file in source.rglob("*.py")}
    uses = re.compile(r"^from vademecum\.store\.disk import .*\b(swap|rename|unlink)\b", re.MULTILINE).search
    assert {name for name, text in code.items() if uses(text)} == {"store/files.py", "knowledge/plan.py"}
    writes = re.compile(r"""\.write_(text|bytes)\(|open\([^)]*["'][wax]b?["']""").search
    rooms = ("store/", "knowledge/", "memory/", "writeback/", "tools/", "compat/")
    assert {name for name, text in code.items() if name.startswith(rooms) and writes(text)} <= {
        "store/disk.py",
        "store/root.py",
        "compat/cowagent/index_db.py",  # which sessions it took: a file of ours, replaced whole
    }


def test_3l_a_job_that_overwrites_the_memory_with_rubbish_is_taken_back_by_one_command(open_memory: OpenMemory) -> None:
    page = "# Memory\n\n" + "".join(f"- Fact number {n}.\n" for n in range(40))
    memory = open_memory({"MEMORY.md": page})
    location = resolve(memory.root, "MEMORY.md")
    replace_page(memory.root, location, Document("As an AI language model I cannot.\n"), by="dream", why="nightly")
    memory.remember("Written since.")
    assert main(["--root", str(memory.root), "log", "MEMORY.md"]) == 0
    entry = next(entry for entry in memory.log("MEMORY.md") if entry.by == "dream")
    assert main(["--root", str(memory.root), "undo", str(entry.id)]) == 0
    text = location.file.read_text()
    assert text.startswith(page)
    assert "As an AI" not in text
    assert "- Written since." in text


def test_3l_past_its_limits_the_newest_is_told_and_the_writer_learns_what_is_not(open_memory: OpenMemory) -> None:
    memory = open_memory({"MEMORY.md": "# Memory\n\n## Log\n\n" + "".join(f"- Fact {n}.\n" for n in range(400))})
    (warning,) = memory.remember("The newest fact.").warnings
    assert re.search(r"MEMORY.md has 405 lines and .* items cut from Log", warning)
    context = memory.context(max_tokens=100_000)
    assert "- The newest fact.\n" in context.text
    assert "- Fact 0.\n" not in context.text
    assert len(context.text.splitlines()) <= 202
    assert "items cut from Log" in context.cut[0]
    assert context.cut[0].removeprefix("MEMORY.md: ") in context.text


def test_3m_no_secret_reaches_a_memory_by_way_of_a_model_through_any_door(open_memory: OpenMemory) -> None:
    key = "ghp" + "_" + "a1B2c3D4e5F6" * 3
    memory = open_memory({"x.md": "- place\n", "MEMORY.md": "- old\n"}, origin="agent")
    location = resolve(memory.root, "MEMORY.md")
    memory.remember(f"The key is {key}.", daily=True)
    memory.edit("x.md", "place", f"place\n- {key}")
    append(memory.root, location, f"- {key}", by="flush")
    replace_page(memory.root, location, Document(f"- old\n- {key} in a dream\n"), by="dream")
    pages = [file.read_text() for file in memory.root.rglob("*.md")]
    assert sum("[redacted: api key]" in page for page in pages) == 3
    assert not any(key in page for page in pages)
    assert not memory.search(key, min_score=0.5)


def test_3m_scopes_are_filtered_before_the_ranking(open_memory: OpenMemory) -> None:
    pages = {f"memory/users/bob/note{n}.md": "gold gold gold" for n in range(100)}
    memory = open_memory({**pages, "MEMORY.md": "A long shared page which mentions gold."}, embedder=HashedEmbedder())
    assert paths(memory.search("gold")) == ["MEMORY.md"]
