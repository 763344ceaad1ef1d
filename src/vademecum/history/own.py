"""Our own history.sqlite as a source of turns for the index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

from vademecum.errors import MissingFileError
from vademecum.history import blocks, paths
from vademecum.history.checks import LARGEST
from vademecum.history.content import decode
from vademecum.history.database import HistoryFile
from vademecum.history.records import scope_of
from vademecum.history.said import Said, Stretch, message
from vademecum.types import SHARED

_SESSIONS = "SELECT s.owner, s.id, s.stamp FROM sessions s WHERE s.messages > 0"
# A number is never given twice within a session of one uid, and times tell what a backup that was put back brings.
_BLOCKS = (
    "SELECT m.seq / :size, s.uid, count(*), sum(m.seq), sum(m.scheduled), sum(CAST(m.at * 1000 AS INTEGER))"
    " FROM sessions s JOIN messages m ON m.session = s.key WHERE s.owner = :owner AND s.id = :id GROUP BY 1"
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
        """See TurnSource. A session whose stamp is known is not looked into."""
        for owner, session, stamp in self._sessions():
            path = _named(owner, session)
            before, _, state = known.get(path, "").partition(" ")
            if before != stamp:
                unchanged = Stretch(path, scope_of(owner), LARGEST, None, (), state)
                yield from _stamped(self._changed(owner, session, path, state), stamp, unchanged)

    def _changed(self, owner: str, session: str, path: str, state: str) -> Iterator[Stretch]:
        with self._file.read() as db:
            found = db.execute(_BLOCKS, {"owner": owner, "id": session, "size": blocks.SIZE}).fetchall()
        parts = {block: ".".join(map(str, names)) for block, *names in found}
        return blocks.changed(
            path,
            scope_of(owner),
            state,
            parts,
            lambda block: list(self._said(owner, session, block * blocks.SIZE, (block + 1) * blocks.SIZE)),
        )

    def gone(self, known: Mapping[str, str]) -> Sequence[str]:
        """See TurnSource."""
        there = {_named(owner, session) for owner, session, _ in self._sessions()}
        return [path for path in known if path not in there and paths.file_of(path)]

    def read(self, path: str, first: int) -> Iterator[Said]:
        """See TurnSource."""
        names = self._names(path)
        for start in range(first - 1, self._last(*names), blocks.SIZE):
            yield from self._said(*names, start, start + blocks.SIZE)

    def last(self, path: str) -> int:
        """See TurnSource."""
        return self._last(*self._names(path))

    def _sessions(self) -> list[tuple[str, str, str]]:
        """Owner, id and stamp of each session that has messages."""
        with self._file.read() as db:
            return db.execute(_SESSIONS).fetchall()

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
        for owner, session, _ in self._sessions():
            if _named(owner, session) == path:
                return owner, session
        raise MissingFileError(f"{path}: there is no such conversation")


def _stamped(stretches: Iterator[Stretch], stamp: str, unchanged: Stretch) -> Iterator[Stretch]:
    """The states with the session's stamp in front, but only of the last: until then the session is not up to date."""
    last = next(stretches, unchanged)
    for stretch in stretches:
        yield replace(last, state=f"- {last.state}")
        last = stretch
    yield replace(last, state=f"{stamp} {last.state}")


@lru_cache(maxsize=10_000)
def _named(owner: str, session: str) -> str:
    scope, _, agent = owner.partition(" ")
    agents = [agent.partition(":")[2]] if agent else []
    return paths.of(paths.OWN, scope or SHARED, *agents, session)
