"""``index.md``: the list of all pages that is kept true, with whatever a person wrote into it. Pure."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from textwrap import dedent

from vademecum.knowledge.markup import Heading, Item, Link, read_markup
from vademecum.knowledge.rewriting import Edit, edited
from vademecum.knowledge.targets import SUFFIX, Pages, encode, escape, fold, relative
from vademecum.store.layout import knowledge_of

INDEX, LOG = "index.md", "log.md"

_TITLE = "# Knowledge\n"
_BEFORE_LINK = re.compile(r"[\s>]*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?[*_~]*").fullmatch
_NOTHING = re.compile(r"[*_~\s]*").fullmatch
_BARE_BAR = re.compile(r"(?<!\\)\|")
_LONE_HASH = re.compile(r"(?<!\S)#")
_SEPARATORS = re.compile(r"[-_\s]+")


def is_own(path: str) -> bool:
    """Whether a page is the index or the log of a knowledge folder: one links to everything, the other to nothing."""
    home = knowledge_of(path)
    return fold(path) in (fold(home + INDEX), fold(home + LOG))


@dataclass(frozen=True, slots=True)
class Shelf:
    """What the index has to show.

    ``home`` is the folder, with "/" at its end; ``listed`` are the paths of its pages, whose titles ``title`` tells.
    ``pages`` are all that a link may lead to. Links to what ``exists`` although it is no page stay, and so do those to
    what may exist below the ``unreadable`` paths.

    What has just happened: ``moves`` gives the new paths by the old ones, ``removed`` are the paths of deleted pages,
    and ``retitled`` has the former titles of pages that got another one.
    """

    home: str
    listed: frozenset[str]
    title: Callable[[str], str]
    pages: Pages
    exists: Callable[[str], bool]
    unreadable: tuple[str, ...] = ()
    moves: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    retitled: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Where the index is."""
        return self.home + INDEX

    def category(self, path: str) -> str:
        """The folder of a page below ``home``, "" for ``home`` itself."""
        return posixpath.dirname(path.removeprefix(self.home))


def revise(text: str, shelf: Shelf) -> str:
    """The index with an entry for every page and no link to a page that is not there.

    Entries, their order, summaries and all other text stay. The entry of a removed page goes with what was said of it,
    and that of a page that moves goes to the section of its new category, unless it stood in a section of another name.
    Other links to missing pages become plain text. Links must already lead to the new paths of moved pages. A second
    revision changes nothing.
    """
    windows = text.count("\r\n") * 2 > text.count("\n")
    old = text.replace("\r\n", "\n") if windows else text
    new = old if old.strip() else _TITLE
    new = _without_dead_links(_with_new_titles(new, shelf), shelf)
    new, moved = _without_moved_entries(new, shelf)
    new = _without_empty_sections(_with_all_pages(new, shelf, moved), shelf)
    new = new if new.strip() else _TITLE
    if new == old:
        return text
    return new.replace("\n", "\r\n") if windows else new


def missing(text: str, shelf: Shelf) -> list[str]:
    """The pages that the index does not show, sorted."""
    return _View(text, shelf).missing()


def dead_links(text: str, shelf: Shelf) -> list[Link]:
    """The links of the index to pages in its folder that are not there."""
    view = _View(text, shelf)
    return [link for link in view.markup.links if view.dead(link)]


class _View:
    """One state of the text, parsed."""

    def __init__(self, text: str, shelf: Shelf) -> None:
        self.text = text
        self.shelf = shelf
        self.markup = read_markup(text)
        self.before = Pages(shelf.pages.paths | shelf.removed)

    def leads(self, link: Link) -> str | None:
        return self.shelf.pages.resolve(self.shelf.path, link)

    def missing(self) -> list[str]:
        shown = {self.leads(link) for link in self.markup.links if not link.image}
        return sorted(self.shelf.listed - shown)

    def dead(self, link: Link) -> bool:
        path = self.leads(link)
        if path is None:
            return link.style == "wiki" and not self.shelf.unreadable and _names_a_page(link.target)
        shelf = self.shelf
        if path in shelf.pages.paths or any(f"{path}/".startswith(f"{gap}/") for gap in shelf.unreadable):
            return False
        return not shelf.exists(path) and fold(path).startswith(fold(shelf.home)) and path.lower().endswith(SUFFIX)

    def removed(self, link: Link) -> bool:
        return self.before.resolve(self.shelf.path, link) in self.shelf.removed

    def offset(self, line: int) -> int:
        return self.markup.offsets[line]

    def blank(self, line: int) -> bool:
        return not self.text[self.offset(line) : self.offset(line + 1)].strip()

    def item(self, link: Link) -> Item | None:
        """The list item that begins with a link: an entry."""
        around = [item for item in self.markup.items if item.first == link.line - 1]
        if not around or not _BEFORE_LINK(self.text[self.offset(link.line - 1) : link.span.start]):
            return None
        return around[-1]

    def outermost(self, item: Item) -> Item:
        return next(outer for outer in self.markup.items if outer.first <= item.first and item.end <= outer.end)

    def section(self, line: int) -> int:
        """The number of the heading above a line, -1 if there is none."""
        return sum(heading.end <= line for heading in self.markup.headings) - 1

    def section_of(self, category: str) -> int | None:
        """The number of the heading of a category: its path, or its name below the heading of what it is in.

        Pages without category stand below the title; -1 if there is none.
        """
        if not category:
            return 0 if self.markup.headings and self.markup.headings[0].level == 1 else -1
        above: list[Heading] = []
        for number, heading in enumerate(self.markup.headings):
            above = [*(outer for outer in above if outer.level < heading.level), heading]
            names = [_key(outer.title) for outer in above]
            parts = [_key(part) for part in category.split("/")]
            if heading.level > 1 and (names[-1] == _key(category) or names[-len(parts) :] == parts):
                return number
        return None

    def bounds(self, section: int) -> tuple[int, int]:
        """The lines of a section, without its heading and without the sections in it."""
        headings = self.markup.headings
        first = headings[section].end if section >= 0 else 0
        last = headings[section + 1].first if section + 1 < len(headings) else len(self.markup.offsets) - 1
        return first, last


def _names_a_page(name: str) -> bool:
    suffix = posixpath.splitext(name.strip())[1].lower()
    return suffix in ("", SUFFIX) or not suffix[1:].isalnum() or len(suffix) > 5


def _key(title: str) -> str:
    return _SEPARATORS.sub(" ", fold(title)).strip()


def _with_new_titles(text: str, shelf: Shelf) -> str:
    """The label of an entry follows the title of its page, as long as it was the title."""
    view = _View(text, shelf)
    edits = []
    for link in view.markup.links:
        former = shelf.retitled.get(view.leads(link) or "")
        start = link.span.start + 1
        end = start + len(link.label)
        if former is not None and link.label == escape(former) == text[start:end] and view.item(link):
            edits.append(Edit(start, end, escape(shelf.title(view.leads(link) or ""))))
    return edited(text, edits)


def _without_dead_links(text: str, shelf: Shelf) -> str:
    view = _View(text, shelf)
    dead = [link for link in view.markup.links if view.dead(link)]
    entries = ((link, view.item(link)) for link in dead)
    whole = [
        Edit(view.offset(item.first), view.offset(item.end), "")
        for link, item in entries
        if item is not None and _may_go(view, link, item)
    ]
    left = (link for link in dead if not any(edit.start <= link.span.start < edit.end for edit in whole))
    return edited(text, [*whole, *(Edit(*link.span, _plain(link)) for link in left)])


def _may_go(view: _View, link: Link, item: Item) -> bool:
    """Whether an entry with a dead link goes: nothing but the link is in it, or its page has just been removed."""
    start, end = view.offset(item.first), view.offset(item.end)
    others = [other for other in view.markup.links if start <= other.span.start < end and other != link]
    if any(inner.first > item.first and inner.end <= item.end for inner in view.markup.items):
        return False
    if view.removed(link):
        return all(view.dead(other) for other in others)
    return not others and _NOTHING(view.text[link.span.end : end]) is not None


def _plain(link: Link) -> str:
    if link.style == "definition":
        return ""
    return escape(link.label) if link.style == "wiki" else _BARE_BAR.sub(r"\\|", " ".join(link.label.splitlines()))


def _without_moved_entries(text: str, shelf: Shelf) -> tuple[str, dict[str, list[str]]]:
    """The text without the entries that belong into another section now, and these by category."""
    view = _View(text, shelf)
    origins = {new: old for old, new in shelf.moves.items() if shelf.category(old) != shelf.category(new)}
    moved: dict[str, list[str]] = defaultdict(list)
    edits = []
    for link in view.markup.links:
        path = view.leads(link) or ""
        item = view.item(link) if path in origins else None
        if item is None or view.section(item.first) != view.section_of(shelf.category(origins[path])):
            continue
        start, end = view.offset(item.first), view.offset(item.end)
        inner = any(other.first > item.first and other.end <= item.end for other in view.markup.items)
        if not inner and not text[start:end].startswith(">"):
            moved[shelf.category(path)].append(dedent(text[start:end]).rstrip("\n") + "\n")
            edits.append(Edit(start, end, ""))
    return edited(text, edits), moved


def _with_all_pages(text: str, shelf: Shelf, moved: Mapping[str, list[str]]) -> str:
    entries: dict[str, list[str]] = defaultdict(list, moved)
    shown = {link for blocks in moved.values() for block in blocks for link in _targets(block, shelf)}
    for path in _View(text, shelf).missing():
        if path not in shown:
            entries[shelf.category(path)].append(_entry(path, shelf))
    text = _placed(text, shelf, entries)
    # An unfinished fence or comment would swallow what is written below it.
    swallowed = "".join(_entry(path, shelf) for path in _View(text, shelf).missing())
    return f"{swallowed}\n{text}" if swallowed else text


def _targets(block: str, shelf: Shelf) -> Iterable[str | None]:
    view = _View(block, shelf)
    return [view.leads(link) for link in view.markup.links]


def _entry(path: str, shelf: Shelf) -> str:
    return f"- [{escape(shelf.title(path))}](./{encode(relative(shelf.path, path))})\n"


def _placed(text: str, shelf: Shelf, entries: Mapping[str, list[str]]) -> str:
    """The text with the entries of each category where its others are, else below its heading, else at the end."""
    text = text if text.endswith("\n") or not entries else f"{text}\n"
    view = _View(text, shelf)
    inserted: dict[int, str] = defaultdict(str)
    appended = ""
    for category, blocks in sorted(entries.items()):
        line, in_list = _place(view, category)
        if line is None:
            heading = _LONE_HASH.sub(r"\\#", escape(category))
            appended += f"\n## {heading}\n\n{''.join(blocks)}"
            continue
        after = text[view.offset(line) :].split("\n", 1)[0]
        gap = "" if in_list or inserted[line] else "\n"
        end = "\n" if after.strip() and not in_list else ""
        inserted[line] += gap + "".join(blocks) + end
    edits = [Edit(view.offset(line), view.offset(line), new) for line, new in inserted.items()]
    return edited(text, edits).rstrip("\n") + "\n" + appended if appended else edited(text, edits)


def _place(view: _View, category: str) -> tuple[int | None, bool]:
    """The line before which new entries of a category go, and whether they go on with a list there.

    None if they need a section of their own: there is none of that name, and none that holds two or more entries of the
    category and no others.
    """
    entries = [(item, path) for link in view.markup.links if (item := view.item(link)) and (path := view.leads(link))]
    by_section: dict[int, list[str]] = defaultdict(list)
    for item, path in entries:
        by_section[view.section(item.first)].append(view.shelf.category(path))
    alike = (number for number, found in by_section.items() if len(found) > 1 and set(found) == {category})
    section = view.section_of(category)
    section = next(alike, None) if section is None else section
    if section is None:
        return None, False
    siblings = [
        view.outermost(item)
        for item, path in entries
        if view.section(item.first) == section and path in view.shelf.listed and view.shelf.category(path) == category
    ]
    if siblings:
        return siblings[-1].end, True
    first, end = view.bounds(section)
    while end > first and view.blank(end - 1):
        end -= 1
    return end, any(item.end == end for item in view.markup.items)


def _without_empty_sections(text: str, shelf: Shelf) -> str:
    """Without the headings of categories that have just lost their last page, if nothing is below them."""
    left = {_key(shelf.category(path)) for path in (*shelf.moves, *shelf.removed)}
    left -= {_key(shelf.category(path)) for path in shelf.listed}
    view = _View(text, shelf)
    edits = []
    for number, heading in enumerate(view.markup.headings):
        first, end = view.bounds(number)
        inner = [later for later in view.markup.headings[number + 1 : number + 2] if later.level > heading.level]
        blank = not text[view.offset(first) : view.offset(end)].strip()
        if heading.level > 1 and _key(heading.title) in left and blank and not inner:
            # A blank line in its place keeps apart what it kept apart.
            apart = "" if heading.first == 0 or view.blank(heading.first - 1) else "\n"
            edits.append(Edit(view.offset(heading.first), view.offset(end), apart))
    new = edited(text, edits)
    return new.rstrip("\n") + "\n" if edits else new
