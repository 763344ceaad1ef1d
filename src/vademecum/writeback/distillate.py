"""What a model is asked for at night, and what it answered, as records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from vademecum.errors import ProviderReplyError
from vademecum.providers.sendable import sendable
from vademecum.types import Origin
from vademecum.writeback.page import Item
from vademecum.writeback.reply import fact, items

_OBJECT = re.compile(r"\{\s*\"")
#: Places at which a model's answer may begin; before it stands talk, behind it too.
_MOST_OBJECTS = 20
_MEMORY = re.compile(r"(?m)^\s*\[MEMORY\]\s*$")
_DREAM = re.compile(r"(?m)^\s*\[DREAM\]\s*$")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.*?)\s*#*\s*\Z")
#: What would make of an item a list, a heading, a quotation, a rule or code that is never closed.
_BLOCK_MARK = re.compile(r"\A(?:(?:[-*+]|\d{1,9}[.)]|#{1,6}|>)(?:\s+|\Z)|`{3,}|~{3,}|(?:[-*_]\s?){3,}\Z)")
_LONGEST_TITLE = 120
#: What we put behind an item to name its source; a model that copies it must not make it part of the fact.
_MARK = re.compile(r"\s*\((?:\d{4}-\d{2}-\d{2}(?:, (?:from a conversation|imported|dreamt))?(?:; )?)+\)\s*\Z")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a daily page: ``id`` names it to the model, ``origin`` tells who wrote it."""

    id: str
    path: str
    number: int
    day: str
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Entry:
    """A new or changed item: its text, the ids of what it was made from, and the heading it belongs under."""

    text: str
    sources: tuple[str, ...]
    heading: str


@dataclass(frozen=True, slots=True)
class Distillate:
    """A model's answer: ids of old items that stay as they are, new entries, old items that go and why, the diary."""

    kept: tuple[str, ...]
    entries: tuple[Entry, ...]
    dropped: Mapping[str, str]
    diary: str


def request(old: Sequence[Item], lines: Sequence[Line]) -> str:
    """The sources as the model sees them: one line each, behind its id."""
    shown = ["# MEMORY.md"]
    heading = None
    for item in old:
        if item.heading != heading:
            heading = item.heading
            shown.append(f"## {heading}" if heading else "##")
        shown.append(f"{item.id}: {' '.join(item.text.split())}")
    day = None
    for line in lines:
        if line.day != day:
            day = line.day
            shown.append(f"\n# {day}")
        shown.append(f"{line.id}: {line.text}")
    return "\n".join(shown)


def parse(answer: str, old: Sequence[Item], lines: Sequence[Line]) -> Distillate:
    """The answer as records; JSON, or the older form with ``[MEMORY]`` and ``[DREAM]``.

    Raises ProviderReplyError for an answer that is neither, or that ends in the middle of something.
    """
    for found in islice(_OBJECT.finditer(answer), _MOST_OBJECTS):
        try:
            value, _ = json.JSONDecoder().raw_decode(answer, found.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, Mapping) and isinstance(value.get("memory"), list):
            return _from_json(value)
    if len(_MEMORY.findall(answer)) == 1 and len(_DREAM.findall(answer)) == 1:
        memory, diary = _DREAM.split(_MEMORY.split(answer, maxsplit=1)[1], maxsplit=1)
        return _from_markdown(memory, diary.strip(), old, lines)
    raise ProviderReplyError("the answer is neither the JSON that was asked for nor [MEMORY] and [DREAM]")


def plain(text: object) -> str:
    """A fact on one line, without the source that stood behind it, and no other kind of Markdown."""
    if not isinstance(text, str):
        return ""
    line = _MARK.sub("", " ".join(sendable(text).split()))
    while (bare := _BLOCK_MARK.sub("", line)) != line:
        line = bare
    return line


def title(text: object) -> str:
    """A heading as it stands behind its mark, on one line."""
    line = " ".join(sendable(text).split()) if isinstance(text, str) else ""
    found = _HEADING.match(line)
    return (found[1] if found else line.strip("# "))[:_LONGEST_TITLE]


def _from_json(value: Mapping[str, Any]) -> Distillate:
    kept: list[str] = []
    entries: list[Entry] = []
    for position, item in enumerate(value["memory"]):
        if not isinstance(item, Mapping):
            raise ProviderReplyError(f"memory[{position}] is no object")
        text = plain(item.get("text"))
        if not text and isinstance(item.get("id"), str):
            kept.append(item["id"])
        elif text:
            sources = item.get("from")
            named = [item.get("id"), *(sources if isinstance(sources, list) else ())]
            texts = tuple(source for source in named if isinstance(source, str))
            entries.append(Entry(text, texts, title(item.get("heading"))))
        else:
            raise ProviderReplyError(f"memory[{position}] has neither an id nor a text")
    dropped: dict[str, str] = {}
    listed = value.get("dropped")
    for gone in listed if isinstance(listed, list) else ():
        if isinstance(gone, Mapping) and isinstance(gone.get("id"), str) and isinstance(gone.get("reason"), str):
            dropped[gone["id"]] = " ".join(sendable(gone["reason"]).split())
    diary = value.get("diary")
    return Distillate(tuple(kept), tuple(entries), dropped, sendable(diary).strip() if isinstance(diary, str) else "")


def _from_markdown(memory: str, diary: str, old: Sequence[Item], lines: Sequence[Line]) -> Distillate:
    """Without ids, an item's sources are those lines and old items that hold most of its words."""
    known = {fact(item.text): item.id for item in old}
    kept: list[str] = []
    entries: list[Entry] = []
    heading = ""
    for line in memory.splitlines():
        if _HEADING.match(line):
            heading = title(line)
        for text in map(plain, items(line)):
            same = known.get(fact(text))
            if same is not None:
                kept.append(same)
            else:
                entries.append(Entry(text, _likely_sources(text, old, lines), heading))
    return Distillate(tuple(kept), tuple(entries), {}, diary)


def _likely_sources(text: str, old: Sequence[Item], lines: Sequence[Line]) -> tuple[str, ...]:
    words = set(fact(text))
    sources: list[Item | Line] = [*lines, *old]
    shares = [(len(words & set(fact(source.text))) / (len(words) or 1), source.id) for source in sources]
    best = max(shares, default=(0.0, ""))
    return (best[1],) if best[0] >= 0.6 else ()
