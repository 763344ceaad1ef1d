"""Where a root's index lives, and how to get it open."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from vademecum.backends import EmbeddedIndex
from vademecum.backends.embedded import INDEX_FILE, VECTORS_FILE
from vademecum.errors import IndexCorruptError, IndexUnavailableError, WriteError
from vademecum.history import HISTORY_FILE
from vademecum.settings import AnnSettings
from vademecum.sqlite import damaged, quarantine
from vademecum.store.root import check_private, private_folder
from vademecum.types import IndexSpec


def state_folder(root: Path, environ: Mapping[str, str]) -> Path:
    """``<root>/.vademecum``; for a root that cannot be written, a folder of its own in the user's cache.

    Raises IndexUnavailableError when neither can be had.
    """
    try:
        folder = private_folder(root)
        if os.access(folder, os.W_OK):
            return folder
    except WriteError:
        pass
    try:
        cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "vademecum" / hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise IndexUnavailableError(
            f"{root} is read-only and no folder in the user's cache can be made ({error}); set XDG_CACHE_HOME to a "
            "folder that can be written"
        ) from error
    return folder


def history_folder(root: Path) -> None:
    """Make sure that conversations can be kept in ``root``. In no cache: that may be emptied at any time.

    Raises StoreError kinds.
    """
    check_private(private_folder(root), HISTORY_FILE)


def open_index(
    folder: Path, spec: IndexSpec, ann: AnnSettings, anew: bool = False
) -> tuple[EmbeddedIndex, tuple[str, ...]]:
    """The index in ``folder`` and notices about what had to be set aside. Damaged files are kept under another name.

    ``anew`` sets index.sqlite aside in any case; vectors stay.

    Raises IndexUnavailableError, for instance for files of a newer version, and StoreError for links and the like
    where files of ours should be: they would lead our writes elsewhere.
    """
    check_private(folder, INDEX_FILE, VECTORS_FILE, "lock", "config.toml")
    notices: tuple[str, ...] = ()
    if anew and (folder / INDEX_FILE).exists():
        target = quarantine(folder / INDEX_FILE, time.time())
        notices += (f"{folder / INDEX_FILE}: kept as {target.name}, built anew",)
    for _ in range(3):
        try:
            return EmbeddedIndex(folder, spec, ann), notices
        except IndexCorruptError:
            # Damage that a check does not find is still damage; the index is the one that costs nothing to build.
            notices += set_aside(folder, (INDEX_FILE,))
    return EmbeddedIndex(folder, spec, ann), notices


def set_aside(folder: Path, otherwise: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Move those of the index's files out of the way that a check finds damaged, or else ``otherwise``; all of them are
    read. Returns notices. Nobody may have them open in this process."""
    broken = [name for name in (INDEX_FILE, VECTORS_FILE) if damaged(folder / name)]
    targets = [(folder / name, quarantine(folder / name, time.time())) for name in broken or otherwise]
    return tuple(f"{path} was damaged: kept as {target.name}, built anew" for path, target in targets)
