"""The chunks of a memory as lines of JSON, for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from vademecum.memory import Memory


def export_chunks(memory: Memory, *, vectors: bool = False) -> Iterator[str]:
    """One JSON object for each chunk that the viewer may read, by path and line; the index is brought up to date first.

    Keys: path, start_line, end_line, kind, scope, date, heading (a list), text; with ``vectors`` also vector (a list of
    numbers, or null where there is none yet) and lane, the name of the model that made it. Raises
    IndexUnavailableError.
    """
    memory.sync()
    for row, vector, lane in memory.chunks(vectors=vectors):
        entry: dict[str, object] = {
            "path": row.path,
            "start_line": row.start_line,
            "end_line": row.end_line,
            "kind": row.kind,
            "scope": row.scope,
            "date": row.date,
            "heading": list(row.heading),
            "text": row.text,
        }
        if vectors:
            entry |= {"vector": None if vector is None else [float(value) for value in vector], "lane": lane}
        yield json.dumps(entry, ensure_ascii=False)
