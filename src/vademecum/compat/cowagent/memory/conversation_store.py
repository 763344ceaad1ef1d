"""`ConversationStore`: conversations as the host keeps and shows them, over our history."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vademecum.compat.cowagent.host import host
from vademecum.compat.cowagent.index_db import take_over
from vademecum.compat.cowagent.memory.config import MemoryConfig, get_default_memory_config
from vademecum.compat.cowagent.shown import shown_turns
from vademecum.history import HISTORY_FILE, Conversations, HistoryFile, Session
from vademecum.history.content import text_of
from vademecum.memory.opening import history_folder
from vademecum.store.root import PRIVATE
from vademecum.types import SHARED

_IN_WORKSPACE = ("memory", "long-term")
#: What a host's scheduler puts in front of a message that no person wrote.
MARKERS = ("[SCHEDULED]",)
_KEPT_DAYS = 30


class ConversationStore:
    """The conversations that belong to an index.db. Safe to share between threads and processes.

    They are kept in ``.vademecum/history.sqlite`` of the workspace, for a database elsewhere in
    ``<name>.history.sqlite`` beside it. What CowAgent stored in the database is taken over when the store is first
    used, and again whatever it stored since; the database itself is only read.
    """

    def __init__(self, db_path: str | Path) -> None:
        self._db_path = Path(db_path)
        self._file = _file_of(self._db_path)
        self._history = Conversations(self._file, SHARED)
        self._lock = threading.Lock()
        self._taken = False

    # -- writing ------------------------------------------------------------------------------------------------

    def append_messages(
        self,
        session_id: str,
        messages: Sequence[Mapping[str, Any]],
        channel_type: str = "",
        create_if_missing: bool = True,
    ) -> bool:
        """Store messages; False, and nothing stored, if the session is not there and is not to be made.

        A message whose text a scheduler marked, or with ``"scheduled": True``, and the answers to it are turns of the
        scheduler.
        """
        if not messages:
            return create_if_missing or self._conversations.session(session_id) is not None
        made = create_if_missing
        for scheduled, group in _by_origin(messages):
            stored = self._conversations.append(
                session_id,
                map(_body, group),
                channel=channel_type,
                create=made,
                scheduled=scheduled,
                extras=_extras(group),
            )
            if not stored:
                return False
        return True

    def attach_extras_to_last_assistant(self, session_id: str, extras: Mapping[str, Any]) -> int | None:
        """Keep something beside the agent's last message; returns its number."""
        return self._conversations.annotate(session_id, extras)

    def clear_context(self, session_id: str) -> int:
        """Leave out of the context what is stored so far; returns the number from which it counts."""
        return self._conversations.clear_context(session_id) or 0

    def clear_session(self, session_id: str) -> None:
        """Delete a session for good."""
        self._conversations.delete(session_id)

    def delete_message_pair(
        self, session_id: str, user_seq: int, delete_user: bool = True, cascade: bool = False
    ) -> int:
        """Delete a question with what answers it, and with ``cascade`` all that follows; returns how many messages."""
        return self._conversations.delete_turn(session_id, user_seq, question=delete_user, following=cascade)

    def prune_scheduled_messages(self, session_id: str, keep_last_n: int, markers: Sequence[str] | None = None) -> int:
        """Delete all but the last ``keep_last_n`` turns of the scheduler; returns how many messages.

        Only what was stored as a scheduler's goes; ``markers`` are not looked for in what people wrote.
        """
        return self._conversations.prune_scheduled(session_id, keep_last_n)

    def cleanup_old_sessions(self, max_age_days: int | None = None) -> int:
        """Delete sessions that nobody used for so long (30 days), but for pinned ones and those of "web"."""
        age = host().conf("conversation_max_age_days", _KEPT_DAYS) if max_age_days is None else max_age_days
        return len(self._conversations.prune(age))

    def rename_session(self, session_id: str, title: str) -> bool:
        """Give a session a title."""
        return self._conversations.rename(session_id, title)

    def set_pinned(self, session_id: str, pinned: bool) -> bool:
        """Keep a session on top of the list."""
        return self._conversations.pin(session_id, pinned)

    # -- reading ------------------------------------------------------------------------------------------------

    def load_messages(self, session_id: str, max_turns: int = 30) -> list[dict[str, Any]]:
        """The messages of the last turns of the context, as role and content, without thoughts."""
        found = self._conversations.load(session_id, max_turns)
        return [{"role": message.get("role", ""), "content": message.get("content", "")} for message in found]

    def load_history_page(self, session_id: str, page: int = 1, page_size: int = 20) -> dict[str, Any]:
        """Messages as a chat shows them, oldest first; page 1 holds the newest."""
        turns = self._conversations.turns(session_id)
        every = shown_turns(turns, thoughts=bool(host().conf("enable_thinking", False)))
        number, size = max(1, page), max(1, page_size)
        end = max(0, len(every) - (number - 1) * size)
        return {
            "messages": every[max(0, end - size) : end],
            "context_start_seq": self.get_context_start_seq(session_id),
            "total": len(every),
            "page": number,
            "page_size": size,
            "has_more": number * size < len(every),
        }

    def get_context_start_seq(self, session_id: str) -> int:
        """The number from which messages are in the context."""
        return self._conversations.context_start(session_id)

    def get_latest_pair_seqs(self, session_id: str) -> dict[str, int | None]:
        """Where the last question and the last message of the agent are."""
        latest = self._conversations.latest(session_id)
        return {"user_seq": latest.question, "bot_seq": latest.answer}

    def list_sessions(self, channel_type: str | None = None, page: int = 1, page_size: int = 50) -> dict[str, Any]:
        """Sessions, pinned ones first, then by last activity."""
        found = self._conversations.sessions(channel=channel_type or None, number=max(1, page), size=page_size)
        return {
            "sessions": [_listed(session) for session in found.sessions],
            "total": found.total,
            "page": found.number,
            "page_size": found.size,
            "has_more": found.more,
        }

    def list_session_ids(self) -> list[str]:
        """The ids of all sessions."""
        return self._conversations.ids()

    def get_stats(self) -> dict[str, Any]:
        """How much there is."""
        totals = self._conversations.totals()
        return {
            "total_sessions": totals.sessions,
            "total_messages": totals.messages,
            "by_channel": dict(totals.by_channel),
        }

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        self._file.close()
        self._file = _file_of(self._db_path)
        self._history = Conversations(self._file, SHARED)

    @property
    def _conversations(self) -> Conversations:
        with self._lock:
            if not self._taken:
                refused = take_over(self._db_path, self._history, self._file.path.parent, MARKERS)
                for session, reason in refused:
                    host().logger.warning(f"[ConversationStore] session {session} was not taken over: {reason}")
                self._taken = True
        return self._history


_stores: dict[Path, ConversationStore] = {}
_stores_lock = threading.Lock()


def get_conversation_store(workspace_root: str | Path | None = None) -> ConversationStore:
    """The store of a workspace, by default of the one being served; one object for each."""
    config = get_default_memory_config() if workspace_root is None else MemoryConfig(workspace_root=str(workspace_root))
    path = config.get_db_path()
    with _stores_lock:
        return _stores.setdefault(path, ConversationStore(path))


def clear_conversation_store_cache() -> None:
    """Close and forget all of them."""
    with _stores_lock:
        for store in _stores.values():
            store.close()
        _stores.clear()


def _file_of(database: Path) -> HistoryFile:
    if database.parent.parts[-2:] == _IN_WORKSPACE:
        root = database.parents[2]
        return HistoryFile(root / PRIVATE / HISTORY_FILE, prepare=partial(_private, root))
    return HistoryFile(database.with_name(f"{database.stem}.{HISTORY_FILE}"))


def _private(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    history_folder(root)


def _by_origin(messages: Sequence[Mapping[str, Any]]) -> list[tuple[bool, list[Mapping[str, Any]]]]:
    """Runs of messages of people and of a scheduler."""
    groups: list[tuple[bool, list[Mapping[str, Any]]]] = []
    scheduled = False
    for message in messages:
        if message.get("role") == "user":
            scheduled = message.get("scheduled") is True or text_of(dict(message)).startswith(MARKERS)
        if not groups or groups[-1][0] != scheduled:
            groups.append((scheduled, []))
        groups[-1][1].append(message)
    return groups


def _body(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key not in ("scheduled", "extras")}


def _extras(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
    found = [message.get("extras") for message in messages]
    return [extras if isinstance(extras, Mapping) else None for extras in found]


def _listed(session: Session) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "title": session.title,
        "created_at": int(session.created_at),
        "last_active": int(session.active_at),
        "msg_count": session.messages,
        "pinned": session.pinned,
        "channel_type": session.channel,
    }
