"""`Conversations`: what an agent's host keeps, lists and gives back to the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vademecum.history import checks, content, drafts, rows
from vademecum.history.records import (
    Latest,
    Message,
    Restored,
    Session,
    Turn,
    TurnPage,
)
from vademecum.history.restore import restore
from vademecum.history.sessions import Sessions
from vademecum.history.turns import turns_of


class Conversations(Sessions):
    """The conversations of one owner. Safe to share between threads; other processes may write at the same time.

    A session is named by the host's own id and made by its first message. What it holds is divided into turns: a
    person's message with everything up to the next one, however many calls of tools that took. What a scheduler
    injects forms turns of its own and is never taken for a person's.

    Messages are dicts as they go to a model: OpenAI's chat or responses API, Anthropic, or anything with a "role".
    They come back exactly as they were given. Times are Unix seconds. A session that is not there has no messages;
    methods that change one then return 0, False or None. All methods raise UsageError for arguments that cannot be
    meant, and HistoryError (its kinds tell a damaged file and a busy one) when the file cannot be used; nothing is
    half written then.
    """

    # -- writing ------------------------------------------------------------------------------------------------

    def append(
        self,
        session: str,
        messages: Iterable[Mapping[str, Any]],
        *,
        channel: str = "",
        create: bool = True,
        scheduled: bool = False,
        at: float | None = None,
        extras: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> tuple[Message, ...]:
        """Store messages at the end of a session, all or none; returns them with their ids, in order.

        With ``create`` false a session that is not there is not made, and nothing is stored: for replies that may
        come after somebody deleted the session. ``channel`` is noted when the session is made. ``scheduled`` says
        that a scheduler and not a person is the origin. ``at`` is the time of all messages, now by default.
        ``extras`` holds for each message what is kept beside it (see `annotate`), or None.

        A new session is titled by the first line of its first question. Sequence numbers go on where the session
        ended, also between processes that append at once; messages of one call stay together.
        """
        name, where = checks.name("session", session), checks.channel(channel)
        time = self._file.clock() if at is None else checks.moment("at", at)
        given = drafts.new(messages, extras, checks.flag("scheduled", scheduled), time)
        checks.flag("create", create)
        if not given:
            return ()
        with self._file.write() as db:
            known = rows.find(db, self.owner, name)
            if known is None:
                if not create:
                    return ()
                known = rows.begin(db, self.owner, name, where, time)
            numbered = [draft._replace(seq=known.next_seq + n) for n, draft in enumerate(given)]
            stored = rows.store(db, known, numbered, time)
            self._drop_outlived(db, known.key)
        return tuple(stored)

    def restore(self, sessions: Iterable[tuple[Session, Iterable[Message]]]) -> Restored:
        """Take over sessions with the ids, sequence numbers and times that they have: from a backup or another system.

        Of a message, ``seq``, ``at``, ``body``, ``extras`` and ``scheduled`` are taken; messages come in the order of
        ``seq``. Of a session, everything but ``owner``, ``messages``, ``next_seq``, ``uid`` and ``stamp``. Each
        session is taken whole or not at all, many to a transaction, so that an interrupted restore is simply run
        again: messages that are there are passed over, and so are those up to the last one there which had been
        deleted. A session that holds another message under the same number is refused and named in the result.
        """
        return restore(self._file, self.owner, sessions)

    # -- for the model ------------------------------------------------------------------------------------------

    def load(self, session: str, max_turns: int = 30, *, thinking: bool = False) -> list[dict[str, Any]]:
        """The messages of the last ``max_turns`` turns after the context was last cleared, as the model gets them.

        Turn by turn, so that a call of a tool is followed by its result. Turns of a scheduler count too. Blocks of
        thinking are left out unless ``thinking``. With 0 turns, nothing.
        """
        most = checks.whole("max_turns", max_turns, 0)
        checks.flag("thinking", thinking)
        if not most:
            return []
        found = self._messages(rows.LOAD, session, skip=most - 1, before=checks.LARGEST)
        bodies = (message.body if thinking else content.without_thoughts(message.body) for message in found)
        return [body for body in bodies if body is not None]

    def recap(self, session: str, max_turns: int = 5) -> list[dict[str, Any]]:
        """The last ``max_turns`` turns of the context as question and answer only, for a session that is taken up
        again: plain messages with "role" and "content", without tools and thoughts.
        """
        most = checks.whole("max_turns", max_turns, 0)
        found = self._messages(rows.LOAD, session, skip=most - 1, before=checks.LARGEST) if most else []
        return [message for turn in turns_of(found, 0) for message in _ends(turn)]

    def clear_context(self, session: str) -> int | None:
        """Leave out what is stored so far when the model is given the session; nothing is deleted.

        Returns the sequence number from which turns count again. A reply that still comes to an earlier turn belongs
        to that turn, and is left out with it.
        """
        with self._file.write() as db:
            db.execute(rows.CLEAR_CONTEXT, self._names(session))
            row = db.execute(rows.CONTEXT_START, self._names(session)).fetchone()
        return None if row is None else int(row[0])

    def context_start(self, session: str) -> int:
        """The sequence number from which turns are given to the model; 0 if the context was never cleared."""
        with self._file.read() as db:
            row = db.execute(rows.CONTEXT_START, self._names(session)).fetchone()
        return 0 if row is None else int(row[0])

    # -- for display --------------------------------------------------------------------------------------------

    def page(self, session: str, number: int = 1, size: int = 20, *, before: int | None = None) -> TurnPage:
        """``size`` turns, oldest first; page 1 holds the newest, whether in the context or not.

        ``before``: only turns before this sequence number. Whoever scrolls back by it (page 1 before the first turn
        shown) meets no turn twice while new ones arrive.
        """
        checks.page(number, size)
        end = checks.LARGEST if before is None else checks.whole("before", before, 0)
        names = {**self._names(session), "before": end}
        with self._file.read() as db:
            start, total = db.execute(rows.PLACE, names).fetchone() or (0, 0)
            span = {"first": (number - 1) * size, "last": number * size - 1}
            found = [rows.message(row) for row in db.execute(rows.PAGE, names | span)]
        return TurnPage(tuple(turns_of(found, start)), total, number, size, number * size < total, start)

    def turns(self, session: str) -> Iterator[Turn]:
        """All turns, oldest first."""
        with self._file.read() as db:
            names = self._names(session)
            start, _ = db.execute(rows.PLACE, names | {"before": 0}).fetchone() or (0, 0)
            found = [rows.message(row) for row in db.execute(rows.TURNS, names)]
        return turns_of(found, start)

    def latest(self, session: str) -> Latest:
        """Where the last question of a person and the last message of the agent are."""
        with self._file.read() as db:
            return Latest(*(db.execute(rows.LATEST, self._names(session)).fetchone() or (None, None)))

    def messages_after(self, session: str, seq: int = -1, *, limit: int | None = None) -> list[Message]:
        """Up to ``limit`` messages with a greater sequence number than ``seq``, in the order of storing.

        Whoever keeps the last number it has seen is given each message once, and never one that it has seen, not
        even if the session was deleted meanwhile and begun again.
        """
        most = -1 if limit is None else checks.whole("limit", limit, 0)
        return self._messages(rows.AFTER, session, seq=checks.whole("seq", seq, -1), limit=most)

    def last_messages(self, session: str, count: int) -> list[Message]:
        """The last ``count`` messages, in the order of storing."""
        return self._messages(rows.LAST, session, limit=checks.whole("count", count, 0))[::-1]

    def annotate(self, session: str, extras: Mapping[str, Any], *, seq: int | None = None) -> int | None:
        """Keep something beside a message, the agent's last one by default, such as the address of its spoken form.

        Keys are added to those that are there, and replace equal ones. The model is not given them. Returns the
        sequence number of the message, None if there is none.
        """
        added = content.decode(checks.extras("extras", extras) or "{}")
        place = {} if seq is None else {"seq": checks.whole("seq", seq, 0)}
        with self._file.write() as db:
            chosen = rows.LAST_ANSWER if seq is None else rows.ONE_MESSAGE
            row = db.execute(chosen, self._names(session) | place).fetchone()
            if row is None:
                return None
            merged = content.encode(content.decode(row[2] or "{}") | added, "extras")
            db.execute("UPDATE messages SET extras = ? WHERE key = ?", (merged, row[0]))
        return int(row[1])

    # -- deleting -----------------------------------------------------------------------------------------------

    def delete_turn(self, session: str, turn: int, *, question: bool = True, following: bool = False) -> int:
        """Delete the turn opened by the message ``turn``; returns how many messages were deleted.

        Without ``question`` the question itself stays, to be answered again; with ``following`` all later turns go
        too, as when a question is edited. Their sequence numbers are not given again.
        """
        first = checks.whole("turn", turn, 0) + (not checks.flag("question", question))
        statement = rows.DELETE_FROM if checks.flag("following", following) else rows.DELETE_TURN
        return self._delete(statement, session, turn=turn, first=first)

    def pop(self, session: str) -> Message | None:
        """Delete the last message and return it; None if there is none. Its number is not given again."""
        with self._file.write() as db:
            names = self._names(session)
            row = db.execute(rows.LAST, names | {"limit": 1}).fetchone()
            known = rows.find(db, self.owner, names["id"])
            if row is None or known is None:
                return None
            last = rows.message(row)
            db.execute(rows.DELETE_MESSAGE, names | {"seq": last.seq})
            rows.touch(db, known.key, -1)
        return last

    def prune_scheduled(self, session: str, keep: int = 3) -> int:
        """Delete all but the last ``keep`` turns of a scheduler; returns how many messages were deleted.

        Only messages that were stored as scheduled are touched, whatever the text of others.
        """
        return self._delete(rows.DELETE_SCHEDULED, session, keep=checks.whole("keep", keep, 0))

    # -- rows ---------------------------------------------------------------------------------------------------

    def _messages(self, statement: str, session: object, **values: int) -> list[Message]:
        with self._file.read() as db:
            return [rows.message(row) for row in db.execute(statement, self._names(session) | values)]

    def _delete(self, statement: str, session: object, **values: int) -> int:
        names = self._names(session)
        with self._file.write() as db:
            known = rows.find(db, self.owner, names["id"])
            count = db.execute(statement, names | values).rowcount if known is not None else 0
            if known is not None and count:
                rows.touch(db, known.key, -count)
        return count


def _ends(turn: Turn) -> Iterator[dict[str, Any]]:
    if turn.question:
        yield {"role": "user", "content": turn.question}
    if turn.answer:
        yield {"role": "assistant", "content": turn.answer}
