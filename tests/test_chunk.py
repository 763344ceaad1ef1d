"""Chunks of real shapes of notes, and each fault that chunkers are known for, on its smallest input."""

from __future__ import annotations

import base64
import random
import time
from hashlib import sha256
from itertools import pairwise

import pytest

from vademecum.chunk import CHUNKER_ID, chunk_markdown, embedding_text
from vademecum.chunk.chunker import spans
from vademecum.settings import ChunkSettings
from vademecum.text.estimate import estimate_tokens
from vademecum.text.tokens import tokenize
from vademecum.types import Chunk

DEFAULT = ChunkSettings()
SMALL = ChunkSettings(tokens=64, overlap_tokens=16)


def chunks(text: str, settings: ChunkSettings = DEFAULT) -> list[Chunk]:
    return chunk_markdown(text, settings)


def words(count: int, seed: str = "w") -> str:
    return " ".join(f"{seed}{number}" for number in range(count))


def bullets(count: int, seed: int = 0) -> list[str]:
    """Items as people write them: 5 to 15 words."""
    source = random.Random(seed)
    return [
        "- " + " ".join(f"word{source.randrange(3000)}" for _ in range(source.randint(5, 15))) for _ in range(count)
    ]


# What a chunk says of itself


def test_a_chunk_says_what_it_is() -> None:
    (chunk,) = chunks("# Alice\n\n## Phone Numbers\n\n- 555-1234\n")
    assert chunk.text == "# Alice\n\n## Phone Numbers\n\n- 555-1234"
    assert (chunk.start_line, chunk.end_line) == (1, 5)
    assert chunk.heading == ("Alice", "Phone Numbers")
    assert chunk.words.split(" ") == tokenize(chunk.text)
    assert chunk.heading_words == "alice phone numbers"
    assert chunk.hash == sha256(embedding_text(chunk.heading, chunk.text).encode()).digest()
    assert chunk.occurrence == 0


def test_the_chunker_has_a_name_for_its_rules() -> None:
    assert CHUNKER_ID


@pytest.mark.parametrize("blank", ["", "\n", "  \n\t\n", "\r\n\r\n", "\ufeff", "\ufeff\n", "\n" * 5000])
def test_a_blank_text_has_no_chunks(blank: str) -> None:
    assert chunks(blank) == []


@pytest.mark.parametrize("body", ["王", "x", "- 王", "\ufeff王\r\n"])
def test_a_body_of_one_character_is_kept(body: str) -> None:
    (chunk,) = chunks(body)
    assert chunk.text == body.strip("\ufeff\r\n")


def test_headings_are_embedded_with_the_text_but_none_twice() -> None:
    assert embedding_text((), "text") == "text"
    assert embedding_text(("A", "B"), "text") == "A › B\ntext"
    assert embedding_text(("A", "B"), "## B\n\ntext") == "A\n## B\n\ntext"
    assert embedding_text(("A", "B"), "# A\n\n## B\n\ntext") == "# A\n\n## B\n\ntext"
    assert embedding_text(("A", "B"), "B\n---\ntext") == "A\nB\n---\ntext"
    assert embedding_text(("A", "B"), "text about B\n\n## B") == "A › B\ntext about B\n\n## B"


def test_the_same_text_under_another_heading_is_another_chunk() -> None:
    pages = chunks(f"# P\n\n## Alice\n\n### Phone\n\n{words(60)}\n\n## Bob\n\n### Phone\n\n{words(60)}\n", SMALL)
    assert {chunk.heading for chunk in pages} == {("P", "Alice", "Phone"), ("P", "Bob", "Phone")}
    assert len({chunk.hash for chunk in pages}) == len(pages)


def test_equal_pieces_are_told_apart_by_occurrence() -> None:
    same = chunks(f"# A\n\n{words(60)}\n\n# A\n\n{words(60)}\n", SMALL)
    assert len(same) % 2 == 0
    assert [chunk.occurrence for chunk in same] == [0] * (len(same) // 2) + [1] * (len(same) // 2)
    line = chunks("ab" * 50_000)
    assert len({(chunk.heading, chunk.hash, chunk.occurrence) for chunk in line}) == len(line) > 10


def test_lone_surrogates_and_nul_do_not_stop_a_file() -> None:
    (chunk,) = chunks("a \ud800 b\0c")
    assert chunk.words == "a b c"


def test_a_very_long_heading_does_not_swell_every_chunk() -> None:
    pages = chunks("# " + "word " * 2000 + "\n\n" + "\n\n".join(bullets(100)))
    assert max(len(title) for chunk in pages for title in chunk.heading) <= 80
    assert max(estimate_tokens(chunk.text) for chunk in pages) <= 500


# Sections


def test_sections_do_not_share_chunks() -> None:
    first, second, third = chunks(
        f"# Day\n\n## Morning\n\n{words(90)}\n\n## Noon\n\n{words(90)}\n\n# Next\n\n{words(90)}"
    )
    assert first.heading == ("Day", "Morning")
    assert first.text.startswith("# Day\n\n## Morning\n\n")
    assert second.heading == ("Day", "Noon")
    assert second.text.startswith("## Noon")
    assert third.heading == ("Next",)


def test_a_small_family_of_sections_stays_together_under_its_own_heading() -> None:
    text = "# Prefs\n\n" + words(120) + "\n\n## Tools\n\n### Editor\n\n- vim\n\n### Shell\n\n- zsh\n"
    prefs, tools = chunks(text)
    assert prefs.heading == ("Prefs",)
    assert tools.heading == ("Prefs", "Tools")
    assert tools.text == "## Tools\n\n### Editor\n\n- vim\n\n### Shell\n\n- zsh"


def test_small_sections_of_different_parents_are_never_mixed() -> None:
    people = "".join(f"## Person {n}\n\n### Phone\n\n555-{n}\n\n### Mail\n\np{n}@example.com\n\n" for n in range(40))
    pages = chunks("# People\n\n" + people)
    assert [chunk.heading for chunk in pages] == [("People", f"Person {n}") for n in range(40)]
    assert all(f"555-{n}\n" in chunk.text for n, chunk in enumerate(pages))


def test_a_heading_is_not_a_chunk_if_anything_follows() -> None:
    pages = chunks(f"# A\n\n## Empty\n\n## Full\n\n{words(90)}\n\n# B\n\n{words(90)}\n\n## Last\n")
    assert [chunk.heading for chunk in pages] == [("A", "Full"), ("B",)]
    assert pages[0].text.startswith("# A\n\n## Empty\n\n## Full")
    assert pages[1].text.endswith("## Last")


def test_a_file_of_headings_is_kept() -> None:
    (chunk,) = chunks("# Buy milk\n")
    assert (chunk.text, chunk.heading) == ("# Buy milk", ("Buy milk",))
    many = chunks("".join(f"# Heading number {n}\n" for n in range(300)))
    assert len(many) > 3
    assert max(estimate_tokens(chunk.text) for chunk in many) <= 400


def test_no_boundary_falls_behind_a_heading() -> None:
    text = f"# Title\n\n{words(20)}\n\n## Section\n\n```\n{words(80)}\n```\n\n{words(80)}\n"
    for chunk in chunks(text, ChunkSettings(tokens=150, overlap_tokens=40)):
        assert not chunk.text.splitlines()[-1].startswith("#")


def test_setext_headings_count_and_comments_in_fences_do_not() -> None:
    text = f"Title\n=====\n\n```bash\n# install deps\npip install x\n```\n\nPart\n----\n\n{words(120)}"
    first, second = chunks(text)
    assert first.heading == ("Title",)
    assert "# install deps\npip install x\n```" in first.text
    assert second.heading == ("Title", "Part")


def test_a_byte_order_mark_does_not_hide_the_first_heading() -> None:
    (chunk,) = chunks("\ufeff# First\r\n\r\ntext\r\n")
    assert (chunk.heading, chunk.text) == (("First",), "# First\r\n\r\ntext")


def test_front_matter_is_not_a_chunk_and_lines_still_count_it() -> None:
    (chunk,) = chunks("---\ntags: [a]\n---\n\nThe text.\n")
    assert (chunk.text, chunk.start_line, chunk.end_line) == ("The text.", 5, 5)
    assert chunks("---\ntags: [a]\n---\n") == []


# Size


def test_a_long_paragraph_is_cut_at_sentences() -> None:
    sentences = [f"Sentence number {n} says {words(12, f's{n}x')}." for n in range(80)]
    pages = chunks(" ".join(sentences))
    assert len(pages) > 4
    assert all(chunk.text.endswith(".") and chunk.text.startswith("Sentence") for chunk in pages)
    assert max(estimate_tokens(chunk.text) for chunk in pages) <= 400


def test_a_long_chinese_paragraph_is_cut_at_its_full_stops() -> None:
    pages = chunks("".join(f"第{n}句话说的是风险偏好，以及为什么不应该追涨。" for n in range(200)))
    assert len(pages) > 8
    assert all(chunk.text.endswith("。") and chunk.text.startswith("第") for chunk in pages)
    assert max(estimate_tokens(chunk.text) for chunk in pages) <= 400


def test_many_bullets_without_blank_lines_are_many_chunks() -> None:
    pages = chunks("\n".join(bullets(300)))
    assert len(pages) > 15
    assert max(estimate_tokens(chunk.text) for chunk in pages) <= 400
    assert all(chunk.text.startswith("- ") for chunk in pages)


@pytest.mark.parametrize("glyph", ["：", "─", "🎉", "王"])
def test_a_line_of_wide_glyphs_keeps_to_the_budget(glyph: str) -> None:
    pages = chunks(glyph * 600)
    assert len(pages) > 1
    assert max(estimate_tokens(chunk.text) for chunk in pages) <= 400


def test_chinese_is_budgeted_by_characters() -> None:
    assert max(len(chunk.text) for chunk in chunks("保守" * 3450)) <= 400


def test_a_fence_or_a_table_row_that_fits_is_never_cut() -> None:
    fence = "```python\n" + "\n".join(f"value_{n} = compute({n})" for n in range(40)) + "\n```"
    row = "| " + words(90) + " |"
    text = "\n\n".join([words(150), fence, words(150), "| a |\n|---|\n" + "\n".join([row] * 8), words(150)])
    pages = chunks(text)
    assert any(fence in chunk.text for chunk in pages)
    for chunk in pages:
        assert chunk.text.count("```") in (0, 2)
        assert all(line in ("| a |", "|---|", row) for line in chunk.text.splitlines() if line.startswith("|"))


def test_a_fence_beyond_the_budget_is_cut_between_lines() -> None:
    lines = [f"value_{n} = compute({n})" for n in range(400)]
    pages = chunks("```\n" + "\n".join(lines) + "\n```")
    assert len(pages) > 5
    assert {line for chunk in pages for line in chunk.text.splitlines()} == {"```", *lines}


@pytest.mark.parametrize(
    "character", ["e\u0301", "न्", "ก้", "👍🏽", "🇩🇪", "👨‍👩‍👧‍👦", "\u1112\u1161\u11ab", "か\u3099", "✈\ufe0f"]
)
def test_no_cut_falls_inside_a_character(character: str) -> None:
    pages = chunks(character * 3000, SMALL)
    assert len(pages) > 10
    for chunk in pages:
        assert chunk.text == character * (len(chunk.text) // len(character))


def test_a_character_of_endless_marks_does_not_hang_or_vanish() -> None:
    pages = chunks("a" + "\u0301" * 20_000)
    assert max(estimate_tokens(chunk.text) for chunk in pages) <= 480


# Overlap


def overlaps(pages: list[Chunk]) -> list[str]:
    """What each chunk has in common with the one before."""
    found = []
    for before, after in pairwise(pages):
        sizes = [n for n in range(len(after.text) + 1) if before.text.endswith(after.text[:n])]
        found.append(after.text[: max(sizes)])
    return found


def test_neighbours_share_whole_items() -> None:
    items = set(bullets(300))
    for shared in overlaps(chunks("\n".join(bullets(300)))):
        lines = shared.strip().split("\n")
        assert set(lines) <= items
        assert 0 < estimate_tokens(shared) <= 81


def test_two_small_paragraphs_before_a_large_one_are_shared_with_it() -> None:
    one, two, large = words(30, "a"), words(30, "b"), words(260, "c")
    first, second = chunks("\n\n".join([one, two, large]))
    assert first.text == f"{one}\n\n{two}"
    assert second.text == f"{two}\n\n{large}"


def test_no_chunk_is_contained_in_the_next() -> None:
    pages = chunks("\n\n".join(words(size, f"p{size}x") for size in (20, 25, 230, 30, 35, 225, 22, 228)))
    assert len(pages) > 3
    for before, after in pairwise(pages):
        assert before.text not in after.text


def test_the_last_sentences_of_a_large_paragraph_are_shared() -> None:
    large = " ".join(f"Sentence {n} has {words(8, f's{n}x')}." for n in range(25))
    for shared in overlaps(chunks(f"{large}\n\n{words(200)}\n")):
        assert shared.startswith("Sentence")
        assert shared.rstrip().endswith(".")


def test_nothing_is_shared_across_sections_or_when_overlap_is_off() -> None:
    assert set(overlaps(chunks(f"# A\n\n{words(100)}\n\n# B\n\n{words(100)}"))) == {""}
    off = ChunkSettings(overlap_tokens=0)
    assert set(overlaps(chunks("\n".join(bullets(300)), off))) == {""}


def test_a_wide_gap_is_neither_shared_nor_spanned() -> None:
    for gap in ("\n" * 5000, " " * 5000):
        assert max(len(chunk.text) for chunk in chunks(f"first.{gap}second")) < 100


# Identity


def test_two_lines_at_the_top_of_a_long_list_change_few_chunks() -> None:
    kept, changed = [], []
    for seed in range(40):
        lines = bullets(400, seed)
        before = {chunk.hash for chunk in chunks("# Log\n\n" + "\n".join(lines))}
        after = [chunk.hash for chunk in chunks("# Log\n\n" + "\n".join(["- new one", "- and two", *lines]))]
        kept.append(len(before.intersection(after)) / len(before))
        changed.append(sum(digest not in before for digest in after))
    assert sum(kept) / len(kept) >= 0.95
    assert max(changed) <= 4


def test_two_lines_at_the_top_of_a_page_of_sections_change_only_the_first() -> None:
    sections = "".join(f"## Section {n}\n\n{words(40, f's{n}x')}\n\n" for n in range(50))
    before = chunks("# Page\n\n" + sections)
    after = chunks("# Page\n\nTwo new\nlines.\n\n" + sections)
    assert [chunk.hash for chunk in before[1:]] == [chunk.hash for chunk in after[2:]]
    assert [chunk.start_line + 3 for chunk in before[1:]] == [chunk.start_line for chunk in after[2:]]


def test_appending_to_a_list_keeps_all_but_the_last_chunk() -> None:
    lines = bullets(400)
    before = [chunk.hash for chunk in chunks("\n".join(lines))]
    after = [chunk.hash for chunk in chunks("\n".join([*lines, "- one more"]))]
    assert before[:-1] == after[: len(before) - 1]


# Speed and size of input


def json_line(size: int) -> str:
    return '{"key": "value, and some text.", "n": 1}, ' * (size // 42)


def random_base64(size: int) -> str:
    return base64.b64encode(random.Random(1).randbytes(size * 3 // 4)).decode()


@pytest.mark.parametrize("line", [json_line, random_base64], ids=["json", "base64"])
def test_one_line_of_five_megabytes_is_cut_into_exact_slices_in_seconds(line: object) -> None:
    text = line(5_000_000)  # type: ignore[operator]
    start = time.process_time()
    pages = chunks(text)
    assert time.process_time() - start < 6  # 1 to 2 seconds on a quiet machine
    assert {(chunk.start_line, chunk.end_line) for chunk in pages} == {(1, 1)}
    assert max(estimate_tokens(chunk.text) for chunk in pages) <= 480
    places = [(span.start, span.end) for _, span in spans(text, DEFAULT)]
    assert [chunk.text for chunk in pages] == [text[slice(*place)] for place in places]
    assert all(text[before[1] : after[0]].isspace() or after[0] <= before[1] for before, after in pairwise(places))
    assert places[-1][1] == len(text.rstrip())


@pytest.mark.parametrize(
    "unit", ["- ", "* ", "#", "`", "` `` ", "|", ".a", "! ", "_", "# a\n", "\n", "> ", "- x\n", "---\n", "a: b\n"]
)
def test_no_repetition_takes_more_than_linear_time(unit: str) -> None:
    start = time.process_time()
    chunks("---\n" + unit * (200_000 // len(unit)) + "x")
    assert time.process_time() - start < 5
