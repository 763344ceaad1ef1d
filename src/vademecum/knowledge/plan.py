"""An operation on several pages, written down before it begins: whoever comes after a killed process finishes it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vademecum.errors import StoreError, WriteError
from vademecum.knowledge.rewriting import Edit
from vademecum.store.disk import swap
from vademecum.store.root import PRIVATE, UNFINISHED, check_private, private_folder
from vademecum.types import Origin

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A page in which links change: the hashes of its content before and after, and the edits between them."""

    before: str
    after: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done below ``home``, and what will be told of it in the log.

    ``moves`` are old paths with new ones; ``removes`` and ``writes`` are paths with the hash of what is removed and
    written; ``rewrites`` are by the path that the page has after the moves. ``folders`` are an old and a new folder
    whose empty subfolders move along, the new one "" if they are removed. ``retitled`` has former titles by path. All
    changes belong to one ``batch`` of the journal.
    """

    home: str
    verb: str
    at: str
    by: Origin
    batch: int
    what: str = ""
    moves: Mapping[str, str] = field(default_factory=dict)
    removes: Mapping[str, str] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)
    rewrites: Mapping[str, Rewrite] = field(default_factory=dict)
    retitled: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[tuple[str, str], ...] = ()


def pending(root: Path) -> bool:
    """Whether some operation was begun and not finished."""
    return os.path.lexists(root / PRIVATE / UNFINISHED)


def save(root: Path, plan: Plan) -> None:
    """Write a plan to the disk itself. For holders of the root's lock, as all of these."""
    file = _file(root)
    data = json.dumps({"version": _VERSION, **asdict(plan)}, ensure_ascii=False).encode()
    try:
        swap(file, data, file.lstat() if file.exists() else None)
    except OSError as error:
        raise WriteError(f"{file}: could not be written, nothing was changed: {error.strerror}") from error


def load(root: Path) -> Plan:
    """The plan that was not finished. Raises StoreError if it cannot be understood."""
    file = _file(root)
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
        if value.pop("version") != _VERSION:
            raise ValueError("it was written by another version of vademecum")
        return _plan(value)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(
            f"{file}: an operation was begun and not finished, and what is left to do cannot be read ({error}); move "
            "the file away, then `vademecum knowledge check` shows which links are broken"
        ) from error


def clear(root: Path) -> None:
    """The plan is finished, or given up."""
    file = _file(root)
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise WriteError(f"{file}: could not be removed: {error.strerror}") from error


def _file(root: Path) -> Path:
    folder = private_folder(root)
    check_private(folder, UNFINISHED)
    return folder / UNFINISHED


def _plan(value: dict[str, Any]) -> Plan:
    rewrites = {
        path: Rewrite(given["before"], given["after"], tuple(Edit(*edit) for edit in given["edits"]))
        for path, given in value.pop("rewrites").items()
    }
    folders = tuple((old, new) for old, new in value.pop("folders"))
    return Plan(**value, rewrites=rewrites, folders=folders)
