"""One open memory per workspace, whoever of the host works on it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum import Memory
from vademecum.compat.cowagent.embedder import HostEmbedder, same_space
from vademecum.compat.cowagent.host import host
from vademecum.config import environment, load_settings
from vademecum.settings import ChunkSettings, FlushLanguage, Settings

if TYPE_CHECKING:
    from vademecum.compat.cowagent.memory.config import MemoryConfig
    from vademecum.ports import ChatModel
    from vademecum.types import Origin


_LANGUAGES: dict[str, FlushLanguage] = {"en": "en", "zh": "zh"}
#: A host has few kinds of calls, but may have many users.
_MOST_VIEWS = 64


class Desk:
    """A workspace that is open in this process. Its vectors come from the provider that was last given to it.

    Hosts make a manager for each session and request; all of them work here, with one index and one connection.
    """

    def __init__(self, root: Path, chunk: ChunkSettings) -> None:
        self.root = root
        self.chunk = chunk
        self.provider: Any = None
        #: The host's language model, for flushes and dreams; None for the one of the settings, if there is one.
        self.chat: ChatModel | None = None
        self._free = threading.Condition()
        self._lent = 0
        self._changing = False
        self._open: Memory | None = None
        self._views: dict[tuple[object, ...], Memory] = {}
        self._settings: Settings | None = None

    def use(self, provider: Any) -> None:
        """Take vectors from ``provider`` from now on; those of another model stay stored."""
        if provider is None or (self.provider is not None and same_space(self.provider, provider)):
            return
        with self._alone():
            self._close()
            self.provider = provider

    @contextmanager
    def lend(
        self, user: str | None = None, settings: Settings | None = None, origin: Origin = "agent"
    ) -> Iterator[Memory]:
        """The memory as ``user`` sees it. Whoever holds it must not ask for another one meanwhile."""
        with self._free:
            while self._changing:
                self._free.wait()
            memory = self._view(user, settings or self.settings(), origin)
            self._lent += 1
        try:
            yield memory
        finally:
            with self._free:
                self._lent -= 1
                self._free.notify_all()

    def _view(self, user: str | None, settings: Settings, origin: Origin) -> Memory:
        """One open memory for all calls that want the same."""
        if self._open is None:
            embedder = None if self.provider is None else HostEmbedder(self.provider)
            self._open = Memory.open(self.root, settings=self.settings(), embedder=embedder, resume=False)
        key = (user, settings, origin, id(self.chat))
        if key not in self._views:
            if len(self._views) >= _MOST_VIEWS:
                del self._views[next(iter(self._views))]  # closed as soon as nobody holds it
            # The host's model may be given any moment; whoever gives it has what was interrupted done.
            self._views[key] = Memory.open(
                self.root, user=user, settings=settings, origin=origin, chat=self.chat, resume=False
            )
        return self._views[key]

    def settings(self, config: MemoryConfig | None = None) -> Settings:
        """The settings of the workspace, as ``config`` changes them."""
        found = self._settings
        if found is None:
            found = load_settings(self.root, environment())
            found = self._settings = replace(
                found,
                layout="workspace",
                index_sessions=False,
                chunk=self.chunk,
                embedding=replace(found.embedding, provider="none"),
                flush=replace(
                    found.flush, language=_LANGUAGES.get(host().language()[:2].lower(), found.flush.language)
                ),
            )
        if config is None:
            return found
        return replace(
            found,
            search=replace(
                found.search,
                max_results=config.max_results,
                min_score=config.min_score,
                vector_weight=config.vector_weight,
                text_weight=config.keyword_weight,
            ),
        )

    def close(self) -> None:
        """Let go of everything as soon as nobody works here."""
        with self._alone():
            self._close()

    def _close(self) -> None:
        for view in self._views.values():
            view.close()
        self._views.clear()
        if self._open is not None:
            self._open.close()
            self._open = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._free:
            while self._changing:
                self._free.wait()
            self._changing = True
            while self._lent:
                self._free.wait()
        try:
            yield
        finally:
            with self._free:
                self._changing = False
                self._free.notify_all()


@dataclass(slots=True)
class _Place:
    desk: Desk
    users: int = 0


_places: dict[tuple[int, Path], _Place] = {}
_lock = threading.RLock()  # a desk may be given back by the collector, in the middle of anything


def desk_of(workspace: str | os.PathLike[str], chunk: ChunkSettings | None = None) -> tuple[Desk, Callable[[], None]]:
    """The desk of a workspace, and a function that gives it back; the last one to do so closes it.

    ``chunk`` counts for whoever comes first; a later one that differs is told of in the host's log.
    """
    root = host().folder(workspace)
    root.mkdir(parents=True, exist_ok=True)
    key, made = (os.getpid(), root), _Place(Desk(root, chunk or ChunkSettings(500, 50)))
    with _lock:
        place = _places.setdefault(key, made)
        place.users += 1
    if chunk is not None and chunk != place.desk.chunk:
        host().logger.warning(f"[Memory] {root} is already open with {place.desk.chunk}; {chunk} is not used")

    def give_back() -> None:
        with _lock:
            place.users -= 1
            if place.users or _places.get(key) is not place:
                return
            del _places[key]
        place.desk.close()

    return place.desk, give_back
