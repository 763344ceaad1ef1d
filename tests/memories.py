"""Memories made for one test: pages on disk, and what the index really holds of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Self

import pytest

from vademecum import Memory, Settings
from vademecum.settings import EmbeddingSettings, SearchSettings
from vademecum.types import Hit

#: No embedder unless a test brings one; a search waits until the index is up to date.
PATIENT = Settings(embedding=EmbeddingSettings(provider="none"), search=SearchSettings(wait_ms=60_000))

#: What the fixture ``open_memory`` gives: ``open_memory({path: text}, **options of Memory.open)``.
OpenMemory = Callable[..., Memory]


def write(root: Path, pages: Mapping[str, str | bytes]) -> None:
    """Write pages exactly as given, with the folders that they need."""
    for path, text in pages.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())


def paths(hits: Iterable[Hit]) -> list[str]:
    return [hit.path for hit in hits]


def texts(hits: Iterable[Hit]) -> str:
    """All found text together, to look for what must or must not be in it."""
    return "\n".join(hit.text for hit in hits)


def query(memory: Memory, statement: str) -> list[tuple[object, ...]]:
    """Ask index.sqlite itself."""
    with closing(sqlite3.connect(memory.root / ".vademecum" / "index.sqlite")) as db:
        return db.execute(statement).fetchall()


def rows(memory: Memory) -> list[tuple[object, ...]]:
    """All that a search can find, without ids."""
    return query(
        memory,
        "SELECT f.path, c.date, c.heading, c.start_line, c.end_line, c.text, w.heading, w.body FROM chunks c"
        " JOIN files f ON f.id = c.file_id JOIN words w ON w.rowid = c.id ORDER BY f.path, c.start_line, c.text",
    )


def set_clock(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
    """Let the library believe that it is ``moment``, which must say its zone."""

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(moment.timestamp(), tz)

    monkeypatch.setattr("vademecum.memory.core.datetime", Stopped)
