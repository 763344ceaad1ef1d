"""Where a long section is cut, and what neighbouring chunks share.

Boundaries are chosen by content: among the places that leave a chunk between a minimum and the limit, the best kind
of place (between paragraphs before between lines) and there the one whose unit before it has the smallest checksum.
An edit moves the boundaries near it; a little further on, old and new agree on a smallest checksum again, and from
there on every chunk is what it was. (Compare the local-minimum chunking of Bjørner, Blass and Gurevich, 2010.)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

from vademecum.chunk.pieces import Unit, split_unit
from vademecum.text.estimate import WEIGHT_OF_ASCII
from vademecum.text.markdown import BlockKind

_WORST = (9, 0)


def _rank(text: str, before: Unit, after: Unit) -> tuple[int, int]:
    """How good a cut between two units is; smaller is better."""
    if after.inner:
        place = 3
    elif text[after.start] in " \t":
        place = 2
    else:
        place = 0 if after.start_line - before.end_line > 1 else 1
    return place, crc32(text[before.start : before.end].encode("utf-8", "surrogatepass"))


def _gap(before: Unit, after: Unit) -> int:
    """Weight of what stands between two units: line breaks and blanks, as if ASCII."""
    return (after.start - before.end) * WEIGHT_OF_ASCII


def cut_points(text: str, units: Sequence[Unit], minimum: int, limit: int) -> list[int]:
    """Indexes at which chunks begin, 0 first. Only a unit that is heavier than ``limit`` makes a heavier chunk."""
    cuts = [0]
    weight, best, best_rank = units[0].weight, 0, _WORST
    index = 1
    while index < len(units):
        before, after = units[index - 1], units[index]
        if weight >= minimum and (rank := _rank(text, before, after)) <= best_rank:
            best, best_rank = index, rank
        added = _gap(before, after) + after.weight
        if weight + added <= limit:
            weight += added
            index += 1
            continue
        index = best or index
        cuts.append(index)
        weight, best, best_rank = units[index].weight, 0, _WORST
        index += 1
    return cuts


def _glued(first: Unit, second: Unit, kind: BlockKind) -> Unit:
    weight = first.weight + _gap(first, second) + second.weight
    return Unit(first.start, second.end, first.start_line, second.end_line, weight, kind, first.inner)


def glue_headings(units: Sequence[Unit], most: int) -> list[Unit]:
    """Join headings up to a weight of ``most`` with the unit after them, or at the end with the one before.

    So no cut can leave a heading alone.
    """
    glued: list[Unit] = []
    for unit in units:
        last = glued[-1] if glued else None
        if last and last.kind == "heading" and not unit.inner and last.weight + _gap(last, unit) <= most:
            glued[-1] = _glued(last, unit, unit.kind)
        else:
            glued.append(unit)
    if len(glued) > 1 and glued[-1].kind == "heading" and glued[-1].weight + _gap(*glued[-2:]) <= most:
        glued[-2:] = [_glued(glued[-2], glued[-1], glued[-2].kind)]
    return glued


def overlap(text: str, units: Sequence[Unit], after: Unit, limit: int) -> Unit | None:
    """The first of those last units that together weigh at most ``limit`` up to ``after``; None if none fits.

    If not even the last unit fits, its last lines and sentences do for it. A fence stays whole. The first unit is
    not shared if there are others, or the chunk before would say nothing of its own.
    """
    first: Unit | None = None
    weight, follower = 0, after
    for unit in reversed(units[1:] or units):
        weight += unit.weight + _gap(unit, follower)
        if weight > limit:
            break
        first = follower = unit
    if first is None and limit and units and units[-1].kind != "fence":
        sentences = split_unit(text, units[-1], limit, sentences=True)
        return overlap(text, sentences, after, limit) if len(sentences) > 1 else None
    return first


def pack(text: str, units: Sequence[Unit], budget: int, shared: int) -> list[Unit]:
    """The chunks of one group, as units: each at most ``budget`` with up to ``shared`` from the one before.

    A unit heavier than the budget is cut; one that is lighter stays whole, even where the shared part makes the sum
    a little heavier.
    """
    limit = budget - shared
    minimum = limit // 4
    small = [part for unit in units for part in (split_unit(text, unit, limit) if unit.weight > budget else [unit])]
    small = glue_headings(small, minimum)
    cuts = [*cut_points(text, small, minimum, limit), len(small)]
    chunks: list[Unit] = []
    for number, (start, end) in enumerate(pairwise(cuts)):
        first = overlap(text, small[cuts[number - 1] : start], small[start], shared) if number else None
        chunks.append(_glued(first or small[start], small[end - 1], small[start].kind))
    return chunks
