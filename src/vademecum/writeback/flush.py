"""Flush: what a conversation holds that must outlive it becomes a section of the daily page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from vademecum.errors import MissingFileError, ProviderError, ProviderReplyError, VademecumError
from vademecum.ports import ChatModel
from vademecum.settings import FlushSettings
from vademecum.store.files import page_bytes, read_text
from vademecum.store.journal import Journal
from vademecum.store.layout import Layout
from vademecum.store.paths import resolve
from vademecum.store.remember import remember
from vademecum.store.root import PRIVATE
from vademecum.text.redact import Redactor
from vademecum.types import FlushReport, Written
from vademecum.writeback import rules
from vademecum.writeback.ledger import Job, Ledger, Outcome, Source
from vademecum.writeback.prompts import Language, compose, language_of
from vademecum.writeback.reply import clean, items, news, says_nothing
from vademecum.writeback.transcript import Message, Role, rendered, windows

#: How long one flush of a conversation waits for another one of it.
_WAIT_SECONDS = 600.0
_KEEP_SECONDS = 90 * 86_400.0
_LABELS: dict[Language, dict[Role, str]] = {
    "en": {"user": "User", "assistant": "Assistant", "tool": "Tool result"},
    "zh": {"user": "用户", "assistant": "助手", "tool": "工具结果"},
}
_AGAIN: dict[Language, str] = {
    "en": "Answer with Markdown bullets only, or with the word for nothing.",
    "zh": "只用 Markdown 列表项回答，或者只回答表示没有内容的那个词。",
}
_BY_RULE: dict[Language, str] = {"en": "taken down without a model", "zh": "未经模型整理"}
#: A window whose answer is cut off is halved, but no further than this many estimated tokens.
_SMALLEST_WINDOW = 200


@dataclass(frozen=True, slots=True)
class Flusher:
    """Flushes conversations into the pages of one root.

    ``redactor`` decides about secrets. ``clock`` gives Unix time. ``written`` is told of each page that was
    changed, before anybody is told of the flush. ``no_model`` says why there is no ``chat``.
    """

    layout: Layout
    settings: FlushSettings
    chat: ChatModel | None
    no_model: str
    redactor: Redactor
    clock: Callable[[], float]
    written: Callable[[str], None]

    @property
    def ledger(self) -> Ledger:
        """The record of flushes of this root."""
        return Ledger(self.layout.root)

    def accept(self, job: Job) -> Outcome | None:
        """Keep a job so that it survives this process; returns what came of it if it is done already."""
        return self.ledger.add(job, self.clock())

    def run(self, job: Job) -> FlushReport:
        """Do an accepted job, once whoever calls: the same job done by somebody else meanwhile gives the same report.

        A model that is missing, down or unusable is replaced by rules and named in the report. Raises StoreError kinds
        when the page or the ledger cannot be written; the job is then kept for another time.
        """
        with self.ledger.alone(job, _WAIT_SECONDS):
            done = self.ledger.outcome(job)
            if done is not None:
                return _report(done, 0, ())
            known = self.ledger.known(job)
            fresh = [message for message in job.messages if message.id not in known and not message.scheduled]
            notices: tuple[str, ...] = ()
            if fresh:
                outcome, notices = self._distil(job, fresh)
            else:
                outcome = Outcome("known", self.ledger.items_about(job))
            self.ledger.finish(job, outcome)
            self.ledger.forget(self.clock() - _KEEP_SECONDS)
        return _report(outcome, len(fresh), notices)

    def resume(self) -> tuple[FlushReport, ...]:
        """Do what was accepted and not done, oldest first; what still cannot be done stays, and is reported."""
        reports: list[FlushReport] = []
        for job in self.ledger.pending():
            try:
                reports.append(self.run(job))
            except VademecumError as error:
                reports.append(FlushReport(None, (), len(job.messages), "failed", (str(error),)))
        return tuple(reports)

    def propose(self, job: Job) -> FlushReport:
        """What ``run`` would write for a job that nobody has accepted; nothing is written or kept."""
        fresh = [message for message in job.messages if not message.scheduled]
        language = self._language(fresh)
        found, source, notices = self._items(job.kind, language, fresh)
        return FlushReport(None, self._news(job, found), len(fresh), source, notices)

    def _distil(self, job: Job, fresh: Sequence[Message]) -> tuple[Outcome, tuple[str, ...]]:
        already = self._already_written(job)
        if already is not None:
            return already, ("it had been written before a process was killed",)
        language = self._language(fresh)
        found, source, notices = self._items(job.kind, language, fresh)
        found = self._news(job, found)
        if not found:
            return Outcome("nothing", ()), notices
        mark = f" ({_BY_RULE[language]})" if source == "rules" else ""
        section = f"## {job.heading}{mark}\n\n" + "\n".join(f"- {item}" for item in found)
        place = remember(self.layout, section, job.path, by="flush", why=_why(job), redactor=self.redactor)
        self.written(place.path)
        return Outcome(source, found, place.path, place.start_line, place.end_line), notices

    def _redacted(self, text: str) -> str:
        return self.redactor.cleaned(text, "flush")

    def _already_written(self, job: Job) -> Outcome | None:
        """What a process wrote that was killed before it could say so; the journal knows."""
        root = self.layout.root
        with Journal(root) as journal:
            for entry in journal.entries(job.path, partial(page_bytes, root)):
                if entry.why == _why(job) and entry.after is not None:
                    before = "" if entry.before is None else journal.content(entry.before).decode()
                    added = journal.content(entry.after).decode()[len(before) :]
                    return Outcome("model", items(added), job.path)
        return None

    def _language(self, messages: Sequence[Message]) -> Language:
        if self.settings.language != "auto":
            return self.settings.language
        return language_of("\n".join(message.text for message in messages if message.role == "user"))

    def _items(
        self, kind: str, language: Language, messages: Sequence[Message]
    ) -> tuple[tuple[str, ...], Source, tuple[str, ...]]:
        """The items of a conversation, who made them, and notices."""
        reason = self.no_model
        if self.chat is not None:
            try:
                return self._ask_all(self.chat, kind, language, messages), "model", ()
            except ProviderError as error:
                reason = str(error)
        found = rules.summarise(messages, self._redacted)
        return found, "rules", (f"summarised by rules and not by a model: {reason}",)

    def _ask_all(self, chat: ChatModel, kind: str, language: Language, messages: Sequence[Message]) -> tuple[str, ...]:
        prompt = compose(kind, language, self.settings.domain, self.layout.root / PRIVATE / "prompts")
        lines = [self._redacted(rendered(message, _LABELS[language])) for message in messages]
        found: list[str] = []
        for window in windows(lines, self.settings.window_tokens):
            found += self._ask(chat, prompt, window, language)
        return tuple(self._redacted(item) for item in found)

    def _ask(self, chat: ChatModel, prompt: str, window: str, language: Language, again: bool = False) -> list[str]:
        system = f"{prompt}\n\n{_AGAIN[language]}" if again else prompt
        request = [{"role": "system", "content": system}, {"role": "user", "content": window}]
        reply = chat.complete(request, max_tokens=self.settings.max_tokens)
        if reply.finish_reason == "length":
            halves = windows(window.split("\n\n"), max(_SMALLEST_WINDOW, len(window) // 8))
            if len(halves) > 1:
                return [item for half in halves for item in self._ask(chat, prompt, half, language)]
        text = clean(reply.text, system)
        found = list(items(text))
        if reply.finish_reason == "length":
            found = found[:-1]  # the last one ends somewhere
        if found or says_nothing(text):
            return found
        if again:
            raise ProviderReplyError(f"the model's answer is not a list: {text[:80]!r}")
        return self._ask(chat, prompt, window, language, again=True)

    def _news(self, job: Job, found: Sequence[str]) -> tuple[str, ...]:
        known: list[str] = []
        for path in (job.path, self.layout.long_term(self.layout.classify(job.path).scope)):
            try:
                known += read_text(resolve(self.layout.root, path)).text.splitlines()
            except MissingFileError:
                continue
        return news(found, known)


def _why(job: Job) -> str:
    return f"flush {job.id}"


def _report(outcome: Outcome, fresh: int, notices: tuple[str, ...]) -> FlushReport:
    place = None
    if outcome.path is not None and outcome.start_line:
        place = Written(outcome.path, outcome.start_line, outcome.end_line)
    return FlushReport(place, outcome.items, fresh, outcome.source, notices)
