"""The guard: a path that comes from outside either names a Markdown file inside the root, or is refused."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vademecum.errors import PathError, UsageError
from vademecum.store.layout import is_hidden

_MAX_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class Location:
    """A Markdown file of a root, which need not exist: its path relative to the real root, and where it is."""

    path: str
    file: Path


def resolve(root: Path, path: str) -> Location:
    """Where ``path`` is, spelled as on disk; ``path`` is relative to the root, or absolute and inside it.

    An existing name is found under either Unicode normalisation and, where the file system ignores it, in any
    case. Links between folders of one root are followed. Everything else raises PathError, naming the path:
    ``..``, NUL, backslashes, hidden names, names without ``.md``, a link as the last part, links out of the root.
    """
    real_root = Path(os.path.realpath(root))
    relative = _relative(real_root, _plain(path))
    parts = _checked_parts(path, relative)
    folder = real_root
    for part in parts[:-1]:
        folder = Path(os.path.realpath(folder / _as_found(folder, part)))
        if not folder.is_relative_to(real_root):
            raise PathError(f"{path!r}: {part!r} is a link that leaves the memory {real_root}")
    file = folder / _as_found(folder, parts[-1])
    if is_link(file):
        raise PathError(f"{path!r}: is a symbolic link; name the file that it points to")
    found = file.relative_to(real_root).as_posix()
    # Once more, because a link inside the root may lead into a hidden folder.
    _checked_parts(path, found)
    return Location(found, file)


def is_link(file: Path) -> bool:
    """Whether the last part is a symbolic link; what cannot be looked at is judged by whoever opens it."""
    return os.path.islink(file)  # noqa: PTH114 - the method of Path raises


def _plain(path: str) -> str:
    """``path`` with "/" separators, free of what no file name should hold."""
    if not isinstance(path, str):
        raise UsageError(f"path {path!r}: expected a text")
    if "\0" in path:
        raise PathError(f"{path!r}: a path cannot contain NUL")
    if os.sep == "\\":
        path = path.replace("\\", "/")
    if "\\" in path:
        raise PathError(f"{path!r}: use '/' between folders; backslashes are not allowed in names")
    if ".." in path.split("/"):
        raise PathError(f"{path!r}: '..' is not allowed in a path of a memory")
    return path


def _relative(real_root: Path, plain: str) -> str:
    if not plain.startswith("/") and not Path(plain).is_absolute():
        return plain
    parent, name = Path(plain).parent, Path(plain).name
    inside = Path(os.path.realpath(parent)) / name
    if not inside.is_relative_to(real_root):
        raise PathError(f"{plain!r}: is outside the memory {real_root}; give a path relative to it")
    return inside.relative_to(real_root).as_posix()


def _checked_parts(path: str, relative: str) -> tuple[str, ...]:
    parts = PurePosixPath(relative).parts
    if not parts or not relative.strip():
        raise PathError(f"{path!r}: an empty path names no file")
    for part in parts:
        if is_hidden(part):
            raise PathError(f"{path!r}: {part!r} is hidden, and hidden files are no part of a memory")
        try:
            size = len(part.encode())
        except UnicodeEncodeError:
            raise PathError(f"{path!r}: is not valid Unicode") from None
        if size > _MAX_NAME_BYTES:
            raise PathError(f"{path[:40]!r}…: a name has {size} bytes; at most {_MAX_NAME_BYTES} are possible")
    if not parts[-1].lower().endswith(".md"):
        raise PathError(f"{path!r}: a memory holds Markdown only; the name must end with .md")
    return parts


def _as_found(folder: Path, name: str) -> str:
    """``name`` as the folder spells it; ``name`` itself if the folder does not have it or cannot be listed."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - a Path for each of 10,000 names takes 10 ms
    except OSError:
        return name
    if name in names:
        return name
    key = unicodedata.normalize("NFC", name)
    twins = [found for found in names if unicodedata.normalize("NFC", found) == key]
    if not twins and os.path.lexists(folder / name):
        # The file system ignores case; the spelling decides whose file it is, so take the one on disk.
        twins = [found for found in names if unicodedata.normalize("NFC", found).casefold() == key.casefold()]
    return min(twins, default=name)
