"""The guard: a path that comes from outside either names a Markdown file inside the root, or is refused."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vademecum.errors import PathError, UsageError
from vademecum.store.layout import is_hidden, scope_of

_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 4096
_MAX_PARTS = 255


@dataclass(frozen=True, slots=True)
class Location:
    """A Markdown file of a root, which need not exist: its path relative to the real root, and where it is."""

    path: str
    file: Path


def resolve(root: Path, path: str, ending: str = ".md") -> Location:
    """Where ``path`` is, spelled as on disk; ``path`` is relative to the root, or absolute and inside it.

    An existing name is found under either Unicode normalisation and, where the file system ignores it, in any
    case. Links between folders of one root are followed if both ends are of one scope. Everything else raises
    PathError, naming the path: ``..``, NUL, backslashes, hidden names, names without ``.md``, more than 4096 bytes
    or 255 parts, a link as the last part, links out of the root or from one scope to another.
    """
    real_root = Path(os.path.realpath(root))
    names = list(_checked_parts(path, _relative(real_root, _plain(path)), ending))
    folder = real_root
    for depth, name in enumerate(names[:-1]):
        names[depth] = _as_found(folder, name)
        if not os.path.lexists(folder / names[depth]):
            folder = folder.joinpath(*names[depth:-1])
            break
        folder = Path(os.path.realpath(folder / names[depth]))
        if not folder.is_relative_to(real_root):
            raise PathError(f"{path!r}: {name!r} is a link that leaves the memory {real_root}")
    names[-1] = _as_found(folder, names[-1])
    file = folder / names[-1]
    if is_link(file):
        raise PathError(f"{path!r}: is a symbolic link; name the file that it points to")
    named, found = "/".join(names), file.relative_to(real_root).as_posix()
    # Once more, because a link inside the root may lead into a hidden folder.
    _checked_parts(path, found, ending)
    if scope_of(named) != scope_of(found):
        raise PathError(
            f"{named!r}: a link leads to {found!r}, from what is {scope_of(named)} to what is {scope_of(found)}; "
            "put a folder in the place of the link"
        )
    return Location(found, file)


def is_link(file: Path) -> bool:
    """Whether the last part is a symbolic link; what cannot be looked at is judged by whoever opens it."""
    return os.path.islink(file)  # noqa: PTH114 - the method of Path raises


def _plain(path: str) -> str:
    """``path`` with "/" separators, free of what no file name should hold."""
    if not isinstance(path, str):
        raise UsageError(f"path {path!r}: expected a text")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise PathError(f"{path[:40]!r}: is not valid Unicode") from None
    if size > _MAX_PATH_BYTES:
        raise PathError(f"{path[:40]!r}…: the path has {size} bytes; at most {_MAX_PATH_BYTES} are allowed")
    count = sum(map(bool, path.split("/")))
    if count > _MAX_PARTS:
        raise PathError(f"{path[:40]!r}…: the path has {count} parts; at most {_MAX_PARTS} are allowed")
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
    """``plain`` relative to the root; links are followed only as far as it takes to get inside."""
    if not plain.startswith("/") and not Path(plain).is_absolute():
        return plain
    file = Path(plain)
    for folder in reversed(file.parents):
        real = Path(os.path.realpath(folder))
        if real.is_relative_to(real_root):
            return (real / file.relative_to(folder)).relative_to(real_root).as_posix()
    raise PathError(f"{plain!r}: is no file in the memory {real_root}; give a path relative to it")


def _checked_parts(path: str, relative: str, ending: str) -> tuple[str, ...]:
    parts = PurePosixPath(relative).parts
    if not parts or not relative.strip():
        raise PathError(f"{path!r}: an empty path names no file")
    for part in parts:
        if is_hidden(part):
            raise PathError(f"{path!r}: {part!r} is hidden, and hidden files are no part of a memory")
        size = len(os.fsencode(part))
        if size > _MAX_NAME_BYTES:
            raise PathError(f"{path[:40]!r}…: a name has {size} bytes; at most {_MAX_NAME_BYTES} are possible")
    if not parts[-1].lower().endswith(ending):
        raise PathError(f"{path!r}: a memory holds Markdown only; the name must end with {ending}")
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
