"""index.md: always true, and whatever a person wrote into it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vademecum.knowledge.index_page import dead_links, missing, revise
from vademecum.knowledge.index_view import Shelf
from vademecum.knowledge.targets import Pages

pytest.importorskip("markdown_it", reason="the package markdown-it-py is not installed (vademecum[knowledge])")

TITLES = {"a.md": "A", "x/b.md": "B [core]", "x/c (1).md": "C", "y/z/d.md": "*D*"}


def _shelf(titles: Mapping[str, str], **given: object) -> Shelf:
    paths = {f"knowledge/{path}": title for path, title in titles.items()}
    pages = Pages([*paths, "MEMORY.md"])
    return Shelf("knowledge/", frozenset(paths), paths.__getitem__, pages, lambda _: False, **given)  # type: ignore[arg-type]


def _without(*paths: str) -> dict[str, str]:
    return {path: title for path, title in TITLES.items() if path not in paths}


def _full(paths: Iterable[str]) -> frozenset[str]:
    return frozenset(f"knowledge/{path}" for path in paths)


def test_a_new_index_lists_all_pages_by_category() -> None:
    assert revise("", _shelf(TITLES)) == (
        "# Knowledge\n\n- [A](./a.md)\n\n## x\n\n- [B \\[core\\]](./x/b.md)\n- [C](./x/c%20%281%29.md)\n\n"
        "## y/z\n\n- [\\*D\\*](./y/z/d.md)\n"
    )


def test_new_entries_join_the_others_of_their_category_and_nothing_else_changes() -> None:
    old = "# Mine\n\nIntro.\n\n## X\n\nAbout x.\n\n- [b](x/b.md): the **core**\n  goes on\n\nOutro.\n\n## Else\n\ntext"
    assert revise(old, _shelf(TITLES)) == (
        "# Mine\n\nIntro.\n\n- [A](./a.md)\n\n## X\n\nAbout x.\n\n- [b](x/b.md): the **core**\n  goes on\n"
        "- [C](./x/c%20%281%29.md)\n\nOutro.\n\n## Else\n\ntext\n\n## y/z\n\n- [\\*D\\*](./y/z/d.md)\n"
    )


@pytest.mark.parametrize(
    "old",
    [
        "# I\n\n## Y\n\n### z\n\n- [a](a.md) [b](x/b.md) [c](x/c%20(1).md)\n",
        "# I\n\n## Y-z\n\nProse [[a]], [[b]], [[c (1)|c]].\n\n## Y/Z\n",
    ],
)
def test_the_section_of_a_category_is_known_by_its_path_or_its_place(old: str) -> None:
    gap = "" if old.endswith(")\n") else "\n"
    assert revise(old, _shelf(TITLES)) == f"{old}{gap}- [\\*D\\*](./y/z/d.md)\n"


def test_a_section_of_another_name_is_joined_if_it_is_all_about_the_category() -> None:
    old = "- [A](a.md)\n\n## Money\n\n- [b](x/b.md)\n- [c](x/c%20(1).md)\n\n## Best\n\n- [d](y/z/d.md)\n"
    titles = {**TITLES, "x/e.md": "E", "y/z/f.md": "F"}
    new = old.replace("\n\n## Best", "\n- [E](./x/e.md)\n\n## Best") + "\n## y/z\n\n- [F](./y/z/f.md)\n"
    assert revise(old, _shelf(titles)) == new


def test_the_entry_of_a_removed_page_goes_and_its_section_with_it() -> None:
    old = revise("", _shelf(TITLES)).replace("d.md)", "d.md): a summary")
    new = revise(old, _shelf(_without("y/z/d.md"), removed=_full(["y/z/d.md"])))
    assert new == "# Knowledge\n\n- [A](./a.md)\n\n## x\n\n- [B \\[core\\]](./x/b.md)\n- [C](./x/c%20%281%29.md)\n"


def test_links_to_missing_pages_in_prose_become_plain_text() -> None:
    old = (
        "# I\n\nSee [*D*](y/z/d.md), [[d|the d]], ![[d]] and [d][r].\n\n- [gone](gone.md)\n- [gone](gone.md) as said\n"
    )
    old += "- [A](a.md), [gone](gone.md)\n\n[r]: y/z/d.md\n\n## x\n\n- [b](x/b.md) [c](x/c%20(1).md)\n"
    new = revise(old, _shelf(_without("y/z/d.md"), removed=_full(["y/z/d.md"])))
    assert new == (
        "# I\n\nSee *D*, the d, !d and d.\n\n- gone as said\n- [A](a.md), gone\n\n\n\n## x\n\n"
        "- [b](x/b.md) [c](x/c%20(1).md)\n"
    )


def test_links_to_other_things_stay() -> None:
    old = (
        revise("", _shelf(TITLES))
        + "\n[m](../MEMORY.md) [w](https://x.y/z.md) ![i](i.png) [[i.png]] [x](../x.md) [y](x)\n"
    )
    assert revise(old, _shelf(TITLES)) == old


def test_what_may_exist_in_an_unreadable_folder_is_not_struck_out() -> None:
    old = revise("", _shelf(TITLES))
    assert revise(old, _shelf(_without("y/z/d.md"), unreadable=("knowledge/y",))) == old


def test_the_entry_of_a_moved_page_follows_it_with_its_summary() -> None:
    titles = {**_without("x/b.md"), "new/b.md": "B [core]"}
    moved = {"knowledge/x/b.md": "knowledge/new/b.md"}
    old = "# I\n\n- [A](a.md)\n\n## x\n\n- [b](new/b.md) summary\n  of two lines\n- [C](x/c%20(1).md)\n\n"
    old += "## Best\n\n- [b](new/b.md) best\n\n## y/z\n\n- [d](y/z/d.md)\n"
    assert revise(old, _shelf(titles, moves=moved)) == (
        "# I\n\n- [A](a.md)\n\n## x\n\n- [C](x/c%20(1).md)\n\n## Best\n\n- [b](new/b.md) best\n\n## y/z\n\n"
        "- [d](y/z/d.md)\n\n## new\n\n- [b](new/b.md) summary\n  of two lines\n"
    )


def test_a_label_follows_the_title_only_if_it_was_the_title() -> None:
    old = "# I\n\n- [Old \\*t\\*](a.md) x\n- [mine](x/b.md)\n- [C](x/c%20(1).md)\n- [D](y/z/d.md)\n"
    formers = {"knowledge/a.md": "Old *t*", "knowledge/x/b.md": "Old b"}
    assert revise(old, _shelf(TITLES, retitled=formers)) == old.replace("Old \\*t\\*", "A")


def test_line_ends_are_kept() -> None:
    old = revise("", _shelf(_without("a.md"))).replace("\n", "\r\n")
    new = revise(old, _shelf(TITLES))
    assert new.count("\r\n") == new.count("\n") == old.count("\n") + 2
    assert revise(new, _shelf(TITLES)) == new


@pytest.mark.parametrize("open_end", ["```\ncode", "<!-- comment", "<div>\n<pre>", "    code"])
def test_an_unfinished_block_at_the_end_does_not_swallow_entries(open_end: str) -> None:
    new = revise(f"# I\n\n{open_end}\n", _shelf(TITLES))
    assert missing(new, _shelf(TITLES)) == []
    assert open_end in new


# fmt: off
_LINES = st.sampled_from([
    "# I", "## x", "## y/z", "### z", "## Other", "", "", "prose", "- [A](a.md) s", "- [b](./x/b.md)", "  goes on",
    "  - [c](x/c%20(1).md)", "- [gone](x/gone.md)", "- [gone](x/gone.md) said", "see [[d]] and [[gone]]", "> - [[a]]",
    "1. **[A](a.md)**", "| [b](x/b.md) |", "|---|", "```", "[r]: a.md", "[r][r] [r]", "- [ ] [[b]]", "<div>", "***",
    "---",
])
# fmt: on


@given(st.lists(_LINES, max_size=14).map("\n".join), st.sets(st.sampled_from(sorted(TITLES))), st.booleans())
@example("- [gone](x/gone.md)\n  - [A](a.md)", set(), False)
@example("| [b](x/b.md) |\n|---|\n| [[gone\\|x]] |", set(), False)
def test_the_index_is_true_after_any_revision_and_then_stays_as_it_is(text: str, gone: set[str], told: bool) -> None:
    shelf = _shelf(_without(*gone), removed=_full(gone) if told else frozenset())
    new = revise(text, shelf)
    assert missing(new, shelf) == []
    assert dead_links(new, shelf) == []
    assert revise(new, shelf) == new
    # What is said of a page goes with it when it is removed; nothing else does.
    for line in ("***", "## Other") if told else ("***", "## Other", "prose", "goes on"):
        assert new.count(line) == text.count(line)
