"""What holds for the chunks of every text."""

from __future__ import annotations

import unicodedata
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from test_text_markdown import DOCUMENTS, LINES
from test_text_tokens import TEXTS
from vademecum.chunk import chunk_markdown, embedding_text
from vademecum.chunk.chunker import spans
from vademecum.settings import ChunkSettings
from vademecum.text.estimate import estimate_tokens
from vademecum.text.markdown import scan, split_lines
from vademecum.text.tokens import tokenize

SIZES = (16, 17, 40, 100, 400)
SETTINGS = st.sampled_from(SIZES).flatmap(
    lambda tokens: st.builds(ChunkSettings, st.just(tokens), st.integers(0, tokens // 2))
)
SENTENCES = st.lists(
    st.sampled_from(["Short one. ", "A longer sentence, as people write! ", "风险偏好是保守的。", "x" * 70])
)
LONG_LINES = st.one_of(SENTENCES.map("".join), TEXTS.map(lambda text: text * 20))
PAGES = st.one_of(
    DOCUMENTS,
    st.lists(st.one_of(st.sampled_from(LINES), LONG_LINES), max_size=60).map("\n".join),
)


def line_starts(text: str) -> list[int]:
    starts = [0]
    for line in split_lines(text):
        starts.append(starts[-1] + len(line))
    return starts


def places(text: str, sizes: ChunkSettings) -> list[tuple[int, int]]:
    """Start and end of every chunk; text that repeats itself does not tell."""
    return [(span.start, span.end) for _, span in spans(text, sizes)]


def front_matter_end(text: str) -> int:
    return max((block.end for block in scan(text) if block.kind == "front_matter"), default=0)


@given(PAGES, SETTINGS)
def test_every_chunk_is_an_exact_slice_that_begins_and_ends_on_its_lines(text: str, sizes: ChunkSettings) -> None:
    chunks = chunk_markdown(text, sizes)
    starts = line_starts(text)
    for chunk, (start, end) in zip(chunks, places(text, sizes), strict=True):
        assert chunk.text == text[start:end]
        assert starts[chunk.start_line - 1] <= start < starts[chunk.start_line]
        assert starts[chunk.end_line - 1] < end <= starts[chunk.end_line]
        assert chunk.text.strip()


@given(PAGES, SETTINGS)
def test_every_character_that_is_not_blank_is_in_a_chunk(text: str, sizes: ChunkSettings) -> None:
    covered = bytearray(len(text))
    for start, end in places(text, sizes):
        covered[start:end] = b"x" * (end - start)
    first = max(front_matter_end(text), text.startswith("\ufeff"))
    lost = [text[i] for i in range(first, len(text)) if not covered[i] and not text[i].isspace()]
    assert not lost


@given(PAGES, SETTINGS)
def test_no_chunk_is_much_heavier_than_the_budget(text: str, sizes: ChunkSettings) -> None:
    for chunk in chunk_markdown(text, sizes):
        # One character with its marks may weigh more than the smallest budget.
        assert estimate_tokens(chunk.text) <= sizes.tokens + sizes.overlap_tokens + sizes.tokens // 4 + 1


@given(PAGES, SETTINGS)
def test_identities_are_unique_and_computed_from_what_the_chunk_says(text: str, sizes: ChunkSettings) -> None:
    chunks = chunk_markdown(text, sizes)
    assert len({(chunk.heading, chunk.hash, chunk.occurrence) for chunk in chunks}) == len(chunks)
    for pair, number in Counter((chunk.heading, chunk.hash) for chunk in chunks).items():
        assert {chunk.occurrence for chunk in chunks if (chunk.heading, chunk.hash) == pair} == set(range(number))
    assert len({(chunk.heading, chunk.text) for chunk in chunks}) >= len({chunk.hash for chunk in chunks})
    for chunk in chunks:
        assert chunk.words == " ".join(tokenize(chunk.text))
        assert chunk.heading_words == " ".join(tokenize(" ".join(chunk.heading)))
        assert embedding_text(chunk.heading, chunk.text).endswith(chunk.text)


@given(PAGES, SETTINGS)
def test_equal_texts_give_equal_chunks(text: str, sizes: ChunkSettings) -> None:
    assert chunk_markdown(text, sizes) == chunk_markdown(text, sizes)


@given(PAGES, SETTINGS)
def test_the_heading_path_holds_for_all_text_of_the_chunk(text: str, sizes: ChunkSettings) -> None:
    path: list[tuple[int, str]] = []
    path_of_line: dict[int, tuple[str, ...]] = {}
    for block in scan(text):
        if block.kind == "heading":
            path = [(level, title) for level, title in path if level < block.level]
            path.append((block.level, block.title[:80].strip()))
        elif block.kind != "front_matter":
            for line in range(block.start_line, block.end_line + 1):
                path_of_line[line] = tuple(title for _, title in path if title)
    for chunk in chunk_markdown(text, sizes):
        for line in range(chunk.start_line, chunk.end_line + 1):
            if line in path_of_line:
                assert path_of_line[line][: len(chunk.heading)] == chunk.heading


@given(PAGES, SETTINGS)
def test_no_chunk_begins_inside_a_character(text: str, sizes: ChunkSettings) -> None:
    for start, _ in places(text, sizes):
        if start and unicodedata.category(text[start])[0] == "M":
            before = text[max(0, start - 60) : start]
            endless = len(before) == 60 and all(unicodedata.category(c)[0] == "M" for c in before[1:])
            assert endless or before[-1].isspace() or unicodedata.category(before[-1])[0] == "C"


@settings(max_examples=50)
@given(st.lists(st.text("abcdefgh ", min_size=30, max_size=90), min_size=60, max_size=120, unique=True), st.data())
def test_an_edit_anywhere_in_a_long_list_leaves_the_chunks_away_from_it(items: list[str], data: st.DataObject) -> None:
    sizes = ChunkSettings(tokens=100, overlap_tokens=20)
    lines = [f"- {item}." for item in items]
    at = data.draw(st.integers(0, len(lines)))
    before = chunk_markdown("\n".join(lines), sizes)
    after = chunk_markdown("\n".join([*lines[:at], "- inserted", "- twice", *lines[at:]]), sizes)
    known = {chunk.hash for chunk in before}
    changed = [number for number, chunk in enumerate(after) if chunk.hash not in known]
    assert changed
    untouched = [chunk for chunk in before if chunk.end_line <= at - 12]
    assert {chunk.hash for chunk in untouched} <= {chunk.hash for chunk in after}
    assert len(changed) <= 12
