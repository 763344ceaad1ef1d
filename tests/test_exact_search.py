"""Search over the map and by SELECT give one answer, whatever part of a lane's texts may be found."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from vademecum import kernels
from vademecum.backends import EmbeddedIndex
from vademecum.types import Calibration, Chunk, Condition, Fingerprint, IndexSpec, Lane, Scored, Source, Where
from vademecum.vectors import mapped

DIMS, ROWS, USERS = 24, 400, 4
FINGERPRINT = Fingerprint("test", "exact", DIMS)

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.skipif(kernels.FileMap is None, reason="the native core is not in use: every read is a SELECT"),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[EmbeddedIndex, Lane]]:
    """Pages of four users, in turn; some texts stand on two of them, some rows are equal, many are orphans."""
    index = EmbeddedIndex(tmp_path, IndexSpec("test", "test"))
    lane = index.lane(FINGERPRINT, Calibration(0, 1))
    random = np.random.default_rng(5)
    rows = random.standard_normal((ROWS, DIMS)).astype(np.float32) + np.float32(1)
    rows[100:110] = rows[90:100]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    chunks = [_chunk(number) for number in range(ROWS)]
    index.put_vectors(lane, [chunk.hash for chunk in chunks], rows)
    for page in range(20):
        scope = f"user:{page % USERS}"
        on_it = [*chunks[page::30], chunks[(7 * page) % ROWS]]
        index.replace_source(Source(f"{page}.md", scope, "memory", None, "1", str(page)), _numbered(on_it))
    yield index, lane
    index.close()


def _chunk(number: int) -> Chunk:
    text = f"text {number}"
    return Chunk(text, 1, 1, (), hashlib.sha256(text.encode()).digest(), 0, text, "")


def _numbered(chunks: list[Chunk]) -> list[Chunk]:
    """Without repetitions: a chunk's identity is its heading, hash and occurrence."""
    return list({chunk.hash: chunk for chunk in chunks}.values())


def answer(index: EmbeddedIndex, lane: Lane, query: np.ndarray, k: int, where: Where) -> tuple[str, list[Scored]]:
    with index.reader() as reader:
        found = list(reader.search_vector(lane, query, k, where))
        return reader.notes()["vectors"], found


def by_select(index: EmbeddedIndex, lane: Lane, query: np.ndarray, k: int, where: Where) -> list[Scored]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped.VectorMap, "lane", lambda *_: None)
        way, found = answer(index, lane, query, k, where)
    assert way == "select"
    return found


FILTERS: dict[str, Where] = {
    "all that live": (),
    "half": (Condition("scope", "in", ("user:1", "user:2")),),
    "few": (Condition("path", "glob", ("3.md", "7.md")),),
    "none": (Condition("scope", "eq", "nobody"),),
}


@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("k", [1, 5, 60, ROWS])
def test_filters_and_orphans_lead_to_the_same_list_on_both_ways(
    store: tuple[EmbeddedIndex, Lane], k: int, where: Where
) -> None:
    index, lane = store
    for query in np.random.default_rng(k).standard_normal((12, DIMS)).astype(np.float32):
        # The second time the list of all that is allowed may be known.
        for _ in range(2):
            way, found = answer(index, lane, query, k, where)
            assert way == "map"
            assert found == by_select(index, lane, query, k, where)


def test_texts_that_are_no_longer_used_hide_none_that_are(store: tuple[EmbeddedIndex, Lane]) -> None:
    index, lane = store
    query = np.ones(DIMS, np.float32)
    _, before = answer(index, lane, query, 10, ())
    index.delete([f"{page}.md" for page in range(1, 20)])
    way, after = answer(index, lane, query, 10, ())
    assert way == "map"
    assert len(after) == 10
    assert after == by_select(index, lane, query, 10, ())
    assert {hit.id for hit in before} != {hit.id for hit in after}


@pytest.mark.parametrize("spoil", ["DELETE FROM v1 WHERE id % 3 = 0", "UPDATE v1 SET vec = zeroblob(70000)"])
def test_a_code_without_its_vector_on_the_page_leads_to_select(
    store: tuple[EmbeddedIndex, Lane], tmp_path: Path, spoil: str
) -> None:
    index, lane = store
    with closing(sqlite3.connect(tmp_path / "vectors.sqlite")) as db, db:
        db.execute(spoil)
    with index.reader() as reader:
        place = reader._exact._map.lane(reader._connection, lane)
        assert place is not None
        assert place.top(place.every, np.ones(DIMS, np.float32), ROWS) is None
        if spoil.startswith("DELETE"):
            ids = list(range(1, 20))
            assert set(reader._exact.score_texts(lane, ids, np.ones(DIMS, np.float32))) == {i for i in ids if i % 3}
            assert reader.notes() == {"vectors": "map"}
    if spoil.startswith("DELETE"):
        way, found = answer(index, lane, np.ones(DIMS, np.float32), 30, ())
        assert way == "select"
        assert len(found) == 30
