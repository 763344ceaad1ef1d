"""What must hold before a model's version of MEMORY.md may take the place of the old one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vademecum.settings import DreamSettings
from vademecum.types import Origin
from vademecum.writeback.distillate import Distillate, Entry, Line, plain
from vademecum.writeback.page import Item
from vademecum.writeback.reply import bare, fact, says_nothing

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_MOST_BYTES, _MOST_LINES = 25_000, 200
#: Share of the old items that may go in one night, whatever reasons are given; small memories may lose two items.
_MOST_DROPPED = 0.5
_FEW = 2
_TRUSTED: frozenset[Origin] = frozenset({"person", "agent"})
_FROM: Mapping[Origin, str] = {"flush": "from a conversation", "import": "imported", "dream": "dreamt"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done to MEMORY.md: items by id (None: taken out), and new ones as (heading, text).

    ``added`` pairs each new text with where it comes from, ``dropped`` each old text with the reason.
    ``left_out`` says what was not taken over, and why.
    """

    changed: Mapping[str, str | None]
    new: tuple[tuple[str, str], ...]
    added: tuple[tuple[str, str], ...]
    dropped: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]


class RefusedError(Exception):
    """Why an answer is not to be used, told to a person and to the model; ``answer`` is what was refused."""

    answer = ""


def plan(answer: Distillate, old: Sequence[Item], lines: Sequence[Line], prompt: str, settings: DreamSettings) -> Plan:
    """What an answer comes to. Raises RefusedError for one that would lose, invent or overflow too much.

    An old item that the answer does not mention stays; when it does not mention more than a quarter of them, the answer
    as a whole is not to be trusted. A new item must name where it comes from, and its numbers must stand there. What
    comes only from conversations or imports gets a mark that says so. What is kept, or holds more than a
    sentence, stays even where something new is made of it; at most half of the items go in one night.
    """
    known = {item.id: item for item in old}
    sources: dict[str, Item | Line] = {**known, **{line.id: line for line in lines}}
    mentioned = (
        set(answer.kept) | {source for entry in answer.entries for source in entry.sources} | set(answer.dropped)
    )
    _check_losses(old, mentioned, answer.dropped, settings)
    asked = {bare(line) for line in prompt.splitlines() if len(bare(line)) >= 20}
    good, left_out = _checked(answer.entries, sources, asked)
    repeated = {fact(entry.text) for entry in good}
    stays = {item.id for item in old if item.fixed or item.id in answer.kept or fact(plain(item.text)) in repeated}
    same = {fact(plain(item.text)) for item in old if item.id in stays}
    changed: dict[str, str | None] = {}
    new: list[tuple[str, str]] = []
    added: list[tuple[str, str]] = []
    for entry in good:
        if fact(entry.text) in same:
            continue
        text = f"{entry.text}{_provenance(entry, sources)}"
        added.append((text, _places(entry, sources)))
        olds = [source for source in entry.sources if source in known and source not in stays and source not in changed]
        if olds:
            changed[olds[0]] = text
            changed.update(dict.fromkeys(olds[1:], None))
        else:
            new.append((entry.heading, text))
    used = {source for entry in good for source in entry.sources}
    for item in answer.dropped:
        if item in known and item not in used and item not in stays:
            changed[item] = None
    dropped = tuple(
        (known[gone].text, answer.dropped[gone]) for gone in answer.dropped if changed.get(gone, "") is None
    )
    _check_shrinking(old, changed)
    _check_size(old, changed, new, settings)
    return Plan(changed, tuple(new), tuple(added), dropped, left_out)


def check_page(before: str, after: str) -> None:
    """Raises RefusedError for a page that a prompt would not hold whole any more, unless the old one was as long."""
    size, lines = len(after.encode()), after.count("\n")
    if size > max(_MOST_BYTES, len(before.encode())) or lines > max(_MOST_LINES, before.count("\n")):
        raise RefusedError(
            f"MEMORY.md would have {size} bytes on {lines} lines; at most {_MOST_BYTES} on {_MOST_LINES} are read whole"
        )


def _check_losses(
    old: Sequence[Item], mentioned: set[str], dropped: Mapping[str, str], settings: DreamSettings
) -> None:
    if not old:
        return
    silent = [item for item in old if item.id not in mentioned]
    if len(silent) > settings.max_loss * len(old):
        raise RefusedError(
            f"{len(silent)} of {len(old)} items of MEMORY.md are neither kept, merged nor dropped with a reason, "
            f"the first of them {silent[0].text[:60]!r}"
        )
    gone = [item for item in old if item.id in dropped]
    if any(says_nothing(dropped[item.id]) for item in gone):
        raise RefusedError("an item of MEMORY.md is dropped without a reason")


def _check_shrinking(old: Sequence[Item], changed: Mapping[str, str | None]) -> None:
    gone = sum(text is None for text in changed.values())
    if gone > max(_FEW, _MOST_DROPPED * len(old)):
        raise RefusedError(f"{gone} of {len(old)} items of MEMORY.md would be dropped or merged away in one night")


def _checked(
    entries: Sequence[Entry], sources: Mapping[str, Item | Line], asked: set[str]
) -> tuple[list[Entry], tuple[str, ...]]:
    good: list[Entry] = []
    left_out: list[str] = []
    seen: set[tuple[str, ...]] = set()
    for entry in entries:
        named = tuple(dict.fromkeys(source for source in entry.sources if source in sources))
        why = _fault(entry, named, sources, asked)
        key = fact(entry.text)
        if why is None and key not in seen:
            seen.add(key)
            good.append(Entry(entry.text, named, entry.heading))
        elif why is not None:
            left_out.append(f"{entry.text[:120]!r}: {why}")
    if len(left_out) > max(1, len(entries) // 2):
        raise RefusedError(f"{len(left_out)} of {len(entries)} new items cannot be used; {left_out[0]}")
    return good, tuple(left_out)


def _fault(entry: Entry, named: Sequence[str], sources: Mapping[str, Item | Line], asked: set[str]) -> str | None:
    if len(entry.text) > 1_000:
        return "it is longer than a fact"
    if bare(entry.text) in asked:
        return "it repeats the instructions"
    if not named:
        return "it names no source that there is"
    said = {number for source in named for number in _NUMBER.findall(sources[source].text)}
    days = {part for source in named for part in _days(sources[source])}
    unknown = [number for number in _NUMBER.findall(entry.text) if number not in said and number not in days]
    if unknown:
        return f"{unknown[0]} stands in none of its sources"
    return None


def _days(source: Item | Line) -> tuple[str, ...]:
    """The numbers of a source's own date, which an item may give."""
    return () if isinstance(source, Item) else tuple(_NUMBER.findall(source.day.replace("-", " ")))


def _check_size(
    old: Sequence[Item], changed: Mapping[str, str | None], new: Sequence[object], settings: DreamSettings
) -> None:
    count = len(old) - sum(text is None for text in changed.values()) + len(new)
    if count > max(settings.max_items, len(old)):
        raise RefusedError(f"MEMORY.md would have {count} items; at most {settings.max_items} are wanted")


def _provenance(entry: Entry, sources: Mapping[str, Item | Line]) -> str:
    """Where a new item comes from, in the item itself: its newest day, and a mark if nobody has vouched for it."""
    used = [sources[source] for source in entry.sources]
    lines = [source for source in used if isinstance(source, Line)]
    if not lines:
        return ""
    day = max(line.day for line in lines)
    trusted = any(line.origin in _TRUSTED for line in lines)
    return f" ({day})" if trusted else f" ({day}, {_FROM.get(lines[0].origin, lines[0].origin)})"


def _places(entry: Entry, sources: Mapping[str, Item | Line]) -> str:
    places = []
    for name in entry.sources:
        source = sources[name]
        places.append(f"{source.path}:{source.number}" if isinstance(source, Line) else f"MEMORY.md:{source.line}")
    return ", ".join(places)
