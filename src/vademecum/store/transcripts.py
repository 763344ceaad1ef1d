"""Files that hold conversations: known by their name, or by the place where another system keeps them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG

from vademecum.errors import PathError
from vademecum.store.layout import Layout
from vademecum.store.paths import Location, resolve

TRANSCRIPT = ".jsonl"
#: Dexter's, where its folder is the root; and CowAgent's.
_FIXED = ("messages/chat_history.json", "memory/long-term/index.db")
_NAMES = frozenset(path.rpartition("/")[2] for path in _FIXED)
#: What Dexter's is called where only its memory folder is the root: it stands beside that.
_BESIDE = "sessions/chat_history.json"


def is_transcript(name: str) -> bool:
    """Whether a file of this name may hold a conversation, wherever it is."""
    return name[-len(TRANSCRIPT) :].lower() == TRANSCRIPT


def may_be_spoken(name: str) -> bool:
    """Whether a change of a file of this name may be one of a conversation."""
    return is_transcript(name) or name.removesuffix("-wal") in _NAMES


def fixed(layout: Layout) -> Iterator[Location]:
    """Files at fixed places, whether they are there or not."""
    for path in _FIXED:
        yield Location(path, layout.root / path)
    file = beside(layout.root)
    if file is not None:
        yield Location(_BESIDE, file)


def beside(root: Path) -> Path | None:
    """Dexter's file if ``root``, a real path, is Dexter's memory folder. It is outside of the root."""
    return root.parent / _FIXED[0] if (root.parent.name, root.name) == (".dexter", "memory") else None


def conversation_file(layout: Layout, path: str) -> Location:
    """The file that a path of the index names, spelled as on disk. It need not exist.

    Raises PathError for the path of anything else, and for a file that a link leads to.
    """
    for place in fixed(layout):
        if place.path == path:
            if is_linked(place.file):
                raise PathError(f"{path!r}: a link leads there; conversations are read where they are")
            return place
    if not is_transcript(path):
        raise PathError(f"{path!r}: holds no conversation")
    return resolve(layout.root, path, TRANSCRIPT)


def is_linked(file: Path) -> bool:
    """Whether the path of a file that is there goes over a link."""
    return os.path.realpath(file) != str(file)


def exists(file: Path) -> bool | None:
    """Whether a regular file is there; None if that cannot be told."""
    try:
        return S_ISREG(file.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None
