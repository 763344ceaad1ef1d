"""Token estimates: by script, additive, and never far too low."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_text_tokens import TEXTS
from vademecum.text.estimate import WEIGHT_PER_TOKEN, estimate_tokens, weigh


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("", 0, 0),
        ("a", 1, 1),
        ("x" * 3500, 1000, 1000),
        ("风险偏好" * 1725, 6900, 6900),  # 6,900 characters, once taken for 1,976 tokens
        ("：" * 600, 600, 1200),
        ("🎉" * 100, 100, 200),
        ("─" * 100, 100, 200),
        ("カナ" * 50, 100, 100),
        ("게임" * 50, 100, 100),
        ("привет " * 100, 200, 400),
        ("สวัสดี" * 10, 20, 60),
        ("Zürich, déjà vu", 4, 8),
    ],
)
def test_the_estimate_goes_by_script(text: str, low: int, high: int) -> None:
    assert low <= estimate_tokens(text) <= high


@given(TEXTS, TEXTS)
def test_weights_of_parts_add_up_to_the_weight_of_the_whole(one: str, other: str) -> None:
    assert weigh(one) + weigh(other) == weigh(one + other)


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S", "Z", "C"])))
def test_the_weight_is_the_sum_over_characters_by_their_length_in_utf8(text: str) -> None:
    price = {1: 4, 2: 7, 3: 14, 4: 28}
    assert weigh(text) == sum(price[len(c.encode("utf-8", "surrogatepass"))] for c in text)
    assert (estimate_tokens(text) - 1) * WEIGHT_PER_TOKEN < weigh(text) <= estimate_tokens(text) * WEIGHT_PER_TOKEN
