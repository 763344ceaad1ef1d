"""Files of other systems with conversations, made as those systems make them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from vademecum.history.said import Said, Stretch, TurnSource


def plain(role: str, content: object, time: object = None) -> str:
    """A line of a plain transcript."""
    return json.dumps({"role": role, "content": content} | ({} if time is None else {"timestamp": time})) + "\n"


def nested(role: str, content: object, time: str = "2026-01-03T10:00:00.000Z", **fields: object) -> str:
    """A line as Claude Code writes it."""
    message = {"role": role, "content": content}
    return json.dumps({"type": role, "message": message, "timestamp": time, "uuid": "u", **fields}) + "\n"


def chat(*exchanges: tuple[str, str, str | None]) -> str:
    """Dexter's file, from exchanges (time, question, answer) with the oldest first."""
    entries = [
        {"id": str(number), "timestamp": time, "userMessage": question, "agentResponse": answer}
        for number, (time, question, answer) in enumerate(exchanges)
    ]
    return json.dumps({"messages": entries[::-1]}, indent=2)


_TABLES = """
CREATE TABLE sessions(
    session_id TEXT NOT NULL PRIMARY KEY, channel_type TEXT NOT NULL DEFAULT '', title TEXT NOT NULL DEFAULT '',
    context_start_seq INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL, last_active INTEGER NOT NULL,
    msg_count INTEGER NOT NULL DEFAULT 0);
CREATE TABLE messages(
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL,
    content TEXT NOT NULL, created_at INTEGER NOT NULL, extras TEXT NOT NULL DEFAULT '', UNIQUE (session_id, seq));
CREATE TABLE chunks(id TEXT PRIMARY KEY, text TEXT NOT NULL);
"""
_AGENTS = _TABLES.replace("session_id TEXT NOT NULL, seq", "agent_id TEXT NOT NULL DEFAULT '', session_id TEXT, seq")
_AGENTS = _AGENTS.replace("UNIQUE (session_id", "UNIQUE (agent_id, session_id")


class Cow:
    """CowAgent's index.db, kept open as that program keeps it."""

    def __init__(self, file: Path, *, agents: bool = False, journal: str = "WAL") -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        self.agents = agents
        self.db = sqlite3.connect(file, isolation_level=None)
        self.db.execute(f"PRAGMA journal_mode = {journal}")
        if self.db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            self.db.executescript(_AGENTS if agents else _TABLES)

    def say(self, session: str, role: str, content: object, at: int = 1_767_400_000, agent: str = "") -> None:
        where, names = (
            ("agent_id = ? AND session_id = ?", (agent, session)) if self.agents else ("session_id = ?", (session,))
        )
        columns = "agent_id, session_id" if self.agents else "session_id"
        (seq,) = self.db.execute(f"SELECT coalesce(max(seq), -1) + 1 FROM messages WHERE {where}", names).fetchone()
        self.db.execute(
            f"INSERT INTO messages({columns}, seq, role, content, created_at)"
            f" VALUES ({', '.join('?' * len(names))}, ?, ?, ?, ?)",
            (*names, seq, role, json.dumps(content), at),
        )

    def close(self) -> None:
        self.db.close()


def beside(file: Path) -> dict[str, bytes]:
    """A database and what lies beside it, but for the -shm, in which readers note themselves."""
    return {part.name: part.read_bytes() for part in sorted(file.parent.iterdir()) if not part.name.endswith("-shm")}


class Reader:
    """Follows a source of turns as the index does: what it holds must equal what a fresh one reads."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.held: dict[str, dict[tuple[int, int], Said]] = {}
        self.stretches: list[Stretch] = []

    def follow(self, source: TurnSource, most: int | None = None) -> None:
        """Take what changed; only the first ``most`` stretches, as if killed then."""
        self.stretches = []
        for stretch in source.changed(dict(self.states)):
            if most is not None and len(self.stretches) >= most:
                return
            self.stretches.append(stretch)
            rows = self.held.setdefault(stretch.path, {})
            end = float("inf") if stretch.until is None else stretch.until
            kept = {key: said for key, said in rows.items() if not stretch.first <= key[0] < end}
            for number, said in enumerate(stretch.said):
                assert stretch.first <= said.position < end
                kept[said.position, number] = said
            self.held[stretch.path] = kept
            self.states[stretch.path] = stretch.state
        for path in source.gone(self.states):
            del self.states[path], self.held[path]

    def said(self) -> dict[str, list[Said]]:
        return {path: [rows[key] for key in sorted(rows)] for path, rows in self.held.items()}

    def texts(self) -> list[str]:
        return [said.text for rows in self.said().values() for said in rows]


class Counted:
    """A file that counts the bytes which are read from it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.read_bytes = 0

    @contextmanager
    def __call__(self) -> Iterator[BinaryIO]:
        counted = self
        with self.file.open("rb") as stream:

            class Stream:
                def __getattr__(self, name: str) -> Any:
                    return getattr(stream, name)

                def read(self, size: int = -1) -> bytes:
                    return self._count(stream.read(size))

                def readline(self, size: int = -1) -> bytes:
                    return self._count(stream.readline(size))

                def _count(self, data: bytes) -> bytes:
                    counted.read_bytes += len(data)
                    return data

            yield Stream()  # type: ignore[misc]


def told(stretches: Iterable[Stretch]) -> list[str]:
    """All notices."""
    return [notice for stretch in stretches for notice in stretch.notices]
