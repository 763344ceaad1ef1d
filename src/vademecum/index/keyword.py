"""The keyword channel: BM25 over the chunks' words."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from vademecum.index.conditions import to_sql
from vademecum.index.postings import TermPostings
from vademecum.index.schema import full_text, stored_words
from vademecum.sqlite import Connection
from vademecum.text.query import match_expression
from vademecum.types import Frequencies, Scored, Where

#: Weight of a term in the heading path against one in the text.
HEADING_WEIGHT = 1.0
BODY_WEIGHT = 1.0
#: Counts of terms kept at a time.
_MOST_COUNTS = 10_000
# FTS5's constants, sqlite.org/fts5.html#the_bm25_function; an idf at or below 0 counts as MIN_IDF there.
_K1, _B, _MIN_IDF = 1.2, 0.75, 1e-6


def search(connection: Connection, terms: Sequence[str], k: int, where: Where) -> list[Scored]:
    """The k best chunks that contain at least one of ``terms``; score = BM25, greater is better, ties by id.

    User text reaches FTS5's parser only as quoted terms.
    """
    if not terms or k <= 0:
        return []
    condition, parameters = to_sql(where)
    if not full_text(connection):
        return _scan(connection, terms, k, condition, parameters)
    known = connection.noted(("main",), ("postings", condition, *parameters), TermPostings)
    rank = f"bm25(words, {HEADING_WEIGHT}, {BODY_WEIGHT})"
    join = "" if condition == "1" else "JOIN chunks c ON c.id = words.rowid"
    matching = f"SELECT words.rowid, -{rank} AS score FROM words {join} WHERE words MATCH ? AND {condition}"  # noqa: S608
    found = known.top(terms, k, lambda term: connection.execute(matching, (match_expression((term,)), *parameters)))
    if found is not None:
        return found
    best = f"{matching} ORDER BY score DESC, words.rowid LIMIT ?"
    rows = connection.execute(best, (match_expression(terms), *parameters, k))
    return [Scored(chunk_id, score) for chunk_id, score in rows]


def document_frequencies(connection: Connection, terms: Sequence[str], where: Where) -> Frequencies:
    """Number of chunks that meet ``where``, and of those among them that contain each term.

    Kept until somebody commits: common words cost most to count, and most questions hold some of the same.
    """
    condition, parameters = to_sql(where)
    known = connection.noted(("main",), ("frequencies", condition, *parameters), _Counts)
    if known.total is None:
        # Without any WHERE SQLite counts by pages and not by rows.
        test = "" if condition == "1" else f"WHERE {condition}"
        (known.total,) = connection.execute(f"SELECT count(*) FROM chunks c {test}", parameters).fetchone()  # noqa: S608
    missing = [term for term in terms if term not in known.by_term]
    if len(known.by_term) + len(missing) > _MOST_COUNTS:
        known.by_term.clear()
        missing = list(terms)
    if missing:
        known.by_term |= _counts(connection, missing, condition, parameters)
    return Frequencies(known.total, {term: known.by_term[term] for term in terms})


def held(connection: Connection, ids: Sequence[int], terms: Sequence[str]) -> dict[int, bytes]:
    """For each chunk a byte for each term: how often text and heading hold it, 255 at most."""
    from vademecum import kernels

    rows = connection.execute(
        f"SELECT w.id, w.heading, w.body FROM json_each(?) j CROSS JOIN {stored_words(connection)} w ON w.id = j.value",  # noqa: S608
        (json.dumps([*ids]),),
    ).fetchall()
    flags = kernels.held([f"{heading} {body}" for _, heading, body in rows], terms)
    return {chunk_id: each for (chunk_id, _, _), each in zip(rows, flags, strict=True)}


@dataclass(slots=True)
class _Counts:
    total: int | None = None
    by_term: dict[str, int] = field(default_factory=dict)


def _counts(connection: Connection, terms: Sequence[str], condition: str, parameters: Sequence[str]) -> dict[str, int]:
    if condition != "1":
        return {term: _count(connection, term, condition, parameters) for term in terms}
    if not full_text(connection):
        return {term: len(_containing(connection, term)) for term in terms}
    marks = ", ".join("?" * len(terms))
    found = dict(connection.execute(f"SELECT term, doc FROM vocabulary WHERE term IN ({marks})", terms))  # noqa: S608
    return {term: found.get(term, 0) for term in terms}


def _count(connection: Connection, term: str, condition: str, parameters: Sequence[str]) -> int:
    if full_text(connection):
        test, value = "words MATCH ?", match_expression((term,))
    else:
        test, value = f"instr({_PADDED.replace('w.', 'words.')}, ?) > 0", f" {term} "
    (count,) = connection.execute(
        f"SELECT count(*) FROM words JOIN chunks c ON c.id = words.rowid WHERE {test} AND {condition}",  # noqa: S608
        (value, *parameters),
    ).fetchone()
    return int(count)


_PADDED = "(' ' || w.heading || ' ' || w.body || ' ')"


def _containing(connection: sqlite3.Connection, term: str) -> list[int]:
    rows = connection.execute(f"SELECT w.rowid FROM words w WHERE instr({_PADDED}, ?) > 0", (f" {term} ",))  # noqa: S608
    return [chunk_id for (chunk_id,) in rows]


def _scan(
    connection: sqlite3.Connection, terms: Sequence[str], k: int, condition: str, parameters: Sequence[str]
) -> list[Scored]:
    """BM25 without FTS5: the same formula over all rows that hold a term. Slow, and `status` says so."""
    (total, length) = connection.execute(
        f"SELECT count(*), coalesce(sum(length({_PADDED}) - length(replace({_PADDED}, ' ', ''))), 0) FROM words w"  # noqa: S608
    ).fetchone()
    weights = {}
    for term in dict.fromkeys(terms):
        holders = len(_containing(connection, term))
        weights[term] = max(math.log((total - holders + 0.5) / (holders + 0.5)), _MIN_IDF)
    tests = " OR ".join([f"instr({_PADDED}, ?) > 0"] * len(weights))
    rows = connection.execute(
        f"SELECT w.rowid, w.heading, w.body FROM words w JOIN chunks c ON c.id = w.rowid"  # noqa: S608
        f" WHERE ({tests}) AND {condition}",
        (*(f" {term} " for term in weights), *parameters),
    )
    # Every row's padded text has three separators more than joints between tokens.
    average = max(1.0, (length - 2 * total) / max(total, 1))
    scored = []
    for chunk_id, heading, body in rows:
        tokens = heading.split() + body.split()
        norm = _K1 * (1 - _B + _B * len(tokens) / average)
        score = 0.0
        for term, weight in weights.items():
            frequency = tokens.count(term)
            score += weight * frequency * (_K1 + 1) / (frequency + norm)
        scored.append(Scored(chunk_id, score))
    scored.sort(key=lambda hit: (-hit.score, hit.id))
    return scored[:k]
