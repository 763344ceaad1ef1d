"""CowAgent's ``memory/long-term/index.db``: sessions and their messages, beside an index that is none of ours."""
# ruff: noqa: S608 - statements are put together from the constants of this module only

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from vademecum.errors import MissingFileError
from vademecum.history import blocks, content, paths
from vademecum.history.said import Said, Stretch, message, moment
from vademecum.sqlite.foreign import ask
from vademecum.types import SHARED, Scope

_NEEDED = frozenset({"session_id", "seq", "role", "content", "created_at"})
#: In front of what a scheduler puts into a conversation in a person's name.
_SCHEDULED = "[SCHEDULED]"


class IndexDb:
    """A `TurnSource`. Positions are the messages' sequence numbers plus one, because those begin at 0.

    Later versions keep an agent's id beside each session; its conversations are then that agent's own.
    """

    def __init__(self, path: str, file: Path) -> None:
        """``path`` as the index calls it. Nothing is opened yet, and never for more than one SELECT."""
        self._path = path
        self._file = file

    def changed(self, known: Mapping[str, str]) -> Iterator[Stretch]:
        """See TurnSource. A block's numbers of rows tell whether it changed: messages are added and deleted only."""
        for (agent, session), parts in self._sessions().items():
            path = self._named(agent, session)

            def read(block: int, agent: str = agent, session: str = session) -> list[Said]:
                return list(self._said(agent, session, block * blocks.SIZE, (block + 1) * blocks.SIZE))

            yield from blocks.changed(path, _scope(agent), known.get(path), parts, read)

    def gone(self, known: Mapping[str, str]) -> Sequence[str]:
        """See TurnSource."""
        there = {self._named(*names) for names in self._sessions()}
        return [path for path in known if path not in there and paths.file_of(path)]

    def read(self, path: str, first: int) -> Iterator[Said]:
        """See TurnSource."""
        names = self._names(path)
        for start in range(first - 1, self._last(*names), blocks.SIZE):
            yield from self._said(*names, start, start + blocks.SIZE)

    def last(self, path: str) -> int:
        """See TurnSource."""
        return self._last(*self._names(path))

    # -- rows ---------------------------------------------------------------------------------------------------

    def _sessions(self) -> dict[tuple[str, str], dict[int, str]]:
        """What names each block of each session, by agent and session."""
        found: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
        if self._columns:
            rows = self._ask(
                f"SELECT {self._agent}, session_id, seq / {blocks.SIZE}, count(*), sum(rowid), max(rowid)"
                " FROM messages WHERE seq >= 0 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
            )
            for agent, session, block, *numbers in rows:
                found[str(agent), str(session)][int(block)] = ".".join(map(str, numbers))
        return found

    def _last(self, agent: str, session: str) -> int:
        ((last,),) = self._ask(f"SELECT max(seq) FROM messages WHERE {self._of_session}", agent, session)
        return int(last) + 1

    def _said(self, agent: str, session: str, first: int, end: int) -> Iterator[Said]:
        rows = self._ask(
            f"SELECT seq, role, content, created_at FROM messages WHERE {self._of_session} AND seq >= ? AND seq < ?"
            " ORDER BY seq",
            agent,
            session,
            first,
            end,
        )
        scheduled = False
        for seq, role, text, at in rows:
            body = {"role": role, "content": _parsed(text)}
            if content.part_of(body) == "question":
                scheduled = content.text_of(body).startswith(_SCHEDULED)
            one = None if scheduled else message(body, int(seq) + 1, moment(at))
            if one is not None:
                yield one

    @cached_property
    def _columns(self) -> frozenset[str]:
        """The columns of the messages; empty if they are not what we know."""
        found = frozenset(name for (name,) in self._ask("SELECT name FROM pragma_table_info('messages')"))
        return found if found >= _NEEDED else frozenset()

    @property
    def _agent(self) -> str:
        return "agent_id" if "agent_id" in self._columns else "''"

    @property
    def _of_session(self) -> str:
        return f"{self._agent} = ? AND session_id = ?"

    def _ask(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        return ask(self._file, self._path, statement, parameters)

    def _named(self, agent: str, session: str) -> str:
        return paths.of(self._path, _scope(agent), session)

    def _names(self, path: str) -> tuple[str, str]:
        for names in self._sessions():
            if self._named(*names) == path:
                return names
        raise MissingFileError(f"{path}: there is no such conversation")


def _scope(agent: str) -> Scope:
    return f"agent:{agent}" if agent else SHARED


def _parsed(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) else ""
    except (ValueError, RecursionError):
        return text
