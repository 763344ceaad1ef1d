"""`Memory`: what a host program holds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Self

from vademecum.config import environment, load_settings
from vademecum.errors import (
    IndexCorruptError,
    IndexUnavailableError,
    PathError,
    SettingsError,
    StoreError,
    UsageError,
)
from vademecum.memory.core import Core, acquire
from vademecum.memory.filters import conditions
from vademecum.memory.status import take_status
from vademecum.ports import Embedder, Progress
from vademecum.search import Request, search
from vademecum.settings import Fusion, Settings
from vademecum.store.context import gather
from vademecum.store.excerpt import read_lines
from vademecum.store.layout import valid_id
from vademecum.store.paths import resolve
from vademecum.store.remember import remember
from vademecum.store.root import create as create_root
from vademecum.types import Context, Excerpt, SearchResult, Status, SyncReport, Viewer, Where, Written

#: For ``wait_ms``: wait for the index however long it takes.
WAIT_FULLY = -1


class Memory:
    """A folder of Markdown that can be searched. Safe to share between threads; use it as a context manager.

    ``user`` and ``agent`` say for whom it is opened; they come from the host program. A viewer reads what is shared
    and its own; what it remembers goes to its own files.
    """

    def __init__(self, core: Core, release: Callable[[], None], settings: Settings, viewer: Viewer) -> None:
        """Use `Memory.open`."""
        self._core = core
        self._release: Callable[[], None] | None = release
        self.settings = settings
        self._viewer = viewer

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        *,
        user: str | None = None,
        agent: str | None = None,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        create: bool = True,
    ) -> Self:
        """Open the memory at ``root``, made if it does not exist and ``create`` is true.

        ``settings`` default to the configuration files and the environment. ``embedder`` replaces the configured one.
        Raises StoreError for a folder that is missing or no folder, SettingsError and UsageError. An index that cannot
        be opened raises nothing: searches then answer empty and say why.
        """
        viewer = Viewer(
            None if user is None else valid_id(user),
            None if agent is None else valid_id(agent),
        )
        folder = Path(root).expanduser()
        if create and not folder.exists():
            create_root(folder)
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist; `vademecum init` makes a memory"
            raise StoreError(f"{folder}: {what}")
        real = Path(os.path.realpath(folder))
        settings = settings or load_settings(real, environment())
        core, release = acquire(real, settings, embedder, environment())
        return cls(core, release, settings, viewer)

    @property
    def root(self) -> Path:
        """The real path of the folder."""
        return self._core.root

    # -- writing ------------------------------------------------------------------------------------------------

    def remember(self, text: str, *, daily: bool = False, file: str | None = None) -> Written:
        """Append ``text`` to MEMORY.md, to today's daily file, or to ``file``; returns where it stands.

        A single plain line becomes a list item. The text is searchable in the next call. Raises UsageError for
        blank text, PathError for a file outside the viewer's memory, and StoreError kinds when writing fails.
        """
        if daily and file is not None:
            raise UsageError("daily and file are both given: choose one")
        target = file if file is not None else "daily" if daily else "long_term"
        written = remember(self._core.layout, text, self._own_path(target))
        self._core.index_file(written.path)
        return written

    # -- reading ------------------------------------------------------------------------------------------------

    def get(self, path: str, *, start: int | None = None, lines: int | None = None) -> Excerpt:
        """``lines`` lines of a file from line ``start`` (from 1) on; ``path`` may be "long_term" or "daily".

        Raises PathError, MissingFileError, UnreadableFileError or UsageError.
        """
        return read_lines(self._core.root, self._own_path(path), 1 if start is None else start, lines)

    def context(self, *, max_tokens: int | None = None) -> Context:
        """What an agent should know at the start of a session: evergreen, then today, then yesterday.

        Never longer than ``max_tokens`` by our estimate; says what was cut.
        """
        budget = self.settings.context.max_tokens if max_tokens is None else max_tokens
        return gather(self._core.layout, self._viewer, self._core.today(), budget)

    def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        since: str | date | None = None,
        until: str | date | None = None,
        path: str | None = None,
        kind: str | Iterable[str] | None = None,
        tag: str | None = None,
        fusion: Fusion | None = None,
        decay: bool | None = None,
        mmr: bool | None = None,
        wait_ms: int | None = None,
    ) -> SearchResult:
        """The most relevant chunks, best first. Unset arguments take their setting.

        The index is first brought up to date, for at most ``wait_ms`` milliseconds (-1: however long it takes,
        0: the disk is not even looked at); ``fresh`` says whether that was enough. A broken index or provider raises
        nothing: see ``disabled``, ``channels`` and ``notices``. Raises UsageError for arguments that cannot be meant.
        """
        began = time.perf_counter()
        today = self._core.today()
        where = conditions(self._viewer, today, since=since, until=until, path=path, kind=kind, tag=tag)
        request = self._request(query, where, today, max_results, min_score, fusion, decay, mmr)
        wait = self.settings.search.wait_ms if wait_ms is None else wait_ms
        result = self._answer(request, None if wait == WAIT_FULLY else max(0, wait) / 1000)
        return replace(result, elapsed_ms=(time.perf_counter() - began) * 1000)

    def _request(
        self,
        query: str,
        where: Where,
        today: date,
        max_results: int | None,
        min_score: float | None,
        fusion: Fusion | None,
        decay: bool | None,
        mmr: bool | None,
    ) -> Request:
        given = {"max_results": max_results, "min_score": min_score, "fusion": fusion}
        settings = self.settings
        if not isinstance(query, str):
            raise UsageError(f"query = {query!r}: expected a text")
        try:
            chosen = replace(settings.search, **{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]
        except SettingsError as error:
            raise UsageError(str(error).removeprefix("search.")) from error
        return Request(
            query,
            where,
            today,
            chosen,
            settings.decay if decay is None else replace(settings.decay, enabled=decay),
            settings.mmr if mmr is None else replace(settings.mmr, enabled=mmr),
        )

    def _answer(self, request: Request, wait_s: float | None) -> SearchResult:
        if not request.query.strip():
            return SearchResult(request.query, (), True, {}, 0.0, ("the query is empty: nothing was searched",))
        index = self._core.index
        try:
            try:
                return self._search_once(request, wait_s)
            except IndexCorruptError:
                self._core.heal(index)
                return self._search_once(request, wait_s)
        except (IndexUnavailableError, StoreError) as error:
            return _disabled(request.query, str(error))

    def _search_once(self, request: Request, wait_s: float | None) -> SearchResult:
        refreshed = self._core.refresh(wait_s)
        answer = search(self._core.open_index(), self._core.query_vector, request)
        return SearchResult(
            request.query,
            answer.hits,
            refreshed.fresh,
            answer.channels,
            0.0,
            refreshed.notices,
            None,
            answer.explanation,
        )

    # -- upkeep -------------------------------------------------------------------------------------------------

    def sync(self, *, progress: Progress | None = None) -> SyncReport:
        """Bring the index up to the files and wait for it. Files and texts that fail are named in the report."""
        return self._core.sync(progress)

    def rebuild(self, *, progress: Progress | None = None) -> SyncReport:
        """Write every row of the index anew from Markdown; old rows answer until theirs is replaced. Vectors stay."""
        self._core.distrust()
        return self._core.sync(progress)

    def status(self) -> Status:
        """Where everything is, how much of it is indexed, and what is wrong. Recounts the disk."""
        return take_status(self._core)

    def close(self) -> None:
        """Let go of the root; the last of its memories in this process releases files and threads."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- paths --------------------------------------------------------------------------------------------------

    def _own_path(self, target: str) -> str:
        """``target`` or the file an alias stands for, if the viewer may touch it."""
        layout = self._core.layout
        path = resolve(layout.root, layout.alias(target, self._viewer, self._core.today())).path
        if layout.classify(path).scope not in self._viewer.scopes:
            raise PathError(f"{target!r}: belongs to somebody else's memory")
        return path


def init(root: str | os.PathLike[str]) -> Path:
    """Make ``root`` a memory; nothing that exists is changed. Returns its real path. Raises WriteError."""
    return create_root(Path(root).expanduser()).root


def _disabled(query: str, reason: str) -> SearchResult:
    state = f"off: {reason}"
    return SearchResult(query, (), False, {"keyword": state, "vector": state}, 0.0, (), reason)
