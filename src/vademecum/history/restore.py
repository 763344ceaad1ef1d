"""Taking over whole sessions with the numbers and times that they already have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vademecum.errors import UsageError
from vademecum.history import checks, content, drafts, rows
from vademecum.history.database import HistoryFile
from vademecum.history.drafts import Draft
from vademecum.history.records import Message, Restored, Session
from vademecum.sqlite import Connection

#: A transaction ends after the session with which it has taken so many messages.
_MOST_AT_ONCE = 5_000


@dataclass(slots=True)
class _Count:
    sessions: int = 0
    messages: int = 0
    known: int = 0


def restore(file: HistoryFile, owner: str, sessions: Iterable[tuple[Session, Iterable[Message]]]) -> Restored:
    """See `Conversations.restore`."""
    total = _Count()
    refused: list[tuple[str, str]] = []
    waiting: list[tuple[Session, list[Draft]]] = []
    for session, messages in sessions:
        try:
            waiting.append((session, _checked(session, messages)))
        except UsageError as error:
            refused.append((str(session.id), str(error)))
        if sum(len(given) for _, given in waiting) >= _MOST_AT_ONCE:
            _take(file, owner, waiting, total, refused)
            waiting.clear()
    _take(file, owner, waiting, total, refused)
    return Restored(total.sessions, total.messages, total.known, tuple(refused))


def _checked(session: Session, messages: Iterable[Message]) -> list[Draft]:
    checks.name("session", session.id)
    checks.channel(session.channel)
    checks.moment("created_at", session.created_at)
    checks.moment("active_at", session.active_at)
    checks.whole("context_start", session.context_start, 0)
    checks.flag("pinned", session.pinned)
    return drafts.known(messages)


def _take(
    file: HistoryFile,
    owner: str,
    waiting: Sequence[tuple[Session, list[Draft]]],
    total: _Count,
    refused: list[tuple[str, str]],
) -> None:
    if not waiting:
        return
    with file.write() as db:
        for session, given in waiting:
            conflict = _put(db, owner, session, given, total)
            if conflict is not None:
                refused.append((session.id, conflict))


def _put(db: Connection, owner: str, session: Session, given: list[Draft], total: _Count) -> str | None:
    """Store one session, or return the reason why it cannot be."""
    known = rows.find(db, owner, session.id)
    there = {} if known is None else dict(db.execute("SELECT seq, body FROM messages WHERE session = ?", (known.key,)))
    for draft in given:
        if draft.seq in there and content.decode(there[draft.seq]) != draft.body:
            return f"message {draft.seq} is another one here; delete or rename one of the two sessions"
    last = max(there, default=-1)
    fresh = [draft for draft in given if draft.seq > last]
    if known is None:
        known = rows.begin(db, owner, session.id, session.channel, session.created_at)
        db.execute(
            "UPDATE sessions SET pinned = ?, context_start = ?, next_seq = max(next_seq, ?), title = ? WHERE key = ?",
            (session.pinned, session.context_start, session.context_start, checks.line(session.title), known.key),
        )
        total.sessions += 1
    rows.store(db, known, fresh, session.active_at)
    total.messages += len(fresh)
    total.known += len(given) - len(fresh)
    return None
