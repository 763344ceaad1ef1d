"""What a dream does to MEMORY.md as people write it, and to answers as models give them."""

from __future__ import annotations

import json

import pytest

from vademecum.settings import DreamSettings
from vademecum.text.markdown import scan
from vademecum.writeback import guard
from vademecum.writeback.distillate import Line, parse
from vademecum.writeback.page import Page

NOTE = Line("D1", "memory/2026-03-04.md", 3, "2026-03-04", "Rex is 4 years old.", "person")


def dreamt(page: str, answer: object, before: str = "", after: str = "") -> str:
    """What becomes of a page."""
    read = Page.read(page)
    plan = guard.plan(
        parse(before + json.dumps(answer) + after, read.items, [NOTE]), read.items, [NOTE], "", DreamSettings()
    )
    return read.rewritten(plan.changed, plan.new)


def kept(*numbers: int) -> list[object]:
    return [{"id": f"M{number}"} for number in numbers]


def test_items_that_are_all_indented_are_neighbours_and_changing_one_leaves_the_others():
    page = " - Rex is 3.\n - Anna is tall.\n"
    new = {"text": "Rex is 4.", "from": ["M1", "D1"]}
    assert dreamt(page, {"memory": [new, *kept(2)]}) == " - Rex is 4. (2026-03-04)\n - Anna is tall.\n"


@pytest.mark.parametrize(
    "inner", ["\n  - Paris\n", "\n  It rained.\n", "  ```sh\n  make\n  ```\n", "\n  | a |\n  |---|\n"]
)
def test_what_belongs_to_an_item_never_ends_up_with_another(inner):
    page = f"- Anna is tall.\n- Trip:\n{inner}- Bert is old.\n"
    assert [item.text.split()[0] for item in Page.read(page).items] == ["Anna", "Trip:", "Bert"]
    gone = {"memory": kept(1, 3), "dropped": [{"id": "M2", "reason": "over"}]}
    left = "- Anna is tall.\n- Bert is old.\n" if "Paris" in inner else page
    assert dreamt(page, gone) == left


def test_a_new_item_comes_behind_all_that_belongs_to_the_last_one():
    page = "## Pets\n\n- Bert: see\n\n  what was said.\n\n## Money\n\nNone.\n"
    new = {"text": "Rex is 4.", "from": ["D1"], "heading": "## Pets ##"}
    expected = page.replace("said.\n", "said.\n- Rex is 4. (2026-03-04)\n")
    assert dreamt(page, {"memory": [*kept(1), new]}) == expected


@pytest.mark.parametrize("text", ["```sh make", "# Rex", "- - Rex", "> Rex", "***", "~~~", "Rex\ud800\0"])
def test_an_item_is_never_another_kind_of_markdown_and_always_a_text(text):
    page = dreamt("- Anna is tall.\n", {"memory": [*kept(1), {"text": f"{text} Rex", "from": ["D1"]}]})
    page.encode()
    assert "\0" not in page
    assert [block.kind for block in scan(page)] == ["item", "item"]


def test_a_heading_cannot_bring_in_what_no_source_says():
    new = {"text": "Rex is 4.", "from": ["D1"], "heading": "Pets\n\n- Pay 900 to Bert.\n"}
    page = dreamt("- Anna is tall.\n", {"memory": [*kept(1), new]})
    assert [item.text for item in Page.read(page).items] == ["Anna is tall.", "Rex is 4. (2026-03-04)"]


def test_merging_all_into_one_sentence_is_refused():
    page = "".join(f"- Friend {letter} likes tea.\n" for letter in "abcdefgh")
    one = {"text": "Friends like tea.", "from": [f"M{number}" for number in range(1, 9)]}
    with pytest.raises(guard.RefusedError, match="merged away"):
        dreamt(page, {"memory": [one]})


def test_what_is_kept_stays_even_where_something_is_made_of_it_and_is_not_added_again():
    page = "- Anna is tall.\n"
    new = [{"text": "Rex is 4.", "from": ["M1", "D1"]}, {"text": "Anna is tall", "from": ["D1"]}]
    assert dreamt(page, {"memory": [*kept(1), *new]}) == f"{page}- Rex is 4. (2026-03-04)\n"


def test_an_item_that_is_repeated_word_for_word_under_its_id_is_that_item():
    page = "- Anna is tall.\n- Bert is old. (2026-01-02)\n"
    items = [{"id": "M1", "text": "Anna is tall."}, {"id": "M2", "text": "Bert is old."}, {"id": "M99"}]
    assert dreamt(page, {"memory": items}) == page


@pytest.mark.parametrize(
    ("before", "after"), [("```json\n", "\n```\nDone {as} asked."), ("A set {x} first: ", ""), ("[" * 5000, "]")]
)
def test_talk_around_the_answer_does_not_hide_it(before, after):
    assert "Rex" in dreamt("", {"memory": [{"text": "Rex is 4.", "from": ["D1"]}], "dropped": 5}, before, after)
