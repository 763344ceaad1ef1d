"""Our own history.sqlite as a source of turns for the index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from vademecum.errors import MissingFileError
from vademecum.history import blocks, paths
from vademecum.history.content import decode
from vademecum.history.database import HistoryFile
from vademecum.history.records import scope_of
from vademecum.history.said import Said, Stretch, message
from vademecum.types import SHARED

# A number is never given twice within a session of one uid, so these name the messages of a block.
_SESSIONS = (
    "SELECT s.owner, s.id, m.seq / :size, s.uid, count(*), sum(m.seq), sum(m.scheduled)"
    " FROM sessions s JOIN messages m ON m.session = s.key GROUP BY 1, 2, 3"
)
_SAID = (
    "SELECT m.seq, m.body, m.at FROM sessions s JOIN messages m ON m.session = s.key WHERE s.owner = :owner"
    " AND s.id = :id AND m.seq >= :first AND m.seq < :end AND m.scheduled = 0 ORDER BY m.seq"
)
_LAST = "SELECT max(m.seq) FROM sessions s JOIN messages m ON m.session = s.key WHERE s.owner = :owner AND s.id = :id"


class OwnHistory:
    """A `TurnSource`. Positions are the messages' sequence numbers plus one, because those begin at 0.

    A conversation is found by the user that it was had with, else by the agent, else by everybody. What a scheduler
    put into it is not.
    """

    def __init__(self, file: HistoryFile) -> None:
        """Nothing is opened yet, nor made."""
        self._file = file

    def changed(self, known: Mapping[str, str]) -> Iterator[Stretch]:
        """See TurnSource."""
        for (owner, session), parts in self._sessions().items():
            path = _named(owner, session)

            def read(block: int, owner: str = owner, session: str = session) -> list[Said]:
                return list(self._said(owner, session, block * blocks.SIZE, (block + 1) * blocks.SIZE))

            yield from blocks.changed(path, scope_of(owner), known.get(path), parts, read)

    def gone(self, known: Mapping[str, str]) -> Sequence[str]:
        """See TurnSource."""
        there = {_named(*names) for names in self._sessions()}
        return [path for path in known if path not in there and paths.file_of(path)]

    def read(self, path: str, first: int) -> Iterator[Said]:
        """See TurnSource."""
        names = self._names(path)
        for start in range(first - 1, self._last(*names), blocks.SIZE):
            yield from self._said(*names, start, start + blocks.SIZE)

    def last(self, path: str) -> int:
        """See TurnSource."""
        return self._last(*self._names(path))

    def _sessions(self) -> dict[tuple[str, str], dict[int, str]]:
        """What names each block of each session, by owner and session."""
        found: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
        with self._file.read() as db:
            for owner, session, block, *parts in db.execute(_SESSIONS, {"size": blocks.SIZE}):
                found[owner, session][block] = ".".join(map(str, parts))
        return found

    def _last(self, owner: str, session: str) -> int:
        with self._file.read() as db:
            (last,) = db.execute(_LAST, {"owner": owner, "id": session}).fetchone()
        return -1 if last is None else int(last) + 1

    def _said(self, owner: str, session: str, first: int, end: int) -> Iterator[Said]:
        with self._file.read() as db:
            found = db.execute(_SAID, {"owner": owner, "id": session, "first": first, "end": end}).fetchall()
        for seq, body, at in found:
            one = message(decode(body), seq + 1, datetime.fromtimestamp(at, UTC))
            if one is not None:
                yield one

    def _names(self, path: str) -> tuple[str, str]:
        for names in self._sessions():
            if _named(*names) == path:
                return names
        raise MissingFileError(f"{path}: there is no such conversation")


def _named(owner: str, session: str) -> str:
    scope, _, agent = owner.partition(" ")
    agents = [agent.partition(":")[2]] if agent else []
    return paths.of(paths.OWN, scope or SHARED, *agents, session)
