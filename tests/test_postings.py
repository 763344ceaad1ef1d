"""What terms give is kept and added up; the answer is SQLite's to the last bit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.backends import EmbeddedIndex
from vademecum.index import keyword, postings
from vademecum.index.schema import fts5_available
from vademecum.text.query import match_expression
from vademecum.types import Chunk, Condition, IndexSpec, Source, Where

pytestmark = pytest.mark.skipif(not fts5_available(), reason="this SQLite library has no FTS5")

WORDS = ["a", "bb", "c#", "d-d", '"e', "common"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedIndex]:
    index = EmbeddedIndex(tmp_path_factory.mktemp("postings"), IndexSpec("test", "test"))
    for page in range(12):
        index.replace_source(source(page), [chunk(page, number) for number in range(10)])
    yield index
    index.close()


def source(page: int) -> Source:
    return Source(f"{page}.md", f"user:{page % 3}", "memory", None, "1", str(page))


def chunk(page: int, number: int) -> Chunk:
    place = 10 * page + number
    words = [word for rank, word in enumerate(WORDS, 1) for _ in range(place % (rank + 2) if place % rank == 0 else 0)]
    return Chunk("", 1, 1, (), f"{place}".encode(), 0, " ".join([*words, "common"]), "head" if place % 4 else "")


def by_sqlite(connection: sqlite3.Connection, terms: list[str], k: int, scope: str | None) -> list[tuple[int, float]]:
    rows = connection.execute(
        "SELECT words.rowid, -bm25(words, 1.0, 1.0) AS score FROM words JOIN chunks c ON c.id = words.rowid"
        " WHERE words MATCH ? AND (?2 IS NULL OR c.scope = ?2) ORDER BY score DESC, words.rowid LIMIT ?3",
        (match_expression(terms), scope, k),
    )
    return rows.fetchall()


@given(
    st.lists(st.sampled_from([*WORDS, "head", "missing"]), min_size=1, max_size=8),
    st.integers(1, 150),
    st.sampled_from([None, "user:1", "nobody"]),
)
def test_kept_terms_give_the_answer_of_one_query(
    index: EmbeddedIndex, terms: list[str], k: int, scope: str | None
) -> None:
    where: Where = () if scope is None else (Condition("scope", "eq", scope),)
    with index.reader() as reader:
        expected = by_sqlite(reader._connection, terms, k, scope)
        for _ in range(3):  # asked at once, term by term, and from what was kept
            assert keyword.search(reader._connection, terms, k, where) == expected


def test_what_is_committed_is_found_although_terms_were_kept(index: EmbeddedIndex) -> None:
    for number in range(4):
        with index.reader() as reader:
            for _ in range(3):
                found = keyword.search(reader._connection, ["bb", "fresh"], 500, ())
                assert found == by_sqlite(reader._connection, ["bb", "fresh"], 500, None)
        fresh = Chunk("", 1, 1, (), b"fresh%d" % number, 0, "fresh bb bb", "")
        index.replace_source(Source(f"new{number}.md", "shared", "memory", None, "1", "1"), [fresh])
    index.delete([f"new{number}.md" for number in range(4)])


def test_no_more_is_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "_MOST_KEPT", 10)
    monkeypatch.setattr(postings, "_MOST_SEEN", 3)
    asked: list[str] = []

    def ask(term: str) -> list[tuple[int, float]]:
        asked.append(term)
        return [(number, 1.0) for number in range(6)]

    kept = postings.TermPostings()
    assert kept.top(["a"], 2, ask) is None
    assert [hit.id for hit in kept.top(["a"], 2, ask) or ()] == [0, 1]
    assert kept.top(["a", "b"], 2, ask) is None
    assert [hit.score for hit in kept.top(["a", "b"], 2, ask) or ()] == [2.0, 2.0]
    assert asked == ["a", "b"]
    assert kept.top(["a"], 2, ask) is None  # there was room for one
    assert kept.top(["a"], 2, ask) is not None
    assert asked == ["a", "b", "a"]
