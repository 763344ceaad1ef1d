"""Whatever is done in whatever order: nothing is lost, links lead to where they led, and the index is true."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memories import PATIENT
from vademecum import Memory
from vademecum.errors import ConflictError, MissingFileError, PathError, UsageError
from vademecum.knowledge.records import Category, PageInfo
from vademecum.knowledge.targets import encode, relative

pytest.importorskip("markdown_it", reason="the package markdown-it-py is not installed (vademecum[knowledge])")

_NAMES = st.sampled_from(["a", "B", "c d", "x(1)", "C#", "q]", "中文", "index", "log"])
_CATEGORIES = st.sampled_from(["", "a", "A/b", "中 文", "x(1)/y"])
_REFUSED = (ConflictError, MissingFileError, PathError, UsageError)
#: Stand for pages: the n-th of those that there are.
_PICKS = st.lists(st.integers(0, 9), max_size=3)
_HOME = "knowledge/"


def _pages(category: Category) -> list[PageInfo]:
    return [*category.pages, *(page for inner in category.categories for page in _pages(inner))]


class KnowledgeModel(RuleBasedStateMachine):
    """``self.paths``: where the page that says "page N" is. ``self.leads``: for each link that says "link N", its
    page's number and the number of the page that it led to."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.memory = Memory.open(self.folder, settings=PATIENT)
        self.knowledge = self.memory.knowledge
        self.paths: dict[int, str] = {}
        self.leads: dict[int, tuple[int, int]] = {}
        self.made = 0

    def teardown(self) -> None:
        self.memory.close()
        shutil.rmtree(self.folder)

    @initialize()
    def hand_written(self) -> None:
        (self.folder / "knowledge").mkdir()
        (self.folder / "knowledge/index.md").write_text(
            "# Mine\n\nHand-written.\n\n## Empty\n\nKept.\n", encoding="utf-8"
        )

    def _picked(self, picks: list[int]) -> list[int]:
        numbers = sorted(self.paths)
        return list(dict.fromkeys(numbers[pick % len(numbers)] for pick in picks)) if numbers else []

    def _text(self, path: str, number: int, targets: list[int], wiki: bool) -> str:
        lines = [f"# Title {number}", f"page {number}"]
        for target in targets:
            self.made += 1
            there = self.paths[target]
            self.leads[self.made] = (number, target)
            full = f"[[/{there}|link {self.made}]]"
            plain = f"[link {self.made}]({encode(relative(path, there))}#x)"
            lines.append(full if wiki and not set("[]#|") & set(there) else plain)
        return "\n\n".join(lines)

    @rule(name=_NAMES, category=_CATEGORIES, linked=_PICKS, wiki=st.booleans())
    def create(self, name: str, category: str, linked: list[int], wiki: bool) -> None:
        number = self.made = self.made + 1
        path = f"{category}/{name}.md" if category else f"{name}.md"
        links = dict(self.leads)
        try:
            (made,) = self.knowledge.create(path, self._text(_HOME + path, number, self._picked(linked), wiki)).pages
        except _REFUSED:
            self.leads = links
            return
        self.paths[number] = made

    @rule(linked=_PICKS)
    def remember(self, linked: list[int]) -> None:
        for line in self._text("MEMORY.md", 0, self._picked(linked), False).split("\n\n")[2:]:
            self.memory.remember(line)

    @rule(picks=_PICKS, category=_CATEGORIES)
    def move(self, picks: list[int], category: str) -> None:
        old = [self.paths[number] for number in self._picked(picks)]
        try:
            done = self.knowledge.move(old, category)
        except _REFUSED:
            return
        self._follow(dict(zip(done.removed, done.pages, strict=True)))

    @rule(picks=_PICKS, name=_NAMES, category=_CATEGORIES)
    def rename(self, picks: list[int], name: str, category: str) -> None:
        for number in self._picked(picks)[:1]:
            try:
                done = self.knowledge.rename(self.paths[number], f"{category}/{name}.md")
            except _REFUSED:
                return
            self._follow(dict(zip(done.removed, done.pages, strict=True)))

    @rule(old=_CATEGORIES, new=_CATEGORIES)
    def rename_category(self, old: str, new: str) -> None:
        try:
            done = self.knowledge.rename(old, f"/{new}")
        except _REFUSED:
            return
        self._follow(dict(zip(done.removed, done.pages, strict=True)))

    @rule(picks=_PICKS)
    def delete(self, picks: list[int]) -> None:
        for number in self._picked(picks)[:1]:
            self.knowledge.delete(self.paths[number])
            self._forget(number)

    @rule(category=_CATEGORIES)
    def delete_category(self, category: str) -> None:
        try:
            gone = self.knowledge.delete(category, recursive=True).removed
        except _REFUSED:
            return
        for number, path in list(self.paths.items()):
            if path in gone:
                self._forget(number)

    @rule(picks=_PICKS)
    def edit_by_hand(self, picks: list[int]) -> None:
        for number in self._picked(picks):
            file = self.folder / self.paths[number]
            file.write_text(f"{file.read_text(encoding='utf-8')}\nmore\n", encoding="utf-8")

    def _follow(self, moves: dict[str, str]) -> None:
        self.paths = {number: moves.get(path, path) for number, path in self.paths.items()}

    def _forget(self, number: int) -> None:
        del self.paths[number]
        self.leads = {link: pair for link, pair in self.leads.items() if number not in pair}

    @invariant()
    def nothing_is_lost(self) -> None:
        there = {page.path: page.title for page in _pages(self.knowledge.tree().root)}
        assert there == {path: f"Title {number}" for number, path in self.paths.items()}
        for number, path in self.paths.items():
            assert f"page {number}\n" in (self.folder / path).read_text(encoding="utf-8") + "\n"

    @invariant()
    def links_lead_to_where_they_led(self) -> None:
        places = {0: "MEMORY.md", **self.paths}
        wanted = {f"link {link}": (places[page], places[target]) for link, (page, target) in self.leads.items()}
        found = {}
        for path in places.values():
            if (self.folder / path).exists():
                for reference in self.knowledge.links(path).outgoing:
                    found[reference.label] = (path, reference.target)
        assert {label: found.get(label) for label in wanted} == wanted

    @invariant()
    def the_index_is_true(self) -> None:
        checked = self.knowledge.check()
        assert checked.stale == ()
        if (self.folder / "knowledge/log.md").exists():
            assert checked.unlisted == ()
        text = self.folder / "knowledge/index.md"
        if text.exists():
            assert "Hand-written.\n\n" in text.read_text(encoding="utf-8")
            assert "## Empty\n\nKept." in text.read_text(encoding="utf-8")


TestKnowledgeModel = KnowledgeModel.TestCase
TestKnowledgeModel.settings = settings(
    max_examples=300 if os.environ.get("VADEMECUM_STRESS") else 12, stateful_step_count=12, deadline=None
)
