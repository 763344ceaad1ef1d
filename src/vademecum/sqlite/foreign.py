"""Reading another program's database without changing a byte of it or of what lies beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from vademecum.errors import MissingFileError, UnreadableFileError

_TRIES = 5
_BUSY_SECONDS = 5.0


def stamp(file: Path) -> str:
    """Changes whenever the database is written to, also by a commit that stands in its -wal only.

    Raises OSError.
    """
    return "|".join(_stat(part) or "0:0:0" for part in (file, _beside(file, "-wal")))


def ask(file: Path, name: str, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """All rows that one SELECT gives; what others commit is seen, what they have not committed is not.

    ``name`` is what messages call the file. Raises MissingFileError and UnreadableFileError.
    """
    try:
        for _ in range(_TRIES):
            file.stat()  # what is not there is told from what cannot be opened
            before, shared = _files(file), _is_in_use(file)
            try:
                rows = _ask(file, name, shared, statement, parameters)
            except sqlite3.Error:
                if shared or _files(file) == before:
                    raise
                continue
            # Without locks nobody was kept from writing meanwhile.
            if shared or _files(file) == before:
                return rows
    except FileNotFoundError:
        raise MissingFileError(f"{name}: there is no such file") from None
    except OSError as error:
        raise UnreadableFileError(f"{name}: cannot be read: {error.strerror}") from error
    except sqlite3.Error as error:
        raise UnreadableFileError(f"{name}: cannot be read: {error}; what is known of it is kept") from error
    raise UnreadableFileError(f"{name}: is being written all the time; what is known of it is kept")


def _ask(file: Path, name: str, shared: bool, statement: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
    # With locks, SQLite would make a -wal and a -shm just to look where nobody has the file open.
    way = "mode=ro" if shared else "mode=ro&immutable=1"
    if shared and _size(_beside(file, "-wal")) and not _beside(file, "-shm").exists():
        raise UnreadableFileError(
            f"{name}: was left by a crash of the program it belongs to, which will mend it; what is known of it is kept"
        )
    uri = f"{file.absolute().as_uri()}?{way}"
    with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
        return connection.execute(statement, parameters).fetchall()


def _is_in_use(file: Path) -> bool:
    """Whether somebody may be at work on the file: then the usual locks must be taken."""
    return any(_size(_beside(file, suffix)) for suffix in ("-wal", "-journal"))


def _files(file: Path) -> tuple[str | None, ...]:
    return tuple(_stat(part) for part in (file, _beside(file, "-wal"), _beside(file, "-journal")))


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(file.name + suffix)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _stat(file: Path) -> str | None:
    try:
        state = file.stat()
    except FileNotFoundError:
        return None
    # Without the time of the last change of its attributes: for root, SQLite sets them each time it opens a -wal.
    return f"{state.st_size}:{state.st_mtime_ns}:{state.st_ino}"
