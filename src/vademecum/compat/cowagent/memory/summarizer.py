"""`MemoryFlushManager`: conversations become notes, and notes become memory, when the host says so."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from vademecum import Memory
from vademecum.compat.cowagent.chat import HostChat
from vademecum.compat.cowagent.desk import Desk, desk_of
from vademecum.compat.cowagent.host import host
from vademecum.errors import VademecumError
from vademecum.store.files import Document, read_text, rewrite
from vademecum.store.layout import detect, valid_id
from vademecum.store.paths import resolve
from vademecum.types import SHARED, FlushReport
from vademecum.writeback.reply import clean, says_nothing
from vademecum.writeback.transcript import read_messages

#: Above what was written, by the host's reason for it.
_HEADINGS = {
    "overflow": "Context Overflow Recovery",
    "trim": "Trimmed Context",
    "threshold": "Trimmed Context",
    "daily_summary": "Daily Summary",
}
_OTHER_HEADING = "Session Notes"
_FIRST_LINE = "# Daily Memory: {day}\n\n"


class MemoryFlushManager:
    """Summaries of conversations go to the day's page, and daily pages are distilled into MEMORY.md.

    ``llm_model`` may be assigned later; without one, summaries are made by rules and marked as such. Work goes on in a
    thread that ``_last_flush_thread`` names; messages are on disk before a call returns, and what a kill interrupts is
    done when a model is next given, or something is next flushed.
    """

    def __init__(self, workspace_dir: str | os.PathLike[str], llm_model: Any = None) -> None:
        self.workspace_dir = Path(workspace_dir)
        self.memory_dir = self.workspace_dir / "memory"
        self.last_flush_timestamp: datetime | None = None
        self._last_flush_thread: threading.Thread | None = None
        self._desk, give_back = desk_of(workspace_dir)
        self._give_back = weakref.finalize(self, give_back)
        self._give_back.atexit = False  # a model may be at work, and its answer is not waited for
        self._model: Any = None
        if llm_model is not None:
            self.llm_model = llm_model

    @property
    def llm_model(self) -> Any:
        """The host's language model; all managers of the workspace use the one that was given last."""
        return self._model

    @llm_model.setter
    def llm_model(self, model: Any) -> None:
        self._model = model
        self._desk.chat = None if model is None else HostChat(model)
        if model is not None:
            threading.Thread(target=self._resume, name="vademecum-cowagent-resume", daemon=True).start()

    def _resume(self) -> None:
        """Do what was interrupted when the host last ran."""
        try:
            with self._desk.lend() as memory:
                for report in memory.flush_pending():
                    self._told(report, None)
        except VademecumError as error:
            host().logger.error(f"[MemoryFlush] {error}")

    # -- where things are -----------------------------------------------------------------------------------------

    def get_today_memory_file(self, user_id: str | None = None, ensure_exists: bool = False) -> Path:
        """The page of today."""
        if ensure_exists:
            return ensure_daily_memory_file(self.workspace_dir, user_id)
        return _daily_file(self._desk, user_id)

    def get_main_memory_file(self, user_id: str | None = None) -> Path:
        """MEMORY.md."""
        layout = detect(self._desk.root, "workspace")
        return layout.root / layout.long_term(_scope(user_id))

    def get_status(self) -> dict[str, Any]:
        """When something was last written, and where."""
        last = self.last_flush_timestamp
        return {
            "last_flush_timestamp": None if last is None else last.isoformat(),
            "today_file": str(self.get_today_memory_file()),
            "main_file": str(self.get_main_memory_file()),
        }

    # -- flush ----------------------------------------------------------------------------------------------------

    def flush_from_messages(
        self,
        messages: Sequence[Any],
        user_id: str | None = None,
        reason: str = "trim",
        max_messages: int = 0,
        context_summary_callback: Callable[[str], object] | None = None,
    ) -> bool:
        """Summarise messages into the day's page; False if they hold nothing to summarise.

        Messages that were dealt with are not written again, and the callback is given what was written of them, so that
        it can go back into the context. ``max_messages`` takes the last ones only; 0 takes all.
        """
        chosen = list(messages)[-max_messages:] if max_messages > 0 else list(messages)
        if not _holds_news(chosen):
            return False
        stack = ExitStack()
        try:
            memory = stack.enter_context(self._desk.lend(user_id))
            heading = _HEADINGS.get(reason, _OTHER_HEADING)
            future = memory.flush_in_background(chosen, kind="events", heading=heading)
        except BaseException as error:
            stack.close()
            if not isinstance(error, VademecumError):
                raise
            host().logger.error(f"[MemoryFlush] {error}")
            return False

        def work() -> None:
            try:
                with stack:
                    report = future.result()
                self._told(report, context_summary_callback)
                self._resume()
            except Exception as error:  # nobody waits for this thread's result; what was given is kept
                host().logger.error(f"[MemoryFlush] {error}")

        self._last_flush_thread = threading.Thread(target=work, name="vademecum-cowagent-flush", daemon=True)
        self._last_flush_thread.start()
        return True

    def _told(self, report: FlushReport, callback: Callable[[str], object] | None) -> None:
        for notice in report.notices:
            host().logger.warning(f"[MemoryFlush] {notice}")
        if report.written is not None:
            self.last_flush_timestamp = datetime.now().astimezone()
        if report.summary and callback is not None:
            callback(report.summary)

    def create_daily_summary(self, messages: Sequence[Any], user_id: str | None = None) -> bool:
        """`flush_from_messages` for the end of a day; False also when all was summarised before."""
        with self._desk.lend(user_id) as memory:
            if not _holds_news(messages) or _all_known(memory, messages):
                return False
        return self.flush_from_messages(messages, user_id, "daily_summary")

    def write_daily_summary(self, summary: str, user_id: str | None = None, reason: str = "trim") -> bool:
        """Append a summary that the host has to the day's page; False if it says nothing."""
        text = self._clean_summary_output(summary)
        if not text:
            return False
        with self._desk.lend(user_id, origin="flush") as memory:
            at = memory._core.now().strftime("%H:%M")
            memory.remember(f"## {_HEADINGS.get(reason, _OTHER_HEADING)} ({at})\n\n{text}", daily=True)
        self.last_flush_timestamp = datetime.now().astimezone()
        return True

    def _summarize_messages(self, messages: Sequence[Any], max_messages: int = 0) -> str:
        """What a flush would write, as a list; nothing is written."""
        chosen = list(messages)[-max_messages:] if max_messages > 0 else list(messages)
        if not _holds_news(chosen):
            return ""
        with self._desk.lend() as memory:
            return memory.flush(chosen, kind="events", dry_run=True).summary

    @staticmethod
    def _clean_summary_output(raw: str) -> str:
        """A model's answer without what it was not asked for; "" if it says that there is nothing to say."""
        text = clean(raw or "", "")
        return "" if says_nothing(text) else text

    # -- dream ----------------------------------------------------------------------------------------------------

    def deep_dream(self, user_id: str | None = None, lookback_days: int = 1, force: bool = False) -> bool:
        """Distil daily pages into MEMORY.md; whether it was rewritten.

        By schedule (one day back), all pages since the last dream are looked at, however long ago that was. The answer
        is checked before anything is written; one that is refused leaves MEMORY.md as it is.
        """
        if not force and not host().conf("deep_dream_enabled", True):
            return False
        with self._desk.lend(user_id) as memory:
            report = memory.dream(None if lookback_days <= 1 and not force else max(1, lookback_days), force=force)
        if report.state != "done":
            host().logger.info(f"[DeepDream] {report.state}: {report.reason}")
        return report.state == "done"

    def close(self) -> None:
        """Let go of the workspace."""
        self._give_back()


def create_memory_files_if_needed(workspace_dir: str | os.PathLike[str], user_id: str | None = None) -> None:
    """Make MEMORY.md, empty, and the folder of daily pages, where they are not there."""
    root = host().folder(workspace_dir)
    root.mkdir(parents=True, exist_ok=True)
    layout = detect(root, "workspace")
    location = resolve(layout.root, layout.long_term(_scope(user_id)))
    (layout.root / "memory").mkdir(exist_ok=True)
    if not location.file.exists():
        rewrite(layout.root, location, lambda old: old or Document(""), by="agent", why="a new workspace")


def ensure_daily_memory_file(workspace_dir: str | os.PathLike[str], user_id: str | None = None) -> Path:
    """The page of today, made with its title if it is not there."""
    desk, give_back = desk_of(workspace_dir)
    try:
        file = _daily_file(desk, user_id)
    finally:
        give_back()
    layout = detect(desk.root, "workspace")
    location = resolve(layout.root, file.relative_to(layout.root).as_posix())
    if not location.file.exists():
        first = Document(_FIRST_LINE.format(day=file.stem))
        rewrite(layout.root, location, lambda old: old or first, by="agent", why="a new day")
    read_text(location)
    return file


def _daily_file(desk: Desk, user_id: str | None) -> Path:
    with desk.lend(user_id) as memory:
        day = memory._core.today()
    layout = detect(desk.root, "workspace")
    return layout.root / layout.daily(day, _scope(user_id))


def _scope(user_id: str | None) -> str:
    return SHARED if user_id is None else f"user:{valid_id(user_id)}"


def _holds_news(messages: Sequence[Any]) -> bool:
    """Whether anybody said anything that was not put in by a scheduler."""
    given = [message for message in messages if isinstance(message, Mapping)]
    return any(not message.scheduled for message in read_messages(given))


def _all_known(memory: Memory, messages: Sequence[Any]) -> bool:
    job = memory._job(messages, "events", None, None)
    ledger = memory._flusher().ledger
    known = ledger.known(job) if ledger.exists() else frozenset()
    return all(message.scheduled or message.id in known for message in job.messages)
