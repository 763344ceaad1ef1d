"""What a model answered, without what it was not asked for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from vademecum.providers.sendable import sendable

_CONTROL = re.compile(r"<\|[^|>\n]{1,40}\|>|</?s>|\[/?INST\]")
_ROLE = re.compile(r"(?im)^\s*(?:assistant|user|system|ai|助手|用户|系统)\s*[:：]\s*")
#: What an older protocol put around its two parts.
_MARKER = re.compile(r"(?im)^\s*\[(?:DAILY|MEMORY|DREAM)\]\s*$")
_FENCED = re.compile(r"\A\s*(`{3,}|~{3,})[^\n]*\n(.*?)\n?\s*\1\s*\Z", re.DOTALL)
_BULLET = re.compile(r"\s{0,3}(?:[-*+•]|\d{1,3}[.)、])\s+")
_NOTHING = frozenset(
    {
        *("", "none", "nothing", "na", "no", "null", "empty", "nomemorytoflush", "nothingtoremember", "noneneeded"),
        *("nothingworthremembering", "nodurablefacts", "nofacts", "noevents"),
        *("无", "没有", "無", "沒有", "暂无", "无内容", "无需记录", "没有内容", "无记忆", "没有需要记录的内容"),
    }
)


def clean(answer: str, prompt: str) -> str:
    """``answer`` without control tokens, role markers, a code fence around the whole, and lines of the ``prompt``.

    Code inside the answer stays.
    """
    text = _CONTROL.sub("", sendable(answer).replace("\r\n", "\n"))
    if fenced := _FENCED.match(text):
        text = fenced[2]
    text = _MARKER.sub("", _ROLE.sub("", text))
    asked = {bare(line) for line in prompt.splitlines()}
    kept = [line for line in text.splitlines() if not line.strip() or len(bare(line)) < 12 or bare(line) not in asked]
    return "\n".join(kept).strip()


def says_nothing(text: str) -> bool:
    """Whether a cleaned answer only says, in one of the usual ways, that there is nothing to say."""
    return bare(text) in _NOTHING


def items(text: str) -> tuple[str, ...]:
    """The list items of a cleaned answer, without their marks; an indented line belongs to the item before it.

    Headings and prose around the list are not what was asked for, and items that say nothing say it too often.
    """
    found: list[str] = []
    for line in text.splitlines():
        if mark := _BULLET.match(line):
            found.append(line[mark.end() :].strip())
        elif found and line.strip() and line[0].isspace():
            found[-1] = f"{found[-1]} {line.strip()}"
    return tuple(item for item in found if not says_nothing(item))


# Words that carry no fact of their own. None of them negates, counts, compares or names.
_LIGHT_WORDS = frozenset(
    {
        *(
            "a",
            "an",
            "the",
            "this",
            "that",
            "it",
            "its",
            "s",
            "user",
            "users",
            "their",
            "his",
            "her",
            "they",
            "he",
            "she",
        ),
        *(
            "is",
            "are",
            "was",
            "were",
            "be",
            "been",
            "has",
            "have",
            "had",
            "of",
            "to",
            "in",
            "on",
            "at",
            "for",
            "and",
            "as",
        ),
    }
)
_LIGHT_MARKS = frozenset(".,;:!?'\"`*_()[]{}·…‘’“”、，。；：！？「」『』（）【】《》~")
_PIECES = re.compile(r"\w+|[^\w\s]")


def fact(item: str) -> tuple[str, ...]:
    """What an item says, for comparison: its words and signs in order, without the ones that carry no fact.

    Two items are near copies if their facts are equal. A differing number, sign, negation or name, or another order of
    them, makes another fact.
    """
    folded = unicodedata.normalize("NFKC", item).casefold()
    return tuple(part for part in _PIECES.findall(folded) if part not in _LIGHT_WORDS and part not in _LIGHT_MARKS)


def news(candidates: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """The ``candidates`` that are near copies neither of a ``known`` line nor of one another, in order."""
    seen = {fact(_BULLET.sub("", line, count=1)) for line in known}
    fresh: list[str] = []
    for item in candidates:
        key = fact(item)
        if key and key not in seen:
            seen.add(key)
            fresh.append(item)
    return tuple(fresh)


def bare(text: str) -> str:
    """The letters and digits of a text alone, in one letter case."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())
