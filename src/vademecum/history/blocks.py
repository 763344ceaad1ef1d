"""Conversations whose messages keep their numbers: what has changed is found by block of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from vademecum.history.said import Said, Stretch
from vademecum.types import Scope

#: Numbers in a block: the first from 1 to SIZE.
SIZE = 64

_FORM = "blocks-1"
_is_state = re.compile(rf"{_FORM}(?: \d+=[^ ]+)*").fullmatch

#: What names the content of a block, by number of the block from 0. Neither empty nor with blanks.
Blocks = Mapping[int, str]


def block_of(position: int) -> int:
    """The block in which a number lies."""
    return (position - 1) // SIZE


def changed(
    path: str, scope: Scope, known: str | None, blocks: Blocks, read: Callable[[int], Sequence[Said]]
) -> Iterator[Stretch]:
    """What has to be written anew so that a conversation known as ``known`` is as ``blocks`` say.

    ``read`` gives the messages of one block; only blocks that changed are read.
    """
    before = _parsed(known)
    if before is None:
        # Whatever stands there was written by other rules.
        before = {}
        yield Stretch(path, scope, 1, None, (), _state({}))
    now = dict(before)
    for block in sorted(blocks.keys() | before.keys()):
        if blocks.get(block) == before.get(block):
            continue
        if block in blocks:
            now[block] = blocks[block]
        else:
            del now[block]
        said = read(block) if block in blocks else ()
        yield Stretch(path, scope, block * SIZE + 1, (block + 1) * SIZE + 1, said, _state(now))


def _state(blocks: Blocks) -> str:
    return " ".join([_FORM, *(f"{block}={blocks[block]}" for block in sorted(blocks))])


def _parsed(state: str | None) -> dict[int, str] | None:
    if state is None or not _is_state(state):
        return None
    pairs = (part.split("=", 1) for part in state.split(" ")[1:])
    return {int(block): name for block, name in pairs}
