"""What the index holds of one page, and whether that is all there is to hold."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from vademecum.errors import StoreError
from vademecum.history import paths
from vademecum.ports import IndexBackend, IndexReader
from vademecum.store.places import Places
from vademecum.store.scan import FileStat, Scan
from vademecum.text.estimate import estimate_tokens
from vademecum.types import ChunkRow, Kind, Scope, Source

_CHANGED = "has changed since it was indexed; `vademecum sync` brings the index up to date"

#: "indexed" as it is on disk; "behind" a change; "missing" from disk or from the memory, and from the index.
PageState: TypeAlias = Literal["indexed", "behind", "missing"]


@dataclass(frozen=True, slots=True)
class InspectedChunk:
    """One piece of a page as search knows it. Lines are 1-based and inclusive, ``tokens`` an estimate.

    ``vectors`` says by lane, named by its fingerprint, whether the piece has a vector there.
    """

    id: int
    start_line: int
    end_line: int
    heading: tuple[str, ...]
    date: str | None
    tokens: int
    vectors: Mapping[str, bool]
    text: str


@dataclass(frozen=True, slots=True)
class InspectedPage:
    """A page and its chunks in the order of lines. ``why`` says what stands in the way unless it is "indexed".

    What is said of scope, kind, date and tags is the index's; None and () without it.
    """

    path: str
    state: PageState
    why: str
    scope: Scope | None
    kind: Kind | None
    date: str | None
    tags: tuple[str, ...]
    chunks: tuple[InspectedChunk, ...]


def inspect_page(index: IndexBackend, places: Places, scan: Callable[[], Scan], path: str) -> InspectedPage:
    """What the index holds of the page or conversation at ``path``, spelled as on disk, and how that stands to the
    disk, of which ``scan`` tells."""
    state, why = page_state(index, places, scan, path)
    known = index.fingerprints().get(path)
    with index.reader() as reader:
        rows = reader.of_source(path)
        having = {lane.fingerprint: with_vector(reader, rows, lane.fingerprint) for lane in reader.lanes()}
    chunks = tuple(
        InspectedChunk(
            row.id,
            row.start_line,
            row.end_line,
            row.heading,
            row.date,
            estimate_tokens(row.text),
            {lane: row.id in ids for lane, ids in having.items()},
            row.text,
        )
        for row in rows
    )
    if known is None:
        return InspectedPage(path, state, why, None, None, None, (), chunks)
    return InspectedPage(path, state, why, known.scope, known.kind, known.date, known.tags, chunks)


def with_vector(reader: IndexReader, rows: Sequence[ChunkRow], fingerprint: str) -> frozenset[int]:
    """Ids of those rows that have a vector in the lane of this fingerprint."""
    import numpy as np

    for lane in reader.lanes():
        if lane.fingerprint == fingerprint and reader.vector_state(lane) == "ok":
            anything = np.eye(1, lane.dims, dtype=np.float32)[0]
            return frozenset(reader.score_vectors(lane, [row.id for row in rows], anything))
    return frozenset()


def page_state(index: IndexBackend, places: Places, scan: Callable[[], Scan], path: str) -> tuple[PageState, str]:
    """How the index stands to the page, and why if it is not as on disk; looks at the folder and reads the page."""
    sources, found = index.fingerprints(), scan()
    known = sources.get(path)
    where = paths.file_of(path) or path
    file = next((file for file in found.files if file.path == where), None)
    if file is None:
        told = [text for noted, text in found.notices if path == noted or path.startswith(f"{noted}/")]
        return "missing" if known is None else "behind", told[0] if told else _why_no_page(places, path)
    if where in sources and sources[where].stat == file.stamp:
        return ("missing", f"{path}: there is no such conversation") if known is None else ("indexed", "")
    if file.spoken:
        return "missing" if known is None else "behind", f"{path}: {_CHANGED}"
    return _compared(places, file, known)


def _compared(places: Places, file: FileStat, known: Source | None) -> tuple[PageState, str]:
    try:
        page = places.load(file, time.time())
    except StoreError as error:
        return "missing" if known is None else "behind", str(error)
    if known is None:
        return "missing", f"{file.path}: is not indexed yet; `vademecum sync` does that"
    if known.fingerprint == page.source.fingerprint:
        return "indexed", ""
    return "behind", f"{file.path}: {_CHANGED}"


def _why_no_page(places: Places, path: str) -> str:
    try:
        layout, inner = places.locate(path)
        if not os.path.lexists(layout.root / inner):
            return f"{path}: there is no such file"
        if not inner.lower().endswith(".md"):
            return f"{path}: only files that end in .md are pages"
        if not layout.indexes(inner.rpartition("/")[0]):
            return f"{path}: stands in a hidden, foreign or diary folder, which is no part of the memory"
        if not places.belongs(path):
            return f"{path}: is kept out of the memory by .vademecumignore"
    except StoreError as error:
        return str(error)
    return f"{path}: is no page that can be indexed"
