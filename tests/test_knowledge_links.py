"""Links: found where they stand, followed to what they mean, and rewritten so that they mean the same after a move."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vademecum.knowledge.markup import Link, read_markup
from vademecum.knowledge.rewriting import Edit, Move, edited, link_edits
from vademecum.knowledge.targets import Pages, encode, escape, relative

pytest.importorskip("markdown_it", reason="the package markdown-it-py is not installed (vademecum[knowledge])")

EVERY_STYLE = """\
---
related: "[[front]]"
---
# The *big* [t](title.md) `c`

See [a](./a%20b.md#x "T") and [[b#h|B]] ![[emb]] ![i](img.png) <http://x> [web](https://x.y) [here](#sec).\r
> quote [q
> r](<q (1).md>)
> - item [[in item]]

| a | b \\| c | [[t\\|alias]] |
|---|---|---|
| [x](x.md) | [x](x.md) | [y \\| z](y%7C.md) |

`[[code]]` \\[[esc]] [ref][r], [r], [nope]

[r]: <ref d.md> "t"
[^1]: foot

```
[[fence]] [fence](fence.md)
```

<!-- [comment](comment.md) -->

    [indented](indented.md)

[[n]](real.md) [see [[inner]] x](outer.md) [mail](mailto:a@b) [&amp;](a&amp;b\\_c.md?q)
"""


def _shown(text: str) -> list[tuple[str, str, str, int]]:
    return [(link.style, link.target, link.anchor, link.line) for link in read_markup(text).links]


def test_links_of_every_style_are_found_and_nothing_else() -> None:
    assert _shown(EVERY_STYLE) == [
        ("wiki", "front", "", 2),
        ("inline", "title.md", "", 4),
        ("inline", "./a b.md", "#x", 6),
        ("wiki", "b", "#h", 6),
        ("wiki", "emb", "", 6),
        ("inline", "img.png", "", 6),
        ("inline", "q (1).md", "", 7),
        ("wiki", "in item", "", 9),
        ("wiki", "t", "", 11),
        ("inline", "x.md", "", 13),
        ("inline", "x.md", "", 13),
        ("inline", "y|.md", "", 13),
        ("reference", "ref d.md", "", 15),
        ("reference", "ref d.md", "", 15),
        ("definition", "ref d.md", "", 17),
        ("inline", "real.md", "", 28),
        ("wiki", "inner", "", 28),
        ("inline", "a&b_c.md", "?q", 28),
    ]
    assert read_markup(EVERY_STYLE).title == "The big t c"


def test_each_link_can_be_replaced_where_it_stands_and_no_other_changes() -> None:
    _replaces_each(EVERY_STYLE)


def _replaces_each(text: str) -> None:
    links = read_markup(text).links
    for number, link in enumerate(links):
        assert text[link.span.start] in "[!"
        if link.place is None:
            continue
        # An empty label or a code span may begin where the target was: words are safe.
        new = edited(text, [Edit(*link.place, "zzz" if link.style == "wiki" else "zzz.md")])
        found = read_markup(new).links
        assert len(found) == len(links)
        assert found[number].target.startswith("zzz")
        uses = {number, *(n for n, other in enumerate(links) if other.style == "reference")}
        for other, (before, after) in enumerate(zip(links, found, strict=True)):
            assert other in uses or (before.style, before.target) == (after.style, after.target)


# fmt: off
_PIECES = st.sampled_from([
    "[a](b.md)", "[[w]]", "[[w|x]]", "[[w\\|x]]", "![i](p.png)", "[r]", "[r]: d.md\n", "[x](<y z.md>)", "[l\nm](n.md)",
    "> ", "- ", "1. ", "# ", "| ", " |", "|---|---|\n", "\n", "\n\n", "`", "```\n", "\t", "    ", "\r\n", "\\", "*",
    "a", "b", " ", "<", ">", "!", "&amp;", "é", "中", "[", "]", "(", ")", "\0", "]]", "[[", "](", "---\n", "x: y\n",
])
# fmt: on


@given(st.lists(_PIECES, max_size=24).map("".join))
@example("| a | [[b\\|c]] |\n|---|---|\n| \\| | [[b\\|c]] [x](y.md) |")
@example(">\t- [a](b.md)\n>   [a](b.md)")
def test_links_in_any_text_stand_where_they_are_said_to(text: str) -> None:
    _replaces_each(text)


@pytest.mark.parametrize(
    "text", ["[" * 20_000, "[[" * 10_000, "[a](" * 5_000, "![[" * 5_000, "> " * 3_000 + "[a](b.md)"]
)
def test_hostile_texts_are_parsed_too(text: str) -> None:
    assert len(read_markup(text).links) <= 1


# -- what a link means ----------------------------------------------------------------------------------------------

PAGES = (
    "MEMORY.md",
    "travel.md",
    "knowledge/finance/etf.md",
    "knowledge/finance/gold.md",
    "knowledge/metals/gold.md",
    "knowledge/metals/C# (x).md",
    "memory/users/ann/secret.md",
    "memory/users/ann/knowledge/mine.md",
)


def _link(text: str) -> Link:
    (link,) = read_markup(text).links
    return link


@pytest.mark.parametrize(
    ("page", "text", "meant"),
    [
        ("knowledge/finance/etf.md", "[x](gold.md)", "knowledge/finance/gold.md"),
        ("knowledge/finance/etf.md", "[x](../metals/gold.md#y)", "knowledge/metals/gold.md"),
        ("knowledge/finance/etf.md", "[x](../metals/Gold.MD)", "knowledge/metals/gold.md"),
        ("knowledge/finance/etf.md", "[x](../metals/gold)", "knowledge/metals/gold.md"),
        ("knowledge/finance/etf.md", "[x](/travel.md)", "travel.md"),
        ("knowledge/finance/etf.md", "[x](/metals/gold.md)", "knowledge/metals/gold.md"),
        ("knowledge/finance/etf.md", "[x](../../../etc/passwd)", None),
        ("knowledge/finance/etf.md", "[x](nothing.md)", "knowledge/finance/nothing.md"),
        ("knowledge/finance/etf.md", "[x](../metals/C%23%20%28x%29.md)", "knowledge/metals/C# (x).md"),
        ("knowledge/finance/etf.md", "[[gold]]", "knowledge/finance/gold.md"),
        ("knowledge/metals/C# (x).md", "[[Gold]]", "knowledge/metals/gold.md"),
        ("MEMORY.md", "[[metals/gold]]", "knowledge/metals/gold.md"),
        ("MEMORY.md", "[[knowledge/metals/gold.md]]", "knowledge/metals/gold.md"),
        ("MEMORY.md", "[[als/gold]]", None),
        ("MEMORY.md", "[[travel]]", "travel.md"),
        ("MEMORY.md", "[[nothing]]", None),
        ("MEMORY.md", "[[secret]]", None),
        ("memory/users/ann/knowledge/mine.md", "[[secret]]", "memory/users/ann/secret.md"),
        ("memory/users/ann/secret.md", "[[mine]] ", "memory/users/ann/knowledge/mine.md"),
        ("memory/users/bob/x.md", "[[mine]]", None),
        ("memory/users/bob/x.md", "[x](../ann/secret.md)", "memory/users/ann/secret.md"),
    ],
)
def test_a_link_means_the_page_that_a_reader_would_expect(page: str, text: str, meant: str | None) -> None:
    assert Pages(PAGES).resolve(page, _link(text)) == meant


# -- moving ---------------------------------------------------------------------------------------------------------


def _moved(pages: Mapping[str, str], moves: Mapping[str, str]) -> dict[str, str]:
    """All pages after moves, with links adapted."""
    before = Pages(pages)
    move = Move(moves, before, before.moved(moves))
    result = {}
    for path, text in pages.items():
        edits = link_edits(text, read_markup(text), path, move)
        assert not edits or move.concerns(path, text)
        result[moves.get(path, path)] = edited(text, edits)
    return result


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("[x](b/p.md)", "[x](c/q%20%281%29.md)"),
        ("[x](./b/p.md#h 'title')", "[x](./c/q%20%281%29.md#h 'title')"),
        ("[x](<b/p.md>)", "[x](c/q%20%281%29.md)"),
        ("[x](/b/p.md)", "[x](/c/q%20%281%29.md)"),
        ("[x](b/p)", "[x](c/q%20%281%29.md)"),
        ('[x][d]\n\n[d]: b/p.md "t"', '[x][d]\n\n[d]: c/q%20%281%29.md "t"'),
        ("[[p]]", "[[q (1)]]"),
        ("[[p#h|alias]]", "[[q (1)#h|alias]]"),
        ("[[b/p]]", "[[c/q (1)]]"),
        ("[[b/p.md|x]]", "[[c/q (1).md|x]]"),
        ("[[./b/p]]", "[[./c/q (1)]]"),
        ("| a |\n|---|\n| [[p\\|x]] |", "| a |\n|---|\n| [[q (1)\\|x]] |"),
        ("`[[p]]` [p](web://b/p.md)", "`[[p]]` [p](web://b/p.md)"),
    ],
)
def test_links_follow_a_page_in_their_own_manner(text: str, after: str) -> None:
    assert _moved({"home.md": text, "b/p.md": ""}, {"b/p.md": "c/q (1).md"})["home.md"] == after


def test_links_of_the_page_that_moves_still_lead_to_where_they_led() -> None:
    text = "[x](q.md) ![i](img/i.png) [y](../top.md) [z](missing.md) [[q]] [s](p.md) [out](../../../x)"
    after = _moved({"a/b/p.md": text, "a/b/q.md": "", "a/top.md": ""}, {"a/b/p.md": "c/p.md"})
    assert after["c/p.md"] == (
        "[x](../a/b/q.md) ![i](../a/b/img/i.png) [y](../a/top.md) [z](../a/b/missing.md) [[q]] [s](p.md) "
        "[out](../../../x)"
    )


def test_a_name_that_a_wiki_link_cannot_hold_becomes_a_markdown_link() -> None:
    after = _moved({"home.md": "[[p]] [[p#h|A *b*]]", "p.md": ""}, {"p.md": "C#.md"})
    assert after["home.md"] == "[C#](C%23.md) [A \\*b\\*](C%23.md#h)"


def test_a_wiki_link_that_would_come_to_mean_another_page_gets_a_path() -> None:
    pages = {"home.md": "[[foo]] [[b/foo]]", "a/deep/foo.md": "", "b/bar.md": "", "b/foo.md": ""}
    assert _moved(pages, {"b/foo.md": "c/foo.md"})["home.md"] == "[[foo]] [[c/foo]]"
    pages = {"home.md": "[[foo]]", "a/deep/foo.md": "", "b/bar.md": ""}
    assert _moved(pages, {"b/bar.md": "b/foo.md"})["home.md"] == "[[deep/foo]]"


def test_a_link_of_somebody_elses_is_not_led_to_private_pages() -> None:
    pages = {"memory/users/ann/p.md": "", "home.md": "[x](memory/users/ann/p.md) [[p]]"}
    moves = {"memory/users/ann/p.md": "memory/users/ann/q.md"}
    assert "[[p]]" in _moved(pages, moves)["home.md"]


_NAMES = st.sampled_from(["a", "b", "C", "d e", "x(1)", "C#", "q]", "50%", "a&b", "中文", "é", "v1.2", "[y", "p|q"])
_PATHS = st.builds(lambda folders, name: "/".join([*folders, f"{name}.md"]), st.lists(_NAMES, max_size=2), _NAMES)


@st.composite
def _memories(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, str]]:
    """Pages that link to one another in all ways, and moves to paths that are free."""
    paths = draw(st.lists(_PATHS, min_size=2, max_size=6, unique_by=str.casefold))
    pages = {}
    for path in paths:
        links = []
        for target in draw(st.lists(st.sampled_from(paths), max_size=4)):
            there = encode(relative(path, target))
            wiki = target[:-3].split("/")
            name = "/".join(wiki[-draw(st.integers(1, len(wiki))) :])
            links.append(
                draw(st.sampled_from([f"[x]({there}#a)", f"[[{name}]]", f"[[{name}|y]]", f"[z](/{encode(target)})"]))
            )
        pages[path] = "\n\n".join(links)
    taken = {path.casefold() for path in paths}
    new = draw(st.lists(_PATHS.filter(lambda path: path.casefold() not in taken), max_size=2, unique_by=str.casefold))
    old = draw(st.permutations(paths))
    return pages, dict(zip(old, new, strict=False))


@given(_memories())
def test_after_any_move_every_link_leads_to_where_it_led(memory: tuple[dict[str, str], dict[str, str]]) -> None:
    pages, moves = memory
    before = Pages(pages)
    led = {
        moves.get(path, path): [before.resolve(path, link) for link in read_markup(text).links]
        for path, text in pages.items()
    }
    after = _moved(pages, moves)
    known = Pages(after)
    for path, text in after.items():
        for old, link in zip(led[path], read_markup(text).links, strict=True):
            assert old is None or known.resolve(path, link) == moves.get(old, old)


@given(st.text(max_size=30))
def test_an_escaped_title_is_shown_as_it_is(title: str) -> None:
    plain = " ".join(title.replace("\0", "\ufffd").split())
    markup = read_markup(f"# {escape(title)} .\n\n- [{escape(title)}](x.md)")
    assert markup.title == f"{plain} .".strip()
    assert [link.target for link in markup.links] == ["x.md"]
