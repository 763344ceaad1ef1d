"""What a user typed, as terms for the full-text index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vademecum.text.tokens import bigrams, clusters, expand, fold, script_runs, split_parts, word_runs

# Words that say nothing about what is sought, folded as tokens are. Kept short on purpose: rare words are weighed by
# their frequency anyway, and a word that means something in another language ("die", "mit", "est") must not be here.
_EMPTY_WORDS = """
a an and are as at be been but by can can't could did didn't do does doesn't don't for from had has have how i i'm if in
is isn't it it's its me my of on or our should so that that's the their them then there these they this those to was we
were what what's when where which who whom whose why will with would you your
der das und ist nicht wie wo ich wir von le la les et une qui que dans el los las una por
的 了 是 吗 呢 什么 怎么 为什 哪些 哪个 の は を に が и в на что как
"""
_STOP_WORDS = frozenset(_EMPTY_WORDS.split())
#: More than any question has; a pasted page is judged by its beginning.
MAX_TERMS = 256

# What is left of "Lin's", "we'll", "l'été" beside the apostrophe.
_CLIPPED = frozenset(("d", "l", "ll", "m", "re", "s", "t", "ve"))


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The terms of a query, in order, none twice; all empty if nothing in it can be looked up.

    ``terms`` is what is searched and scored: words, compounds whole and in parts, bigrams of scripts written
    without spaces (the single character for a run of one). ``words`` is the part of it that a text must hold to
    hold every word of the query: a compound counts by its parts there, because texts spell it in several ways.
    ``fallback`` are the single characters of the unspaced runs, for when ``terms`` find too little.
    """

    terms: tuple[str, ...]
    words: tuple[str, ...]
    fallback: tuple[str, ...]


def _without_stop_words(terms: Iterable[str]) -> tuple[str, ...]:
    unique = tuple(dict.fromkeys(terms))
    return tuple(term for term in unique if term not in _STOP_WORDS) or unique


def _compound(run: str) -> tuple[list[str], list[str]]:
    """Terms of a compound, and those that are its words: its parts, but ``don't``, ``C++`` and ``C#`` as they are."""
    tokens = expand(run)
    if "'" in run:
        stem = [] if run.endswith("n't") else [token for token in tokens[1:] if token not in _CLIPPED]
        return [*tokens[:1], *stem], tokens[:1]
    if run.endswith(("++", "#")):
        return tokens, tokens[:1]
    return tokens, split_parts(run)


def query_terms(text: str) -> QueryTerms:
    """Cut a query with the index's own tokeniser. Stop words go, unless there is nothing else; MAX_TERMS stay."""
    terms: list[str] = []
    words: list[str] = []
    fallback: list[str] = []
    for unspaced, piece in script_runs(fold(text)):
        if unspaced:
            units = clusters(piece)
            pairs = bigrams(units) or units
            terms += pairs
            words += pairs
            if len(units) > 1:
                fallback += units
            continue
        for run in word_runs(piece):
            tokens, parts = ([run], [run]) if run.isalnum() else _compound(run)
            terms += tokens
            words += parts
    kept = _without_stop_words(terms)[:MAX_TERMS]
    needed = set(words).intersection(kept)
    return QueryTerms(
        terms=kept,
        words=tuple(term for term in kept if term in needed) or kept,
        fallback=tuple(dict.fromkeys(fallback))[:MAX_TERMS],
    )


def match_expression(terms: Iterable[str]) -> str:
    """An FTS5 expression that matches any of the terms, each one a quoted string; "" for no terms."""
    return " OR ".join(f'"{term.replace(chr(34), chr(34) * 2)}"' for term in terms)
