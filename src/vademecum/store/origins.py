"""Who wrote which line: what the journal knows of the lines that were not written by a person."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

from vademecum.text.markdown import split_lines
from vademecum.text.merge import equal_ends
from vademecum.types import ORIGINS, Origin

if TYPE_CHECKING:
    from vademecum.sqlite import Connection

#: Of what is not on record: written by hand, or before there was a journal.
PERSON = ORIGINS[0]
#: Of what may be on record, but the record cannot be read.
UNKNOWN = ORIGINS[-1]


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
    old_lines, new_lines = (_lines(data) for data in (before or b"", after))
    head, tail = equal_ends(old_lines, new_lines)
    new = Counter(_keys(new_lines[head : len(new_lines) - tail])) - Counter(
        _keys(old_lines[head : len(old_lines) - tail])
    )
    if by == PERSON:
        connection.executemany("DELETE FROM origins WHERE path = ? AND line = ?", ((path, key) for key in new))
    else:
        connection.executemany("INSERT OR REPLACE INTO origins VALUES (?, ?, ?)", ((path, key, by) for key in new))


def origins_of(connection: sqlite3.Connection, path: str) -> Mapping[bytes, Origin]:
    """The origins of all lines that ever were on a page and that no person wrote, by ``line_key``."""
    return dict(connection.execute("SELECT line, origin FROM origins WHERE path = ?", (path,)).fetchall())


def least_trusted(origins: Iterable[Origin]) -> Origin:
    """The one of ``origins`` that is trusted least; "person" if there are none."""
    return max(origins, key=ORIGINS.index, default=PERSON)


def line_key(line: str) -> bytes:
    """What identifies a line wherever it stands in its page and however deep it is indented."""
    return blake2b(line.strip().encode(errors="surrogatepass"), digest_size=12).digest()


def _lines(data: bytes) -> list[str]:
    return split_lines(data.decode("utf-8-sig", errors="replace"))


def _keys(lines: Iterable[str]) -> Iterator[bytes]:
    """Of all lines that say something; blank lines, rules and fences are nobody's."""
    return (line_key(line) for line in lines if any(map(str.isalnum, line)))
