"""How many tokens a model may see in a text, without asking the model."""

from __future__ import annotations

#: Weights are whole numbers so that the weights of parts add up to the weight of the whole.
WEIGHT_PER_TOKEN = 14

#: Weight of an ASCII character: 3.5 of them are a token.
WEIGHT_OF_ASCII = 4
_TWO_BYTES = 7  # accented Latin, Greek, Cyrillic, Hebrew, Arabic: 2 characters a token
_THREE_BYTES = 14  # Han, kana, Hangul, Indic scripts, full-width forms, box glyphs: 1 a token
_FOUR_BYTES = 28  # emoji, rare Han: 2 tokens each


def weigh(text: str) -> int:
    """Estimated tokens times WEIGHT_PER_TOKEN; additive over concatenation.

    The length of a character in UTF-8 is taken for its price: scripts that tokenisers know well have short codes.
    The four counts follow from four lengths, each of which the interpreter computes at native speed.
    """
    characters = len(text)
    if text.isascii():
        return characters * WEIGHT_OF_ASCII
    one = len(text.encode("ascii", "ignore"))
    four = len(text.encode("utf-16-le", "surrogatepass")) // 2 - characters
    middle = characters - one - four
    three = len(text.encode("utf-8", "surrogatepass")) - one - 4 * four - 2 * middle
    return one * WEIGHT_OF_ASCII + (middle - three) * _TWO_BYTES + three * _THREE_BYTES + four * _FOUR_BYTES


def estimate_tokens(text: str) -> int:
    """Estimated number of tokens, rounded up and on the safe side for scripts other than Latin; 0 only for ""."""
    return -(-weigh(text) // WEIGHT_PER_TOKEN)
