"""Keeping ``index.md`` true, with whatever a person wrote into it. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from textwrap import dedent

from vademecum.knowledge.index_view import IndexView, Shelf, key
from vademecum.knowledge.markup import Item, Link
from vademecum.knowledge.rewriting import Edit, edited
from vademecum.knowledge.targets import encode, escape, relative

_TITLE = "# Knowledge\n"
_NOTHING = re.compile(r"[*_~\s]*").fullmatch
_BARE_BAR = re.compile(r"(?<!\\)\|")
_LONE_HASH = re.compile(r"(?<!\S)#")


def revise(text: str, shelf: Shelf) -> str:
    """The index with an entry for every page and no link to a page that is not there.

    Entries, their order, summaries and all other text stay. The entry of a removed page goes with what was said of it,
    and that of a page that moves goes to the section of its new category, unless it stood in a section of another name.
    Other links to missing pages become plain text. Links must already lead to the new paths of moved pages. A second
    revision changes nothing.
    """
    windows = text.count("\r\n") * 2 > text.count("\n")
    old = text.replace("\r\n", "\n") if windows else text
    view = _without_dead_links(_with_new_titles(IndexView(old if old.strip() else _TITLE, shelf)))
    view, moved = _without_moved_entries(view)
    new = _without_empty_sections(_with_all_pages(view, moved)).text
    new = new if new.strip() else _TITLE
    if new == old:
        return text
    return new.replace("\n", "\r\n") if windows else new


def missing(text: str, shelf: Shelf) -> list[str]:
    """The pages that the index does not show, sorted."""
    return IndexView(text, shelf).missing()


def dead_links(text: str, shelf: Shelf) -> list[Link]:
    """The links of the index to pages in its folder that are not there."""
    return IndexView(text, shelf).dead()


def _with_new_titles(view: IndexView) -> IndexView:
    """The label of an entry follows the title of its page, as long as it was the title."""
    edits = []
    for link, _, path in view.entries:
        former = view.shelf.retitled.get(path)
        start, end = link.span.start + 1, link.span.start + 1 + len(link.label)
        if former is not None and link.label == escape(former) == view.text[start:end]:
            edits.append(Edit(start, end, escape(view.shelf.title(path))))
    return view.changed(edits)


def _without_dead_links(view: IndexView) -> IndexView:
    dead = view.dead()
    entries = ((link, view.item(link)) for link in dead)
    whole = [view.without(item) for link, item in entries if item is not None and _may_go(view, link, item)]
    left = (link for link in dead if not any(edit.start <= link.span.start < edit.end for edit in whole))
    return view.changed([*whole, *(Edit(*link.span, _plain(link)) for link in left)])


def _may_go(view: IndexView, link: Link, item: Item) -> bool:
    """Whether an entry with a dead link goes: nothing but the link is in it, or its page has just been removed."""
    start, end = view.offset(item.first), view.offset(item.end)
    others = [other for other in view.markup.links if start <= other.span.start < end and other != link]
    if view.nests(item):
        return False
    if view.removed(link):
        return all(view.is_dead(other) for other in others)
    return not others and _NOTHING(view.text[link.span.end : end]) is not None


def _plain(link: Link) -> str:
    if link.style == "definition":
        return ""
    return escape(link.label) if link.style == "wiki" else _BARE_BAR.sub(r"\\|", " ".join(link.label.splitlines()))


def _without_moved_entries(view: IndexView) -> tuple[IndexView, dict[str, list[str]]]:
    """The index without the entries that belong into another section now, and these by category."""
    category = view.shelf.category
    origins = {new: old for old, new in view.shelf.moves.items() if category(old) != category(new)}
    moved: dict[str, list[str]] = defaultdict(list)
    edits = []
    for _, item, path in view.entries:
        if path not in origins or view.section(item.first) != view.section_of(category(origins[path])):
            continue
        text = view.text[view.offset(item.first) : view.offset(item.end)]
        if not view.nests(item) and not text.startswith(">"):
            moved[category(path)].append(dedent(text).rstrip("\n") + "\n")
            edits.append(view.without(item))
    return view.changed(edits), moved


def _with_all_pages(view: IndexView, moved: Mapping[str, list[str]]) -> IndexView:
    shelf = view.shelf
    blocks = IndexView("\n".join(block for blocks in moved.values() for block in blocks), shelf)
    entries: dict[str, list[str]] = defaultdict(list, moved)
    for path in view.missing():
        if path not in blocks.targets:
            entries[shelf.category(path)].append(_entry(path, shelf))
    if not entries:
        return view
    view = _placed(view, entries)
    # An unfinished fence or comment would swallow what is written below it.
    swallowed = "".join(_entry(path, shelf) for path in view.missing())
    start = view.offset(view.markup.head)
    return view.changed([Edit(start, start, f"{swallowed}\n")]) if swallowed else view


def _entry(path: str, shelf: Shelf) -> str:
    return f"- [{escape(shelf.title(path))}](./{encode(relative(shelf.path, path))})\n"


def _placed(view: IndexView, entries: Mapping[str, list[str]]) -> IndexView:
    """The index with new entries where the others of their category are, else below its heading, else at the end."""
    if not view.text.endswith("\n"):
        view = view.changed([Edit(len(view.text), len(view.text), "\n")])
    inserted: dict[int, str] = defaultdict(str)
    appended = ""
    for category, blocks in sorted(entries.items()):
        line, in_list = _place(view, category)
        if line is None:
            heading = _LONE_HASH.sub(r"\\#", escape(category))
            appended += f"\n## {heading}\n\n{''.join(blocks)}"
            continue
        gap = "" if in_list or inserted[line] else "\n"
        end = "" if in_list or view.blank(line) else "\n"
        inserted[line] += gap + "".join(blocks) + end
    edits = [Edit(view.offset(line), view.offset(line), new) for line, new in inserted.items()]
    new = edited(view.text, edits)
    return IndexView(new.rstrip("\n") + "\n" + appended if appended else new, view.shelf)


def _place(view: IndexView, category: str) -> tuple[int | None, bool]:
    """The line before which new entries of a category go, and whether they go on with a list there.

    None if they need a section of their own: there is none of that name, and none that holds two or more entries of the
    category and no others.
    """
    section = view.section_of(category)
    if section is None:
        alike = (number for number, found in view.by_section.items() if len(found) > 1 and set(found) == {category})
        section = next(alike, None)
    if section is None:
        return None, False
    shelf = view.shelf
    siblings = (
        item
        for _, item, path in reversed(view.entries)
        if view.section(item.first) == section and path in shelf.listed and shelf.category(path) == category
    )
    last = next(siblings, None)
    if last is not None:
        return view.outermost(last).end, True
    first, end = view.bounds(section)
    while end > first and view.blank(end - 1):
        end -= 1
    return end, any(item.end == end for item in view.markup.items)


def _without_empty_sections(view: IndexView) -> IndexView:
    """Without the headings of categories that have just lost their last page, if nothing is below them."""
    shelf = view.shelf
    left = {key(shelf.category(path)) for path in (*shelf.moves, *shelf.removed)}
    left -= {key(shelf.category(path)) for path in shelf.listed}
    edits = []
    for number, heading in enumerate(view.markup.headings):
        first, end = view.bounds(number)
        inner = [later for later in view.markup.headings[number + 1 : number + 2] if later.level > heading.level]
        blank = not view.text[view.offset(first) : view.offset(end)].strip()
        if heading.level > 1 and key(heading.title) in left and blank and not inner:
            # A blank line in its place keeps apart what it kept apart.
            apart = "" if heading.first == 0 or view.blank(heading.first - 1) else "\n"
            edits.append(Edit(view.offset(heading.first), view.offset(end), apart))
    return view.changed(edits, "\n") if edits else view
