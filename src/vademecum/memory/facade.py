"""`Memory`: what a host program holds."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Self

from vademecum.config import environment, load_settings
from vademecum.errors import (
    IndexCorruptError,
    IndexReplacedError,
    IndexUnavailableError,
    StoreError,
    UsageError,
    shown,
)
from vademecum.history import Conversations, Salvaged, owner_of, salvage
from vademecum.memory import arguments
from vademecum.memory.asking import asked
from vademecum.memory.core import Core, acquire
from vademecum.memory.distilling import Chat, Distilling
from vademecum.memory.paging import Paging
from vademecum.memory.reading import Reading
from vademecum.memory.status import take_status
from vademecum.memory.tending import Tending
from vademecum.memory.watching import Watch
from vademecum.ports import ChatModel, Embedder, Progress
from vademecum.search import Answer, Request, search
from vademecum.settings import Fusion, Settings
from vademecum.store.context import gather
from vademecum.store.layout import valid_id
from vademecum.store.origins import UNKNOWN
from vademecum.store.prompt import LANGUAGES, Language, system_prompt
from vademecum.store.root import PRIVATE, UNFINISHED
from vademecum.store.root import create as create_root
from vademecum.text.redact import Redactor
from vademecum.types import (
    ORIGINS,
    Context,
    Excerpt,
    Origin,
    SearchResult,
    Status,
    SyncReport,
    Viewer,
    WatchRound,
)

#: A search meets at most this many indexes that turn out to be damaged or closed by somebody who mends them.
_TRIES = 3


class Memory(Paging, Distilling, Tending):
    """A folder of Markdown that can be searched. Safe to share between threads; use it as a context manager.

    ``user`` and ``agent`` say for whom it is opened; they come from the host program. A viewer reads what is shared
    and its own; what it remembers goes to its own files.
    """

    def __init__(
        self,
        core: Core,
        release: Callable[[], None],
        settings: Settings,
        viewer: Viewer,
        origin: Origin = "person",
        chat: ChatModel | None = None,
    ) -> None:
        """Use `Memory.open`."""
        self._core = core
        # Also when the object is dropped, and at exit: work in daemon threads then stops between two batches.
        self._chat = Chat(settings.chat, chat)
        self._release = weakref.finalize(self, _let_go, self._chat, release)
        self.settings = settings
        self._viewer = viewer
        self._reading = Reading(core.layout, core.places, core.sessions, viewer, core.today)
        self._origin = origin
        self._redactor = Redactor(settings.redact)
        self._watches: list[Watch] = []

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
        origin: Origin = "person",
        chat: ChatModel | None = None,
        resume: bool = True,
    ) -> Self:
        """Open the memory at ``root``, made if it does not exist and ``create`` is true.

        ``settings`` default to the configuration files and the environment. ``embedder`` replaces the configured one.
        ``origin`` says on whose behalf pages will be written: "agent" for tools that a model calls. ``chat`` replaces
        the language model of the settings. ``resume`` is for hosts that have no language model yet: without it, flushes
        that were interrupted wait for `flush_pending`.
        Raises StoreError for a folder that is missing or no folder, SettingsError and UsageError. An index that cannot
        be opened raises nothing: searches then answer empty and say why.
        """
        viewer = Viewer(
            None if user is None else valid_id(arguments.text("user", user)),
            None if agent is None else valid_id(arguments.text("agent", agent)),
        )
        if not isinstance(settings, Settings | None):
            raise UsageError(f"settings = {shown(settings)}: expected Settings")
        origin = arguments.choice("origin", origin, ORIGINS)
        embedder = arguments.embedder(embedder)
        folder = arguments.root_folder(root)
        if create and not folder.exists():
            create_root(folder)
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist; `vademecum init` makes a memory"
            raise StoreError(f"{folder}: {what}")
        real = Path(os.path.realpath(folder))
        settings = settings or load_settings(real, environment())
        core, release = acquire(real, settings, embedder, environment())
        memory = cls(core, release, settings, viewer, origin, chat)
        if arguments.flag("resume", resume):
            memory._resume_flushes()
        if os.path.lexists(real / PRIVATE / UNFINISHED):
            memory.knowledge.finish()
        return memory

    @property
    def root(self) -> Path:
        """The real path of the folder."""
        return self._core.root

    @property
    def viewer(self) -> Viewer:
        """For whom it is opened."""
        return self._viewer

    @property
    def history(self) -> Conversations:
        """The conversations of whom the memory is opened for; shared ones if it is for nobody in particular."""
        return Conversations(self._core.history, owner_of(self._viewer))

    def repair_history(self) -> Salvaged:
        """Save what can be read of a damaged history, everybody's; the damaged file is kept. See `salvage`."""
        return salvage(self._core.history)

    # -- reading ------------------------------------------------------------------------------------------------

    def get(self, path: str, *, start: int | None = None, lines: int | None = None) -> Excerpt:
        """``lines`` lines of a file from line ``start`` (from 1) on; ``path`` may be "long_term" or "daily".

        For the path of a conversation, as a hit tells it: what was said there, lines being those of a transcript, or
        the numbers of messages or exchanges. Raises PathError, MissingFileError, UnreadableFileError, HistoryError or
        UsageError.
        """
        first = 1 if start is None else arguments.positive("start", start)
        count = None if lines is None else arguments.positive("lines", lines)
        return self._reading.excerpt(path, first, count)

    def pages(self) -> tuple[str, ...]:
        """The paths of all pages on disk that this viewer may read, sorted. Raises StoreError."""
        return self._reading.pages()

    def context(self, *, max_tokens: int | None = None) -> Context:
        """What an agent should know at the start of a session: evergreen, then today, then yesterday.

        Never longer than ``max_tokens`` by our estimate; says what was cut.
        """
        budget = (
            self.settings.context.max_tokens if max_tokens is None else arguments.positive("max_tokens", max_tokens)
        )
        return gather(self._core.layout, self._viewer, self._core.today(), budget, self.settings.context)

    def prompt(self, language: Language = "en", *, max_tokens: int | None = None) -> Context:
        """A section for an agent's system prompt: when to search, what to remember, and the `context`.

        ``language`` is "en" or "zh"; ``max_tokens`` is for the context alone.
        """
        known = arguments.choice("language", language, LANGUAGES)
        return system_prompt(self.context(max_tokens=max_tokens), self._core.today(), known)

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
        heading: str | None = None,
        fusion: Fusion | None = None,
        decay: bool | None = None,
        mmr: bool | None = None,
        wait_ms: int | None = None,
    ) -> SearchResult:
        """The most relevant chunks, best first. Unset arguments take their setting.

        The index is first brought up to date, for at most ``wait_ms`` milliseconds (-1: however long it takes,
        0: the disk is not even looked at); ``fresh`` says whether that was enough. A ``wait_ms`` above 0 given here
        also bounds the wait for the question's vector; after it, words alone answer. A broken index or provider raises
        nothing: see ``disabled``, ``channels`` and ``notices``. Raises UsageError for arguments that cannot be meant.
        """
        began = time.perf_counter()
        request = asked(
            self._core,
            self._viewer,
            self.settings,
            query,
            max_results=max_results,
            min_score=min_score,
            since=since,
            until=until,
            path=path,
            kind=kind,
            tag=tag,
            heading=heading,
            fusion=fusion,
            decay=decay,
            mmr=mmr,
        )
        wait_s = arguments.seconds("wait_ms", self.settings.search.wait_ms if wait_ms is None else wait_ms)
        if wait_ms is not None and wait_s:
            request = replace(request, vector_s=wait_s)
        result = self._answer(request, wait_s)
        return replace(result, elapsed_ms=(time.perf_counter() - began) * 1000)

    def _answer(self, request: Request, wait_s: float | None) -> SearchResult:
        if not request.query.strip():
            return SearchResult(request.query, (), True, {}, 0.0, ("the query is empty: nothing was searched",))
        for tries_left in reversed(range(_TRIES)):
            index = self._core.index
            try:
                return self._search_once(request, wait_s)
            except (IndexCorruptError, IndexReplacedError) as error:
                if not tries_left:
                    return _disabled(request.query, str(error))
                try:
                    self._core.heal(index)
                except StoreError as away:
                    return _disabled(request.query, str(away))
            except (IndexUnavailableError, StoreError) as error:
                # Unless another thread has just opened the index anew.
                if not tries_left or self._core.index is index:
                    return _disabled(request.query, str(error))
        raise AssertionError("the last try returns")

    def _search_once(self, request: Request, wait_s: float | None) -> SearchResult:
        index = self._core.open_index()
        for once_more in (True, False):
            refreshed = self._core.refresh(wait_s)
            # The same index, so that an answer never comes from one that was opened anew and is still empty.
            answer = search(index, self._core.embedding.query_vector, request)
            gone = {hit.path for hit in answer.hits if self._core.gone(hit)}
            if not gone or not once_more or wait_s == 0:
                break
        notices = (*self._reading.visible(refreshed.notices), *answer.notices, *_why_so_few(request, answer))
        notices += tuple(f"{path}: is no longer there" for path in sorted(gone))
        hits = tuple(hit for hit in answer.hits if hit.path not in gone)
        try:
            hits = self._reading.trust.hits(hits)
        except StoreError as error:
            hits = tuple(replace(hit, origin=UNKNOWN) for hit in hits)
            notices += (f"who wrote what was found cannot be told: {error}",)
        return SearchResult(
            query=request.query,
            hits=hits,
            fresh=refreshed.fresh and not gone,
            channels=answer.channels,
            elapsed_ms=0.0,
            notices=notices,
            explanation=answer.explanation,
        )

    # -- upkeep -------------------------------------------------------------------------------------------------

    def sync(self, *, progress: Progress | None = None, switch_now: bool = False) -> SyncReport:
        """Bring the index up to the files and wait for it. Files and texts that fail are named in the report.

        After a change of the embedding model, the old model's vectors answer until the new one's are complete;
        ``switch_now`` does not wait for that, and raises ProviderError if there is no model to switch to.
        """
        return self._shown(self._core.sync(progress, arguments.flag("switch_now", switch_now)))

    def rebuild(self, *, progress: Progress | None = None, switch_now: bool = False) -> SyncReport:
        """Write every row of the index anew from Markdown; old rows answer until theirs is replaced. Vectors stay.

        ``switch_now`` as for `sync`.
        """
        self._core.distrust()
        return self._shown(self._core.sync(progress, arguments.flag("switch_now", switch_now)))

    def _shown(self, report: SyncReport) -> SyncReport:
        failed = tuple((path, reason) for path, reason in report.failed if self._may_read(path))
        notices = tuple((path, text) for path, text in report.notices if self._may_read(path))
        return replace(report, failed=failed, notices=notices)

    def watch(self, told: Callable[[WatchRound], None] | None = None) -> Watch:
        """Have the index follow the folder until what is returned, or the memory, is closed.

        Memories of one root in a process share one watcher. ``told`` is called, from threads of its own, with what
        was found and with what went wrong. Where the system tells of no changes, the folder is looked at regularly,
        and `Watch.notices` say so. While changes are told of, searches need not look at the folder themselves.
        """
        this = weakref.ref(self)

        def tell(news: WatchRound) -> None:
            memory = this()
            if told is not None and memory is not None:
                told(replace(news, report=memory._shown(news.report)))

        watch = Watch(self, self._core.watching, tell, self.settings.watch)
        self._watches = [watch, *(other for other in self._watches if other.mode != "off")]
        return watch

    def status(self) -> Status:
        """Where everything is, how much of it is indexed, and what is wrong. Recounts the disk."""
        return take_status(self._core, self._reading.visible)

    def close(self) -> None:
        """Let go of the root; the last of its memories in this process releases files and threads."""
        for watch in self._watches:
            watch.close()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _let_go(chat: Chat, release: Callable[[], None]) -> None:
    chat.close()
    release()


def init(root: str | os.PathLike[str]) -> Path:
    """Make ``root`` a memory; nothing that exists is changed. Returns its real path. Raises StoreError, UsageError."""
    return create_root(arguments.root_folder(root)).root


def _why_so_few(request: Request, answer: Answer) -> tuple[str, ...]:
    """No silence: what kept the candidates out."""
    found = answer.explanation
    if left_out := found["sessions_left_out"]:
        share = f"kinds.session_share is {request.kinds.session_share:g}"
        return (f"{left_out} more of conversations would have had room ({share}); kind='session' shows them",)
    if answer.hits or not request.search.max_results:
        return ()
    if found["fused"]:
        count, noun = found["fused"], "candidate was" if found["fused"] == 1 else "candidates were"
        return (f"{count} {noun} below min_score {request.search.min_score:g}",)
    if any(condition.field != "scope" for condition in request.where):
        return ("nothing that the filters let through has to do with the query",)
    return ()


def _disabled(query: str, reason: str) -> SearchResult:
    state = f"off: {reason}"
    return SearchResult(query, (), False, {"keyword": state, "vector": state}, 0.0, (), reason)
