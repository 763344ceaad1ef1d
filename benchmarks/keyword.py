"""Keyword recall over many chunks, English and Chinese, beside an exact scan of as many vectors.

`python -m benchmarks.keyword` writes keyword.json and keyword.md; `make bench` runs it. Common words are the slow part
of an OR query, so searches ask for the rarest terms under a budget of postings (``search.postings_budget``). How good
that is: the share of the six best of the unbounded query that are among the bounded one's candidates, which must be
0.90; how fast: beside the scan in the same run. Only the share decides about the exit code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from benchmarks.corpus import ChineseWords, Words
from benchmarks.machine import Machine, describe
from benchmarks.vectors import Clustered
from vademecum.backends import EmbeddedIndex
from vademecum.diagnose import bench
from vademecum.ports import IndexReader
from vademecum.search.recall import affordable, bm25_idf, by_word
from vademecum.settings import SearchSettings
from vademecum.text.query import query_terms
from vademecum.text.tokens import tokenize
from vademecum.types import SHARED, Chunk, IndexSpec, Source

BEST, CANDIDATES, LEAST_SHARE = 6, 24, 0.90
SCAN_DIMS, SCANS = 1536, 100
BUDGET = SearchSettings().postings_budget
_WARM_UP = 20
_CHUNKS_PER_SOURCE = 1000


@dataclass(frozen=True, slots=True)
class Language:
    """A corpus: where its words come from, and how many make a chunk and a question."""

    name: str
    words: Callable[[], Words]
    per_chunk: int
    per_question: int


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured of one language. Times of the bounded search, counting of its terms included."""

    language: str
    chunks: int
    questions: int
    p50_ms: float
    p95_ms: float
    unbounded_p50_ms: float
    unbounded_p95_ms: float
    share: float
    left_out: float


LANGUAGES = (Language("English", Words, 110, 6), Language("Chinese", ChineseWords, 110, 6))


def measure(language: Language, chunks: int, questions: int) -> Found:
    """Index made-up chunks and ask made-up questions."""
    words = language.words()
    with tempfile.TemporaryDirectory(prefix="vademecum-keyword-") as folder:
        index = EmbeddedIndex(Path(folder), IndexSpec("bench", "bench"))
        try:
            _fill(index, words, chunks, language.per_chunk)
            asked = [words.draw(language.per_question) for _ in range(_WARM_UP + questions)]
            return _ask(index, language.name, chunks, asked)
        finally:
            index.close()


def _fill(index: EmbeddedIndex, words: Words, chunks: int, per_chunk: int) -> None:
    for first in range(0, chunks, _CHUNKS_PER_SOURCE):
        made = [_chunk(words.draw(per_chunk), line) for line in range(1, min(_CHUNKS_PER_SOURCE, chunks - first) + 1)]
        index.replace_source(Source(f"{first}.md", SHARED, "memory", None, "", str(first)), made)


def _chunk(text: str, line: int) -> Chunk:
    return Chunk(text, line, line, (), hashlib.sha256(text.encode()).digest(), 0, " ".join(tokenize(text)), "")


def _ask(index: EmbeddedIndex, name: str, chunks: int, asked: list[str]) -> Found:
    bounded, unbounded, shares, left_out = [], [], [], []
    for question in asked:
        terms = query_terms(question)
        # A snapshot of its own for each, as in a search; what others counted before is known, as there.
        with index.reader() as reader:
            began = time.perf_counter()
            frequencies = reader.document_frequencies(terms.terms, ())
            kept, dropped = affordable(frequencies, BUDGET)
            common = bm25_idf(frequencies, dropped)
            candidates = by_word(reader, kept, common, terms.fallback, CANDIDATES, ())
            bounded.append(time.perf_counter() - began)
            best, taken = _unbounded(reader, (*kept, *dropped))
        unbounded.append(taken)
        if best:
            shares.append(len(best & {hit.id for hit in candidates}) / len(best))
        left_out.append(len(dropped) / max(1, len(kept) + len(dropped)))
    rest = slice(_WARM_UP, None)
    return Found(
        name,
        chunks,
        len(asked) - _WARM_UP,
        *_p50_p95(bounded[rest]),
        *_p50_p95(unbounded[rest]),
        statistics.fmean(shares[rest]),
        statistics.fmean(left_out[rest]),
    )


def _unbounded(reader: IndexReader, terms: tuple[str, ...]) -> tuple[set[int], float]:
    began = time.perf_counter()
    best = {hit.id for hit in reader.search_keyword(terms, BEST, ())}
    return best, time.perf_counter() - began


def _p50_p95(seconds: list[float]) -> tuple[float, float]:
    return 1000 * statistics.median(seconds), 1000 * statistics.quantiles(seconds, n=20)[-1]


def scan_ms(rows: int) -> float:
    """Median of exact searches over as many vectors: int8 codes from the map, float32 for what is left."""
    clusters = Clustered(SCAN_DIMS)
    first = clusters.rows(min(rows, 1000))
    with tempfile.TemporaryDirectory(prefix="vademecum-keyword-") as folder:
        bench.fill(Path(folder), SCAN_DIMS, chain([first], clusters.slices(rows - len(first))))
        queries = clusters.queries(first, SCANS)
        taken = []
        with bench.opened(Path(folder)) as (index, lane):
            for query in (*queries[:_WARM_UP], *queries):
                began = time.perf_counter()
                with index.reader() as reader:
                    reader.search_vector(lane, query, 10, ())
                taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken[_WARM_UP:])


def table(machine: Machine, found: list[Found], scan: float) -> str:
    """Markdown."""
    head = (
        "| language | chunks | p50 | p95 | unbounded p50 · p95 | terms left out | share of the unbounded best six |"
        f" scan of as many × {SCAN_DIMS} | p50 no slower |\n|---|---|---|---|---|---|---|---|---|\n"
    )
    rows = "".join(
        f"| {f.language} | {f.chunks:,} | {f.p50_ms:.2f} ms | {f.p95_ms:.2f} ms |"
        f" {f.unbounded_p50_ms:.2f} · {f.unbounded_p95_ms:.2f} ms | {f.left_out:.0%} | {f.share:.3f} |"
        f" {scan:.2f} ms | {'yes' if f.p50_ms <= scan else 'NO'} |\n"
        for f in found
    )
    return f"# Keyword recall\n\n{machine}\n\n{head}{rows}"


def main() -> None:
    """Measure, print and write; exit code 1 if a share is below LEAST_SHARE."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keyword", description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--only", nargs="+", choices=[language.name for language in LANGUAGES])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    chosen = [language for language in LANGUAGES if not options.only or language.name in options.only]
    found = [measure(language, options.chunks, options.questions) for language in chosen]
    scan, machine = scan_ms(options.chunks), describe()
    options.out.mkdir(parents=True, exist_ok=True)
    document = {"machine": asdict(machine), "scan_ms": scan, "keyword": [asdict(each) for each in found]}
    (options.out / "keyword.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (options.out / "keyword.md").write_text(table(machine, found, scan), encoding="utf-8")
    print(table(machine, found, scan))
    if any(each.share < LEAST_SHARE for each in found):
        sys.exit(f"a share is below {LEAST_SHARE}")


if __name__ == "__main__":
    main()
