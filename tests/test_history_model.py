"""Whatever is done to conversations, in whatever order, they equal plain lists to which the same was done."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from conversations import Clock, answered, conversations, said
from vademecum.history import Latest

NAMES = st.sampled_from(["a", "b"])
PARTS = st.lists(st.sampled_from(["question", "answer", "result"]), min_size=1, max_size=4)
WHICH = st.integers(0, 6)


@dataclass
class Entry:
    seq: int
    turn: int
    opens: bool
    scheduled: bool
    body: dict[str, Any]
    extras: dict[str, Any] = field(default_factory=dict)


@dataclass
class Model:
    """A session as a list."""

    entries: list[Entry] = field(default_factory=list)
    next_seq: int = 0
    start: int = 0
    title: str = ""
    pinned: bool = False
    active_at: float = 0.0
    order: int = 0

    def add(self, part: str, body: dict[str, Any], scheduled: bool) -> None:
        turns = [entry.seq for entry in self.entries if entry.opens and entry.scheduled == scheduled]
        opens = part == "question" or (part == "answer" and not turns)
        turn = self.next_seq if opens or not turns else turns[-1]
        self.entries.append(Entry(self.next_seq, turn, opens, scheduled, body))
        self.next_seq += 1
        if part == "question" and not scheduled and not self.title:
            self.title = body["content"]

    def turns(self) -> list[int]:
        return [entry.seq for entry in self.entries if entry.opens]

    def by_turn(self) -> list[Entry]:
        return sorted(self.entries, key=lambda entry: (entry.turn, entry.seq))


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = Clock()
        self.history = conversations(self.folder, clock=self.clock)
        self.model: dict[str, Model] = {}
        self.floor = self.made = self.count = 0

    def teardown(self) -> None:
        self.history._file.close()
        shutil.rmtree(self.folder)

    def _body(self, part: str) -> dict[str, Any]:
        self.count += 1
        text = f"{part} {self.count}"
        if part == "result":
            return {"role": "tool", "tool_call_id": "c", "content": text}
        return said(text) if part == "question" else answered(text)

    @rule(name=NAMES, parts=PARTS, scheduled=st.booleans(), create=st.booleans())
    def append(self, name: str, parts: list[str], scheduled: bool, create: bool) -> None:
        self.clock.now += 1
        bodies = [self._body(part) for part in parts]
        stored = self.history.append(name, bodies, scheduled=scheduled, create=create)
        if name not in self.model and not create:
            assert stored == ()
            return
        if name not in self.model:
            self.made += 1
            self.model[name] = Model(next_seq=self.floor, order=self.made)
        model = self.model[name]
        first = model.next_seq
        for part, body in zip(parts, bodies, strict=True):
            model.add(part, body, scheduled)
        model.active_at = self.clock.now
        assert [message.seq for message in stored] == list(range(first, model.next_seq))

    @rule(name=NAMES)
    def clear(self, name: str) -> None:
        start = self.history.clear_context(name)
        if name in self.model:
            self.model[name].start = self.model[name].next_seq
        assert start == (self.model[name].start if name in self.model else None)

    @rule(name=NAMES, which=WHICH, question=st.booleans(), following=st.booleans())
    def delete_turn(self, name: str, which: int, question: bool, following: bool) -> None:
        turns = self.model[name].turns() if name in self.model else []
        turn = turns[which] if which < len(turns) else 10_000
        deleted = self.history.delete_turn(name, turn, question=question, following=following)
        if turn == 10_000:
            assert deleted == 0
            return
        model = self.model[name]
        kept = [
            entry
            for entry in model.entries
            if not (entry.turn >= turn if following else entry.turn == turn) or (entry.seq == turn and not question)
        ]
        assert deleted == len(model.entries) - len(kept)
        model.entries = kept

    @rule(name=NAMES, keep=st.integers(0, 2))
    def prune_scheduled(self, name: str, keep: int) -> None:
        deleted = self.history.prune_scheduled(name, keep)
        if name not in self.model:
            assert deleted == 0
            return
        model = self.model[name]
        turns = [entry.seq for entry in model.entries if entry.opens and entry.scheduled]
        last = turns[-keep - 1] if len(turns) > keep else -1
        kept = [entry for entry in model.entries if not entry.scheduled or entry.turn > last]
        assert deleted == len(model.entries) - len(kept)
        model.entries = kept

    @rule(name=NAMES)
    def pop(self, name: str) -> None:
        last = self.history.pop(name)
        entries = self.model.get(name, Model()).entries
        assert (None if last is None else last.seq) == (entries.pop().seq if entries else None)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        assert self.history.delete(name) == (name in self.model)
        if name in self.model:
            self.floor = max(self.floor, self.model.pop(name).next_seq)

    @rule(name=NAMES, title=st.sampled_from(["one", "two"]), pinned=st.booleans())
    def rename_and_pin(self, name: str, title: str, pinned: bool) -> None:
        assert self.history.rename(name, title) == self.history.pin(name, pinned) == (name in self.model)
        if name in self.model:
            self.model[name].title, self.model[name].pinned = title, pinned

    @rule(name=NAMES, key=st.sampled_from(["x", "y"]))
    def annotate(self, name: str, key: str) -> None:
        self.count += 1
        answers = [entry for entry in self.model.get(name, Model()).entries if entry.body["role"] == "assistant"]
        assert self.history.annotate(name, {key: self.count}) == (answers[-1].seq if answers else None)
        if answers:
            answers[-1].extras[key] = self.count

    @rule(days=st.sampled_from([0.0, 2 / 86_400]))
    def prune(self, days: float) -> None:
        self.clock.now += 1
        gone = {session.id for session in self.history.prune(days)}
        before = self.clock.now - days * 86_400
        assert gone == {name for name, model in self.model.items() if not model.pinned and model.active_at < before}
        for name in gone:
            self.floor = max(self.floor, self.model.pop(name).next_seq)

    @rule()
    def open_anew(self) -> None:
        self.history._file.close()
        self.history = conversations(self.folder, clock=self.clock)

    @invariant()
    def sessions_are_those_of_the_model(self) -> None:
        listed = sorted(self.model.items(), key=lambda item: (item[1].pinned, item[1].active_at, item[1].order))
        found = self.history.sessions().sessions
        assert [session.id for session in found] == [name for name, _ in reversed(listed)]
        for session in found:
            model = self.model[session.id]
            assert (session.title, session.pinned) == (model.title, model.pinned)
            assert (session.messages, session.next_seq) == (len(model.entries), model.next_seq)
        assert self.history.ids() == sorted(self.model)
        assert self.history.totals().messages == sum(len(model.entries) for model in self.model.values())

    @invariant()
    def messages_are_those_of_the_model(self) -> None:
        for name in ("a", "b"):
            model = self.model.get(name, Model())
            stored = [
                (message.seq, message.turn, message.opens, message.scheduled, message.body, message.extras)
                for message in self.history.messages_after(name)
            ]
            assert stored == [
                (entry.seq, entry.turn, entry.opens, entry.scheduled, entry.body, entry.extras)
                for entry in model.entries
            ]
            for most in (0, 2, 100):
                last = [message.seq for message in self.history.last_messages(name, most)]
                assert last == [entry.seq for entry in model.entries][-most or len(model.entries) :]
            for most in (1, 3, 100):
                turns = model.turns()
                first = max(model.start, turns[-most] if len(turns) >= most else 0)
                expected = [entry.body for entry in model.by_turn() if entry.turn >= first]
                assert self.history.load(name, most) == expected

    @invariant()
    def turns_are_those_of_the_model(self) -> None:
        for name in ("a", "b"):
            model = self.model.get(name, Model())
            turns = model.turns()
            assert [turn.seq for turn in self.history.turns(name)] == turns
            pages = [self.history.page(name, number, 2) for number in range(len(turns) // 2 + 1, 0, -1)]
            assert [turn.seq for page in pages for turn in page.turns] == turns
            assert {page.total for page in pages} == {len(turns)}
            answers = [entry.seq for entry in model.entries if entry.body["role"] == "assistant"]
            asked = [
                entry.seq
                for entry in model.entries
                if entry.opens and not entry.scheduled and entry.body["role"] == "user"
            ]
            latest = Latest(asked[-1] if asked else None, answers[-1] if answers else None)
            assert self.history.latest(name) == latest


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=1000 if os.environ.get("VADEMECUM_STRESS") else 25, stateful_step_count=20
)
