"""Who wrote which line: what the journal knows of the lines that were not written by a person."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

from vademecum.text.markdown import split_lines
from vademecum.types import ORIGINS, Origin

if TYPE_CHECKING:
    from vademecum.sqlite import Connection

_PERSON = ORIGINS[0]


def origins_schema(connection: sqlite3.Connection) -> None:
    """The table: one row for each line of each page that somebody other than a person wrote."""
    connection.execute(
        "CREATE TABLE origins(path TEXT NOT NULL, line BLOB NOT NULL, origin TEXT NOT NULL, PRIMARY KEY (path, line)) "
        "WITHOUT ROWID"
    )


def keep_origins(
    connection: Connection,
    path: str,
    before: bytes | None,
    after: bytes | None,
    by: Origin,
    moved_from: str | None,
    undoes: int | None,
) -> None:
    """Note who wrote the lines that a change brings into a page.

    Rows of lines that go away stay: they come back with an undo, and then are still of whom they were.
    """
    if moved_from is not None:
        connection.execute(
            "INSERT OR REPLACE INTO origins SELECT ?, line, origin FROM origins WHERE path = ?", (path, moved_from)
        )
    if undoes is not None or after is None or moved_from is not None:
        return
    new = Counter(_keys(after)) - Counter(_keys(before or b""))
    if by == _PERSON:
        connection.executemany("DELETE FROM origins WHERE path = ? AND line = ?", ((path, key) for key in new))
    else:
        connection.executemany("INSERT OR REPLACE INTO origins VALUES (?, ?, ?)", ((path, key, by) for key in new))


def origins_of(connection: sqlite3.Connection, path: str, lines: Iterable[str]) -> Mapping[str, Origin]:
    """The origins of those of the given lines that no person wrote."""
    known = dict(connection.execute("SELECT line, origin FROM origins WHERE path = ?", (path,)))
    found = ((line, known.get(line_key(line))) for line in lines)
    return {line: origin for line, origin in found if origin is not None}


def least_trusted(origins: Iterable[Origin]) -> Origin:
    """The one of ``origins`` that is trusted least; "person" if there are none."""
    return max(origins, key=ORIGINS.index, default=_PERSON)


def line_key(line: str) -> bytes:
    """What identifies a line wherever it stands in its page and however deep it is indented."""
    return blake2b(line.strip().encode(errors="surrogatepass"), digest_size=12).digest()


def _keys(data: bytes) -> Iterator[bytes]:
    """Of all lines that say something; blank lines, rules and fences are nobody's."""
    for line in split_lines(data.decode("utf-8-sig", errors="replace")):
        if any(map(str.isalnum, line)):
            yield line_key(line)
