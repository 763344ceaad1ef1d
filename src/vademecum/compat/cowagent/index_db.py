"""Taking over the sessions of CowAgent's index.db, which is read and never written."""
# ruff: noqa: S608 - statements are put together from the names of columns that exist

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vademecum.errors import MissingFileError, UnreadableFileError
from vademecum.history import Conversations, Message, Session
from vademecum.history.content import part_of, text_of
from vademecum.sqlite.foreign import ask, stamp
from vademecum.types import SHARED

#: Up to which message each session was taken over: what was deleted here since must not come back.
_LEDGER = "taken-over.json"
_DEFAULTS = {"channel_type": "''", "title": "''", "context_start_seq": "0", "pinned": "0"}


def take_over(
    database: Path, history: Conversations, folder: Path, markers: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Bring into ``history`` what the database holds and has not been taken before.

    ``folder`` is where it is noted what was taken. Returns the sessions that could not be, each with the reason. A
    database that cannot be read is one such; nothing is lost, the next call tries again.
    """
    ledger = _Ledger(folder / _LEDGER, str(database))
    try:
        mark = stamp(database)
        if ledger.mark == mark:
            return ()
        fresh = [found for found in _sessions(database, markers) if _is_news(found, ledger.taken)]
    except MissingFileError:
        return ()
    except (UnreadableFileError, OSError) as error:
        return (("*", str(error)),)
    new = [(session, _after(messages, ledger.taken.get(session.id, -1))) for session, messages in fresh]
    result = history.restore(new)
    refused = {name for name, _ in result.refused}
    taken = {session.id: messages[-1].seq for session, messages in new if session.id not in refused and messages}
    if new or ledger.mark:
        ledger.note(mark, {**ledger.taken, **taken})
    return result.refused


def _is_news(found: tuple[Session, list[Message]], taken: Mapping[str, int]) -> bool:
    session, messages = found
    return bool(messages) and messages[-1].seq > taken.get(session.id, -1)


def _after(messages: Sequence[Message], seq: int) -> list[Message]:
    return [message for message in messages if message.seq > seq]


class _Ledger:
    """What was taken of one database, in a file that is replaced whole."""

    def __init__(self, file: Path, database: str) -> None:
        self._file = file
        self._database = database
        self._every: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            found = json.loads(file.read_text(encoding="utf-8"))
            self._every = found if isinstance(found, dict) else {}
        known = self._every.get(database)
        self.mark: str = known.get("stamp", "") if isinstance(known, dict) else ""
        self.taken: dict[str, int] = dict(known.get("sessions", {})) if isinstance(known, dict) else {}

    def note(self, mark: str, taken: Mapping[str, int]) -> None:
        every = {**self._every, self._database: {"stamp": mark, "sessions": dict(taken)}}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        aside = self._file.with_name(f"{self._file.name}.new")
        aside.write_text(json.dumps(every, ensure_ascii=False, indent=1), encoding="utf-8")
        aside.replace(self._file)


def _sessions(database: Path, markers: tuple[str, ...]) -> Iterator[tuple[Session, list[Message]]]:
    """Sessions with their messages; where several agents' are kept, those of no agent in particular."""
    of_sessions, of_messages = _columns(database, "sessions"), _columns(database, "messages")
    if not {"session_id", "seq", "role", "content"} <= of_messages or "session_id" not in of_sessions:
        return
    chosen = ", ".join(name if name in of_sessions else text for name, text in _DEFAULTS.items())
    ours = " WHERE agent_id = ''" if "agent_id" in of_sessions else ""
    rows = ask(database, str(database), f"SELECT session_id, created_at, last_active, {chosen} FROM sessions{ours}")
    extras = "extras" if "extras" in of_messages else "''"
    narrowed = " AND agent_id = ''" if "agent_id" in of_messages else ""
    for name, created, active, channel, title, start, pinned in rows:
        statement = (
            f"SELECT seq, role, content, created_at, {extras} FROM messages WHERE session_id = ?{narrowed} ORDER BY seq"
        )
        messages = list(_messages(ask(database, str(database), statement, (name,)), markers))
        session = Session(
            str(name), SHARED, str(channel), str(title), bool(pinned), float(created), float(active), 0, int(start)
        )
        yield session, messages


def _messages(rows: Sequence[tuple[Any, ...]], markers: tuple[str, ...]) -> Iterator[Message]:
    scheduled, turn = False, -1
    for seq, role, content, at, extras in rows:
        body = {"role": str(role), "content": _parsed(content, content)}
        opens = part_of(body) == "question"
        if opens:
            scheduled, turn = text_of(body).startswith(markers), int(seq)
        beside = _parsed(extras, {})
        about = beside if isinstance(beside, dict) else {}
        yield Message("", int(seq), turn, opens, scheduled, str(role), float(at or 0), body, about)


def _columns(database: Path, table: str) -> frozenset[str]:
    found = ask(database, str(database), "SELECT name FROM pragma_table_info(?)", (table,))
    return frozenset(str(name) for (name,) in found)


def _parsed(text: object, otherwise: object) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) and text else otherwise
    except (ValueError, RecursionError):
        return otherwise
