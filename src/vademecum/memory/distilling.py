"""The part of `Memory` that lets conversations become notes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Literal, TypeAlias

from vademecum.config import environment
from vademecum.errors import UsageError, VademecumError, shown
from vademecum.history import Conversations, Session, owner_of
from vademecum.memory import arguments
from vademecum.memory.core import Core
from vademecum.ports import ChatModel
from vademecum.providers.chat import ChatResolution, resolve_chat
from vademecum.settings import ChatSettings, Settings
from vademecum.store.layout import home
from vademecum.text.redact import Redactor
from vademecum.types import DreamReport, FlushReport, Scope, Viewer
from vademecum.writeback.dream import Dreamer
from vademecum.writeback.flush import Flusher
from vademecum.writeback.ledger import Job
from vademecum.writeback.schedule import Night, Schedule, time_of_day
from vademecum.writeback.transcript import read_messages

FlushKind: TypeAlias = Literal["facts", "events"]
FLUSH_KINDS: tuple[FlushKind, ...] = ("facts", "events")
_HEADINGS: dict[FlushKind, str] = {"facts": "Facts", "events": "Session notes"}
_DAILY_SUMMARY = "Daily summary"
_LONGEST_NAME = 200
_MOST_DAYS = 3650


class Chat:
    """The language model of one memory, made when it is first needed and then kept: it learns what its server takes."""

    def __init__(self, settings: ChatSettings, given: ChatModel | None) -> None:
        """``given`` takes the place of the model of the settings, and is not closed with it."""
        self._settings = settings
        self._given = given
        self._made: ChatResolution | None = None

    def found(self) -> ChatResolution:
        """The model, or why there is none."""
        if self._given is not None:
            return ChatResolution(self._given, "given by the program")
        if self._made is None:
            self._made = resolve_chat(self._settings, environment())
        return self._made

    def close(self) -> None:
        """Close its connections."""
        close = getattr(None if self._made is None else self._made.model, "close", None)
        if close is not None:
            close()


class Distilling:
    """What `Memory` makes of conversations. Everything lands in the viewer's own pages, with origin "flush"."""

    settings: Settings
    _core: Core
    _viewer: Viewer
    _chat: Chat

    def flush(
        self,
        messages: Sequence[object],
        *,
        kind: FlushKind = "facts",
        heading: str | None = None,
        session: str | None = None,
        dry_run: bool = False,
    ) -> FlushReport:
        """Write what a conversation holds that must outlive it into today's page, and wait for it.

        ``messages`` are the original ones, in the shapes of OpenAI, Anthropic or plain role and content; give each an
        "id" where there is one. ``kind``: "facts", before a context is compacted, or "events", for a summary of what
        was cut away or of a day. ``heading`` goes above them, with the time. ``session`` names the conversation.

        Messages that were flushed before are not written again; the report then holds what was written of them. The
        messages are on disk before any model is asked: what a kill, a full disk or a lock keeps from being written is
        done when the memory is next opened. Raises UsageError for messages of another shape, and StoreError kinds.
        """
        job, flusher = self._job(messages, kind, heading, session), self._flusher()
        if dry_run:
            return flusher.propose(job)
        flusher.accept(job)
        return flusher.run(job)

    def flush_in_background(
        self,
        messages: Sequence[object],
        *,
        kind: FlushKind = "facts",
        heading: str | None = None,
        session: str | None = None,
        callback: Callable[[FlushReport], object] | None = None,
    ) -> Future[FlushReport]:
        """`flush` in a thread; the messages are on disk when this returns. ``callback`` gets the report, if any."""
        job, flusher = self._job(messages, kind, heading, session), self._flusher()
        flusher.accept(job)
        future: Future[FlushReport] = Future()

        def work() -> None:
            try:
                report = flusher.run(job)
                if callback is not None:
                    callback(report)
                future.set_result(report)
            except BaseException as error:  # carried over to whoever waits
                future.set_exception(error)

        threading.Thread(target=work, name="vademecum-flush", daemon=True).start()
        return future

    def flush_pending(self) -> tuple[FlushReport, ...]:
        """Do what was given to be flushed and is not done yet; what still cannot be written stays, as "failed"."""
        return self._flusher().resume()

    def dream(self, days: int | None = None, *, dry_run: bool = False, force: bool = False) -> DreamReport:
        """Distil the daily pages that are new, or have changed, since the last dream into MEMORY.md.

        Looks at those of the last ``days`` days (1 to 3650), by default at all since the last dream. What a model
        makes of them is checked before anything is written, and a diary in ``memory/dreams`` says what was done; `undo`
        takes it back. Once a day; ``force`` makes another dream, of the same pages if need be, and also where dreams
        are switched off. ``dry_run`` only shows what would become of MEMORY.md. Raises UsageError and StoreError kinds.
        """
        if days is not None and arguments.positive("days", days) > _MOST_DAYS:
            raise UsageError(f"days = {shown(days)}: expected a whole number from 1 to {_MOST_DAYS}")
        return self._dreamer(home(self._viewer)).run(days, dry_run=dry_run, force=force)

    def schedule(self, at: str = "23:50", *, jitter_s: float = 300.0) -> Schedule:
        """Do the nightly work at that time of the user's day until what is returned is stopped.

        The work: what is pending is flushed, sessions that went on since the last night are summarised, and the pages
        are dreamt of; for every user and agent with a folder here if the memory is opened for nobody in particular. A
        night that the machine slept through is caught up with. Several processes may do this: one of them works.
        Raises UsageError.
        """
        return Schedule(self._core.root, time_of_day(at), self._core.now, self.nightly, jitter_s=jitter_s)

    def nightly(self) -> tuple[DreamReport, ...]:
        """The work of one night, now: see `schedule`. What cannot be done for one of them is "failed", and says why."""
        self.flush_pending()
        everybody = self._core.layout.owners() if self._viewer == Viewer() else ()
        viewers = (self._viewer, *everybody)
        reports: list[DreamReport] = []
        for viewer in viewers:
            try:
                self._summarise_sessions(viewer)
                if self.settings.dream.enabled:
                    reports.append(self._dreamer(home(viewer)).run(None))
            except VademecumError as error:
                reports.append(DreamReport("failed", f"{home(viewer)}: {error}"))
        return tuple(reports)

    def _summarise_sessions(self, viewer: Viewer) -> None:
        history = Conversations(self._core.history, owner_of(viewer))
        if not history.ids():
            return
        night = Night(self._core.root)
        for session in _every_session(history):
            before = night.summarised(session.uid)
            if session.next_seq - 1 <= before:
                continue
            fresh = history.messages_after(session.id, before)
            said = [{**message.body, "id": message.id, "scheduled": message.scheduled} for message in fresh]
            if read_messages(said):
                job = self._job(said, "events", _DAILY_SUMMARY, session.uid, viewer)
                flusher = self._flusher()
                flusher.accept(job)
                flusher.run(job)
            night.note_summarised(session.uid, session.next_seq - 1)

    def _dreamer(self, scope: Scope) -> Dreamer:
        core, found = self._core, self._chat.found()
        return Dreamer(
            core.layout,
            scope,
            self.settings.dream,
            self.settings.flush.domain,
            found.model,
            found.reason,
            Redactor(self.settings.redact),
            core.today(),
            core.index_file,
        )

    def _resume_flushes(self) -> None:
        """At open: what a kill interrupted goes on in a thread of its own; damage keeps nobody out."""
        flusher = self._flusher()
        with suppress(VademecumError):
            if not flusher.ledger.pending():
                return
            threading.Thread(target=flusher.resume, name="vademecum-flush", daemon=True).start()

    def _job(
        self,
        messages: Sequence[object],
        kind: str,
        heading: str | None,
        session: str | None,
        viewer: Viewer | None = None,
    ) -> Job:
        chosen = arguments.choice("kind", kind, FLUSH_KINDS)
        title = _HEADINGS[chosen] if heading is None else _name("heading", heading)
        time_of_day = self._core.now().strftime("%H:%M")
        path = self._core.layout.alias("daily", viewer or self._viewer, self._core.today())
        read = read_messages(messages)
        if not read:
            raise UsageError("messages holds nothing that anybody said: there is nothing to flush")
        named = None if session is None else _name("session", session)
        return Job(chosen, path, f"{title} ({time_of_day})", named, read)

    def _flusher(self) -> Flusher:
        core, found = self._core, self._chat.found()
        return Flusher(
            core.layout,
            self.settings.flush,
            found.model,
            found.reason,
            Redactor(self.settings.redact),
            time.time,
            core.index_file,
        )


def _every_session(history: Conversations) -> Iterator[Session]:
    page, number = history.sessions(size=200), 1
    yield from page.sessions
    while page.more:
        number += 1
        page = history.sessions(number=number, size=200)
        yield from page.sessions


def _name(what: str, value: object) -> str:
    text = " ".join(arguments.text(what, value).replace("\0", " ").split())
    if not 0 < len(text) <= _LONGEST_NAME:
        raise UsageError(f"{what} = {shown(value)}: expected a line of 1 to {_LONGEST_NAME} characters")
    return text
