"""The block scanner: structure only where it is explicit, offsets and lines exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.text.markdown import FrontMatter, front_matter, inline_tags, normal_tag, scan, split_lines

LINES = (
    "# Title", "## Sub ##", "####### seven", "#tag", "text", "more text.", "Title", "====", "---", "--", "***",
    "- item", "  - nested", "1. one", "* star", "```", "```bash", "~~~", "- ```", "    # code", "    ```", "| a | b |",
    "|---|---|", "> quote", "", "   ", "王", "# 标题", "<!-- x -->", "tags: [a]", "key: value", "\u2028x", "\x0cform",
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
DOCUMENTS = st.one_of(
    st.text(),
    st.lists(st.tuples(st.sampled_from(LINES), ENDS)).map(lambda lines: "".join(map("".join, lines))),
    st.tuples(st.lists(st.sampled_from(LINES)), ENDS).map(lambda pair: "\ufeff" + pair[1].join(pair[0])),
)


def kinds(text: str) -> list[str]:
    return [block.kind for block in scan(text)]


def titles(text: str) -> list[tuple[int, str]]:
    return [(block.level, block.title) for block in scan(text) if block.kind == "heading"]


@given(DOCUMENTS)
def test_lines_are_exact_and_end_only_at_line_breaks(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert len(lines) == text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + (
        text[-1:] not in ("", "\r", "\n")
    )


@given(DOCUMENTS)
def test_blocks_are_ordered_whole_lines_and_leave_out_only_blank_ones(text: str) -> None:
    starts = [0]
    for line in split_lines(text):
        starts.append(starts[-1] + len(line))
    covered: set[int] = set()
    previous = 0
    for block in scan(text):
        assert previous <= block.start < block.end <= len(text)
        assert block.start == starts[block.start_line - 1] + (block.start_line == 1 and text.startswith("\ufeff"))
        assert text[block.end :][:1] in ("", "\r", "\n")
        assert starts[block.end_line - 1] <= block.end <= starts[block.end_line]
        covered.update(range(block.start_line, block.end_line + 1))
        previous = block.end
    for number, line in enumerate(split_lines(text), 1):
        assert number in covered or not line.lstrip("\ufeff").strip()


def test_every_kind_of_block_is_told_apart() -> None:
    text = (
        "---\ntags: [a]\n---\n# H1\ntext\nmore\n\nSetext\n======\n- one\n- two\n  goes on\n"
        "\n| a |\n|---|\n| b |\n\n***\n```py\n# no heading\n```\n"
    )
    assert kinds(text) == [
        "front_matter", "heading", "paragraph", "heading", "item", "item", "table", "rule", "fence",
    ]  # fmt: skip


def test_a_comment_inside_a_fence_is_no_heading() -> None:
    text = "# A\n```bash\n# install deps\npip install x\n```\n## B\n~~~\n# c\n```\n# d\n~~~\n"
    assert titles(text) == [(1, "A"), (2, "B")]
    assert kinds(text) == ["heading", "fence", "heading", "fence"]


def test_a_fence_that_is_not_closed_runs_to_the_end() -> None:
    assert kinds("# A\n````\n# b\n```\n# c\n\n\n") == ["heading", "fence"]
    assert scan("````\n# b\n```\n# c\n\n\n")[-1].end_line == 4


def test_a_fence_in_a_list_item_ends_where_it_is_closed() -> None:
    text = "- ```sh\n  # no\n  ```\n- b\n\n    ```\n    # no\n    ```\n# Yes\n"
    assert titles(text) == [(1, "Yes")]
    assert kinds(text) == ["fence", "item", "fence", "heading"]


def test_indented_code_and_quoted_code_are_not_structure() -> None:
    assert titles("    # code\n\n> # quoted\n> ```\n\n# Yes") == [(1, "Yes")]
    assert titles("    ```\n\n# Yes") == [(1, "Yes")]
    assert titles("`a` ``` x\n# Yes") == [(1, "Yes")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A", [(1, "A")]), ("   ### A ###", [(3, "A")]), ("#\tA", [(1, "A")]), ("# C#", [(1, "C#")]),
        ("#", [(1, "")]),
        ("## ##", [(2, "")]), ("#A", []), ("####### A", []), ("A\n=", []), ("A\n==", [(1, "A")]), ("A\n--", [(2, "A")]),
        ("A\n---\nB", [(2, "A")]), ("A\n\n---", []), ("- A\n---", []), ("A\n- - -", []), ("a\nb\n---", []),
        ("# A\r\nx\r\n", [(1, "A")]), ("# A\rx\r## B\r", [(1, "A"), (2, "B")]), ("\ufeff# A\n", [(1, "A")]),
        ("\ufeffA\n===", [(1, "A")]),
    ],
)  # fmt: skip
def test_headings_of_both_kinds_and_nothing_else(text: str, expected: list[tuple[int, str]]) -> None:
    assert titles(text) == expected


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_front_matter_is_seen_behind_a_byte_order_mark_and_with_any_line_end(start: str, end: str) -> None:
    text = start + end.join(["---", "tags: [Alpha, 'b c', \"#d\"]", "evergreen: true  # yes", "---", "# A", ""])
    assert kinds(text) == ["front_matter", "heading"]
    assert front_matter(text) == FrontMatter(("alpha", "b c", "d"), True)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("tags:\n  - a\n  - B # note\n- c\nother: x\n- d", FrontMatter(("a", "b", "c"))),
        ("tags: a, b", FrontMatter(("a", "b"))),
        ("tags: []", FrontMatter()),
        ("tags: # none", FrontMatter()),
        ("Tags: [a, a]\nEvergreen: false", FrontMatter(("a",), False)),
        ("evergreen: maybe", FrontMatter()),
        ("nested:\n  tags: [no]\n  evergreen: true", FrontMatter()),
        ("", FrontMatter()),
    ],
)
def test_front_matter_gives_tags_and_evergreen(inner: str, expected: FrontMatter) -> None:
    assert front_matter(f"---\n{inner}\n---\ntext") == expected


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA note that begins with a rule.\n\n---\n\nAnd goes on.\n",
        "---\n# Heading\n- item\n---\n",
        "---\ntags: [a]\nnever closed\n",
        "text\n---\ntags: [a]\n---\n",
        " ---\ntags: [a]\n---\n",
    ],
)
def test_what_is_not_front_matter_is_not_swallowed(text: str) -> None:
    assert "front_matter" not in kinds(text)
    assert front_matter(text) == FrontMatter()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A #Tag and #über-2/sub, (#here). #a.", ("tag", "über-2/sub", "here", "a")),
        ("# Heading\n## Two #in-heading", ("in-heading",)),
        ("#123 #fff #a1b2c3 #12345678 PR#9 x&#39; ##no", ()),
        ("`#no` ``#no ` x`` #yes", ("yes",)),
        ("```\n#no\n```\n[a](#anchor) http://x.org/#frag #项目", ("项目",)),
        ("#हिन्दी！ #q1-2026", ("हिन्दी", "q1-2026")),
        ("---\ntags: [x]\n# #no\n---\nnone here", ()),
    ],
)
def test_inline_tags_are_words_behind_a_hash_in_running_text(text: str, expected: tuple[str, ...]) -> None:
    assert inline_tags(text) == expected


def test_tags_compare_without_hash_and_case_and_in_composed_form() -> None:
    assert normal_tag(" #Cafe\u0301 ") == normal_tag("CAFÉ") == "café"


@given(DOCUMENTS)
def test_no_text_breaks_the_readers_of_tags(text: str) -> None:
    assert all(tag and "#" not in tag[:1] for tag in (*inline_tags(text), *front_matter(text).tags))
