"""Schema versions: a list of scripts, and `PRAGMA user_version` says how many have run."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from vademecum.errors import IndexFormatError
from vademecum.sqlite.connection import exclusive

Migration = Callable[[sqlite3.Connection], None]


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    """Bring the main database to the newest schema.

    Each step runs under the write lock after looking at the version again, so that processes opening a new file
    together do not create the same table twice. A file from a newer version is refused: IndexFormatError.
    """
    known = len(migrations)
    if _version(connection) == known:
        return
    with exclusive(connection):
        found = _version(connection)
        if found > known:
            raise IndexFormatError(
                f"{path}: written by a newer vademecum (schema {found}, this version knows {known}); "
                "upgrade vademecum, or delete the file to have it built anew from Markdown"
            )
        for step in migrations[found:]:
            step(connection)
        connection.execute(f"PRAGMA user_version = {known:d}")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
