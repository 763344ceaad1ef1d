"""What a caller may give. All else is a UsageError that names the argument and the value, never a foreign error."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TypeVar

from vademecum.errors import StoreError, UsageError, shown
from vademecum.ports import Embedder

Choice = TypeVar("Choice", bound=str)

#: For ``wait_ms``: wait for the index however long it takes.
_FULLY = -1
_LONGEST_WAIT_MS = 3_600_000
_MOST = 10**15
_EMBEDDER = ("fingerprint", "calibration", "batch_size", "embed_query", "embed_documents")


def text(name: str, value: object) -> str:
    """A text that can be written as UTF-8: half of a surrogate pair stands for a byte that was none."""
    if not isinstance(value, str):
        raise UsageError(f"{name} = {shown(value)}: expected a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name} = {shown(value)}: is not valid Unicode") from None
    return value


def choice(name: str, value: object, choices: tuple[Choice, ...]) -> Choice:
    """One of ``choices``, which are texts."""
    for known in choices:
        if isinstance(value, str) and value == known:
            return known
    raise UsageError(f"{name} = {shown(value)}: expected one of {', '.join(choices)}")


def flag(name: str, value: object) -> bool:
    """True or false, and not something that merely counts as such."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} = {shown(value)}: expected True or False")
    return value


def number(name: str, value: object) -> int | float:
    """A number that can be printed; its range is judged by the setting that it replaces."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or abs(value) > 1e18:
        raise UsageError(f"{name} = {shown(value)}: expected a number within its setting's range")
    return value


def positive(name: str, value: object) -> int:
    """A whole number of 1 or more that can be counted with."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
        raise UsageError(f"{name} = {shown(value)}: expected a whole number from 1 to {_MOST}")
    return value


def embedder(value: Embedder | None) -> Embedder | None:
    """Something with all that the port asks for; none of it is used yet, for a model may take long to load."""
    if value is None or isinstance(value, type):
        known: set[str] = set()
    else:
        known = {*dir(type(value)), *getattr(value, "__dict__", ())}
    lacking = [] if "__getattr__" in known else [part for part in _EMBEDDER if part not in known]
    if value is not None and lacking:
        raise UsageError(f"embedder = {shown(value)}: is no vademecum.ports.Embedder, it lacks {', '.join(lacking)}")
    return value


def seconds(name: str, value: object) -> float | None:
    """Whole milliseconds as seconds; None, which is "however long it takes", for -1."""
    if not isinstance(value, int) or isinstance(value, bool) or not _FULLY <= value <= _LONGEST_WAIT_MS:
        expected = f"whole milliseconds from 0 to {_LONGEST_WAIT_MS}, or {_FULLY} to wait however long it takes"
        raise UsageError(f"{name} = {shown(value)}: expected {expected}")
    return None if value == _FULLY else value / 1000


def root_folder(root: object) -> Path:
    """The folder that ``root`` names, "~" resolved; it need not exist.

    Raises UsageError for what cannot be the path of a folder, and StoreError for a folder that cannot be a memory.
    """
    if not isinstance(root, (str, os.PathLike)):
        raise UsageError(f"root = {shown(root)}: expected the path of a folder")
    name = os.fspath(root)
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise UsageError(f"root = {shown(name)}: expected the path of a folder")
    try:
        folder = Path(name).expanduser()
        folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (RuntimeError, ValueError) as error:  # nobody's "~name"; a text that no file system can hold
        raise UsageError(f"root = {shown(name)}: {error}") from None
    except OSError as error:
        kind = UsageError if error.errno == errno.ENAMETOOLONG else StoreError
        raise kind(f"root = {shown(name)}: {error.strerror}") from error
    real = os.path.realpath(folder)
    try:
        real.encode()
    except UnicodeEncodeError:
        escaped = os.fsencode(real).decode("utf-8", "backslashreplace")
        raise StoreError(f"{escaped}: the path is not valid UTF-8, which SQLite needs; rename the folder") from None
    return folder
