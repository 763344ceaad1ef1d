"""Conversations for asyncio programs: each call runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vademecum.history import (
        Conversations,
        Latest,
        Message,
        Restored,
        Session,
        SessionPage,
        Totals,
        Turn,
        TurnPage,
    )


class AsyncConversations:
    """`Conversations` whose methods are awaited; arguments and errors are those of the methods of the same name."""

    def __init__(self, history: Conversations) -> None:
        """Wrap the conversations of a memory that stays open."""
        self.history = history

    async def append(self, session: str, messages: Iterable[Mapping[str, Any]], **options: Any) -> tuple[Message, ...]:
        """See `Conversations.append`."""
        return await asyncio.to_thread(self.history.append, session, messages, **options)

    async def restore(self, sessions: Iterable[tuple[Session, Iterable[Message]]]) -> Restored:
        """See `Conversations.restore`."""
        return await asyncio.to_thread(self.history.restore, sessions)

    async def load(self, session: str, max_turns: int = 30, **options: Any) -> list[dict[str, Any]]:
        """See `Conversations.load`."""
        return await asyncio.to_thread(self.history.load, session, max_turns, **options)

    async def recap(self, session: str, max_turns: int = 5) -> list[dict[str, Any]]:
        """See `Conversations.recap`."""
        return await asyncio.to_thread(self.history.recap, session, max_turns)

    async def clear_context(self, session: str) -> int | None:
        """See `Conversations.clear_context`."""
        return await asyncio.to_thread(self.history.clear_context, session)

    async def context_start(self, session: str) -> int:
        """See `Conversations.context_start`."""
        return await asyncio.to_thread(self.history.context_start, session)

    async def page(self, session: str, number: int = 1, size: int = 20, **options: Any) -> TurnPage:
        """See `Conversations.page`."""
        return await asyncio.to_thread(self.history.page, session, number, size, **options)

    async def turns(self, session: str) -> list[Turn]:
        """See `Conversations.turns`."""
        return await asyncio.to_thread(lambda: list(self.history.turns(session)))

    async def latest(self, session: str) -> Latest:
        """See `Conversations.latest`."""
        return await asyncio.to_thread(self.history.latest, session)

    async def messages_after(self, session: str, seq: int = -1, **options: Any) -> list[Message]:
        """See `Conversations.messages_after`."""
        return await asyncio.to_thread(self.history.messages_after, session, seq, **options)

    async def last_messages(self, session: str, count: int) -> list[Message]:
        """See `Conversations.last_messages`."""
        return await asyncio.to_thread(self.history.last_messages, session, count)

    async def session(self, session: str) -> Session | None:
        """See `Conversations.session`."""
        return await asyncio.to_thread(self.history.session, session)

    async def sessions(self, **options: Any) -> SessionPage:
        """See `Conversations.sessions`."""
        return await asyncio.to_thread(self.history.sessions, **options)

    async def ids(self) -> list[str]:
        """See `Conversations.ids`."""
        return await asyncio.to_thread(self.history.ids)

    async def totals(self) -> Totals:
        """See `Conversations.totals`."""
        return await asyncio.to_thread(self.history.totals)

    async def rename(self, session: str, title: str) -> bool:
        """See `Conversations.rename`."""
        return await asyncio.to_thread(self.history.rename, session, title)

    async def pin(self, session: str, pinned: bool = True) -> bool:
        """See `Conversations.pin`."""
        return await asyncio.to_thread(self.history.pin, session, pinned)

    async def annotate(self, session: str, extras: Mapping[str, Any], **options: Any) -> int | None:
        """See `Conversations.annotate`."""
        return await asyncio.to_thread(self.history.annotate, session, extras, **options)

    async def delete_turn(self, session: str, turn: int, **options: Any) -> int:
        """See `Conversations.delete_turn`."""
        return await asyncio.to_thread(self.history.delete_turn, session, turn, **options)

    async def pop(self, session: str) -> Message | None:
        """See `Conversations.pop`."""
        return await asyncio.to_thread(self.history.pop, session)

    async def prune_scheduled(self, session: str, keep: int = 3) -> int:
        """See `Conversations.prune_scheduled`."""
        return await asyncio.to_thread(self.history.prune_scheduled, session, keep)

    async def delete(self, session: str) -> bool:
        """See `Conversations.delete`."""
        return await asyncio.to_thread(self.history.delete, session)

    async def prune(self, older_than_days: float, **options: Any) -> tuple[Session, ...]:
        """See `Conversations.prune`."""
        return await asyncio.to_thread(self.history.prune, older_than_days, **options)
