"""Dream: at night, daily notes are distilled into MEMORY.md, and a diary says what was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from hashlib import sha256

from vademecum.errors import (
    ConflictError,
    MissingFileError,
    PathError,
    ProviderError,
    ProviderReplyError,
    UnreadableFileError,
)
from vademecum.ports import ChatModel
from vademecum.settings import DreamSettings
from vademecum.sqlite import exclusive
from vademecum.store.files import Document, append, page_bytes, read_text, rewrite
from vademecum.store.journal import Journal
from vademecum.store.layout import Layout
from vademecum.store.origins import line_key
from vademecum.store.paths import resolve
from vademecum.store.root import PRIVATE
from vademecum.text.estimate import estimate_tokens
from vademecum.text.markdown import split_lines
from vademecum.text.merge import merge, unified
from vademecum.text.redact import MARK, Redactor
from vademecum.types import DreamReport, DreamState, Origin, Scope
from vademecum.writeback import distillate, guard
from vademecum.writeback.database import Database, process_lock
from vademecum.writeback.distillate import Line
from vademecum.writeback.page import Page
from vademecum.writeback.prompts import Language, compose, language_of
from vademecum.writeback.proposals import propose
from vademecum.writeback.reply import says_nothing

#: How often a model is asked again because MEMORY.md was changed meanwhile in the same places.
_TRIES = 3
_REPLY_TOKENS = 8_000
#: Dreams of one day that may come to nothing before only force tries again.
_MOST_ATTEMPTS = 3
_DIARY: dict[Language, tuple[str, str, str]] = {
    "en": ("Taken over", "Dropped", "Left out"),
    "zh": ("新增", "删除", "未采纳"),
}


@dataclass(frozen=True, slots=True)
class Daily:
    """A daily page that was not dreamt of as it is now."""

    path: str
    day: date
    document: Document


@dataclass(slots=True)
class Budget:
    """What a dream may still spend: calls, tokens, money (0 a million tokens: not counted)."""

    settings: DreamSettings
    calls: int = 0
    tokens: int = 0

    def check(self) -> None:
        """Raises RefusedError once it is used up."""
        limits = self.settings
        cost = self.tokens * limits.usd_per_million_tokens / 1e6
        if self.calls >= limits.max_calls or self.tokens >= limits.max_tokens or cost >= limits.max_usd > 0:
            raise guard.RefusedError(f"the budget is used up: {self.calls} calls, {self.tokens} tokens, {cost:.4f} USD")


@dataclass(frozen=True, slots=True)
class Dreamer:
    """Dreams of one scope's pages. ``written`` is told of each page that was changed; ``today`` is the user's day."""

    layout: Layout
    scope: Scope
    settings: DreamSettings
    domain: str
    chat: ChatModel | None
    no_model: str
    redactor: Redactor
    today: date
    written: Callable[[str], None]

    def run(self, days: int | None, *, dry_run: bool = False, force: bool = False) -> DreamReport:
        """Distil the daily pages that are new or have changed since they were last dreamt of.

        ``days``: only those of the last so many days. Never twice a day unless forced. Pages that cannot be read wait
        until they can. Raises StoreError kinds when MEMORY.md cannot be read or written.
        """
        if not self.settings.enabled and not force:
            return _report("off", "dream.enabled is false")
        with ExitStack() as held:
            try:
                held.enter_context(process_lock(self.layout.root, "dream.lock", 0))
            except TimeoutError:
                return _report("busy", "another process is dreaming of this memory")
            return self._run(days, dry_run, force)

    def _run(self, days: int | None, dry_run: bool, force: bool) -> DreamReport:
        if not force and not dry_run and (why := self._enough_today()):
            return _report("done already", why)
        dailies = self._dailies(days, force)
        if not dailies:
            return _report("nothing new", "no daily page is new or has changed since the last dream")
        if self.chat is None:
            return _report("no model", self.no_model)
        if not dry_run:
            self._note_attempt()
        return self._distil(self.chat, dailies, Budget(self.settings), dry_run, force)

    # -- what is new --------------------------------------------------------------------------------------------

    def _dailies(self, days: int | None, force: bool) -> list[Daily]:
        """Oldest first, up to the budget of one dream; the rest comes the next time."""
        known = {} if force else self._dreamt()
        first = self.today - timedelta(days=(days or self._lookback(known)) - 1)
        found: list[Daily] = []
        room = self.settings.input_tokens
        for back in range((self.today - first).days, -1, -1):
            day = self.today - timedelta(days=back)
            path = self.layout.daily(day, self.scope)
            try:
                document = read_text(resolve(self.layout.root, path))
            except (MissingFileError, UnreadableFileError, PathError):
                continue  # of what cannot be read `doctor` tells; the other days do not wait for it
            if known.get(path) == document.hash or not _says_something(document.text):
                continue
            room -= estimate_tokens(document.text)
            if room < 0 and found:
                break
            found.append(Daily(path, day, document))
        return found

    def _lookback(self, known: dict[str, str]) -> int:
        """Days from the first one dreamt of, so that none is missed, in whatever order they were; some, for a start."""
        prefix, suffix = self.layout.daily(date(1, 1, 1), self.scope).split("0001-01-01")
        dreamt = [path[len(prefix) : -len(suffix)] for path in known if path.startswith(prefix)]
        valid = [date.fromisoformat(day) for day in dreamt if len(day) == 10]
        first = min((day for day in valid if day <= self.today), default=self.today)
        return max(self.settings.first_days, (self.today - first).days + 1)

    def _lines(self, dailies: Sequence[Daily]) -> list[Line]:
        lines: list[Line] = []
        with Journal(self.layout.root) as journal:
            for daily in dailies:
                texts = split_lines(daily.document.text)
                clean = split_lines(self._cleaned_page(daily.document.text))
                origins = journal.origins(daily.path)
                for number, (text, shown) in enumerate(zip(texts, clean, strict=True), 1):
                    if any(map(str.isalnum, shown)):
                        origin: Origin = origins.get(line_key(text.rstrip("\r\n")), "person")
                        name = f"D{len(lines) + 1}"
                        lines.append(Line(name, daily.path, number, str(daily.day), shown.strip(), origin))
        return lines

    # -- the distillation ---------------------------------------------------------------------------------------

    def _distil(
        self, chat: ChatModel, dailies: Sequence[Daily], budget: Budget, dry_run: bool, force: bool
    ) -> DreamReport:
        lines = self._lines(dailies)
        language = language_of("\n".join(line.text for line in lines))
        prompt = compose("dream", language, self.domain, self.layout.root / PRIVATE / "prompts")
        prompt = prompt.replace("{max_items}", str(self.settings.max_items))
        why = f"dream {_key(dailies)}"
        if not (dry_run or force) and self._already_written(why):
            self._note_dreamt(dailies)
            return _report("done", "it had been written before a process was killed")
        try:
            for _ in range(_TRIES):
                before = self._memory()
                text, plan, diary = self._ask(chat, prompt, before.text, lines, budget)
                if dry_run:
                    return self._finished("proposed", before, text, plan, budget)
                try:
                    after = self._write(before, text, why)
                except ConflictError:
                    continue
                path = self._keep_diary(diary, plan, language)
                self._note_dreamt(dailies)
                return self._finished("done", before, after, plan, budget, path)
            raise guard.RefusedError("MEMORY.md was changed in the same places each time while the model thought")
        except guard.RefusedError as refusal:
            kept = None if dry_run else propose(self.layout.root, self.today, refusal.answer, str(refusal))
            return DreamReport("refused", str(refusal), proposal=kept, calls=budget.calls, tokens=budget.tokens)
        except ProviderError as error:
            return DreamReport("failed", str(error), calls=budget.calls, tokens=budget.tokens)

    def _ask(
        self, chat: ChatModel, prompt: str, memory: str, lines: Sequence[Line], budget: Budget
    ) -> tuple[str, guard.Plan, str]:
        """MEMORY.md as the model would have it, what that comes to, and the diary; asked twice at most."""
        page = Page.read(memory)
        messages = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": self._redacted(distillate.request(page.items, lines))},
        ]
        for last in (False, True):
            budget.check()
            reply = chat.complete(messages, max_tokens=_REPLY_TOKENS, json=True)
            budget.calls += 1
            budget.tokens += reply.tokens or sum(estimate_tokens(part["content"]) for part in messages)
            try:
                if reply.finish_reason == "length":
                    raise guard.RefusedError("the answer was cut off")
                answer = distillate.parse(reply.text, page.items, lines)
                plan = guard.plan(answer, page.items, lines, prompt, self.settings)
                text = page.rewritten(plan.changed, plan.new)
                guard.check_page(memory, text)
                return text, plan, answer.diary
            except (guard.RefusedError, ProviderReplyError) as error:
                refusal = guard.RefusedError(str(error))
                refusal.answer = reply.text
                if last:
                    raise refusal from error
                messages += [
                    {"role": "assistant", "content": reply.text or "(nothing)"},
                    {"role": "user", "content": f"That cannot be used: {refusal}. Answer again, in full."},
                ]
        raise AssertionError("the last try returns or raises")

    # -- writing ------------------------------------------------------------------------------------------------

    def _memory(self) -> Document:
        try:
            return read_text(resolve(self.layout.root, self.layout.long_term(self.scope)))
        except MissingFileError:
            return Document("# Memory\n")

    def _write(self, before: Document, text: str, why: str) -> str:
        """Write ``text``; what was changed while the model thought is kept. Raises ConflictError if both collide."""
        location = resolve(self.layout.root, self.layout.long_term(self.scope))

        def change(now: Document | None) -> Document:
            found = Document("# Memory\n") if now is None else now
            merged = text if found.text == before.text else merge(before.text, found.text, text)
            if not isinstance(merged, str):
                raise ConflictError(f"{location.path}: was changed in the same places while a model thought")
            return Document(merged, found.bom, found.newline)

        after = rewrite(self.layout.root, location, change, by="dream", why=why, redactor=self.redactor).after
        self.written(location.path)
        return "" if after is None else after.text

    def _cleaned_page(self, text: str) -> str:
        """A page without secrets, line for line: one that stands on several lines is known only as a whole."""
        if self.redactor.mode("dream") != "redact":
            return text
        for secret in reversed(self.redactor.find(text)):
            ends = "\n" * (len(split_lines(text[secret.start : secret.end] + "x")) - 1)
            text = f"{text[: secret.start]}{MARK.format(secret.kind)}{ends}{text[secret.end :]}"
        return text

    def _redacted(self, text: str) -> str:
        return self.redactor.cleaned(text, "dream")

    def _already_written(self, why: str) -> bool:
        root = self.layout.root
        with Journal(root) as journal:
            entries = journal.entries(self.layout.long_term(self.scope), partial(page_bytes, root))
            return any(entry.why == why for entry in entries)

    def _keep_diary(self, diary: str, plan: guard.Plan, language: Language) -> str:
        path = self.layout.diary(self.today, self.scope)
        location = resolve(self.layout.root, path)
        names = _DIARY[language]
        parts = [self._redacted(diary)] if diary and not says_nothing(diary) else []
        for name, rows in (
            (names[0], [f"{text} ← {places}" for text, places in plan.added]),
            (names[1], [f"{text}: {reason}" for text, reason in plan.dropped]),
            (names[2], list(plan.left_out)),
        ):
            if rows:
                parts.append(f"### {name}\n\n" + "\n".join(f"- {' '.join(row.split())}" for row in rows))
        title = "" if location.file.exists() else f"# {self.today}\n\n"
        append(
            self.layout.root,
            location,
            title + "\n\n".join(parts) + "\n",
            by="dream",
            why="diary",
            redactor=self.redactor,
        )
        return path

    # -- what was dreamt ----------------------------------------------------------------------------------------

    def _dreamt(self) -> dict[str, str]:
        database = Database(self.layout.root)
        if not database.exists():
            return {}
        with database.open() as connection:
            return dict(connection.execute("SELECT path, content FROM dreamt").fetchall())

    def _enough_today(self) -> str | None:
        """Why there should be no further dream today."""
        database = Database(self.layout.root)
        if not database.exists():
            return None
        with database.open() as connection:
            row = (self.scope, str(self.today))
            sql = "SELECT attempts, done FROM dreams WHERE scope = ? AND day = ?"
            attempts, done = connection.execute(sql, row).fetchone() or (0, 0)
        if done:
            return f"a dream of {self.today} is on record; force makes another"
        if attempts >= _MOST_ATTEMPTS:
            return f"{attempts} dreams of {self.today} have come to nothing; force tries again"
        return None

    def _note_attempt(self) -> None:
        with Database(self.layout.root).open() as connection, exclusive(connection):
            connection.execute(
                "INSERT INTO dreams(scope, day, attempts) VALUES (?, ?, 1) "
                "ON CONFLICT(scope, day) DO UPDATE SET attempts = attempts + 1",
                (self.scope, str(self.today)),
            )

    def _note_dreamt(self, dailies: Sequence[Daily]) -> None:
        with Database(self.layout.root).open() as connection, exclusive(connection):
            rows = [(daily.path, daily.document.hash) for daily in dailies]
            connection.executemany("INSERT OR REPLACE INTO dreamt VALUES (?, ?)", rows)
            connection.execute(
                "INSERT INTO dreams(scope, day, done) VALUES (?, ?, 1) ON CONFLICT(scope, day) DO UPDATE SET done = 1",
                (self.scope, str(self.today)),
            )

    def _finished(
        self,
        state: DreamState,
        before: Document,
        after: str,
        plan: guard.Plan,
        budget: Budget,
        diary: str | None = None,
    ) -> DreamReport:
        path = self.layout.long_term(self.scope)
        return DreamReport(
            state,
            "",
            plan.added,
            plan.dropped,
            plan.left_out,
            unified(before.text, after, path, path),
            diary,
            None,
            budget.calls,
            budget.tokens,
        )


def _says_something(text: str) -> bool:
    """Whether a page has more than headings."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _key(dailies: Sequence[Daily]) -> str:
    parts = (f"{daily.path}\0{daily.document.hash}" for daily in dailies)
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def _report(state: DreamState, reason: str) -> DreamReport:
    return DreamReport(state, reason)
