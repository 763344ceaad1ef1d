"""Checks of a memory's folder: how it is arranged, who may write there, what was left behind."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from vademecum.errors import LockTimeoutError, StoreError
from vademecum.sqlite import damaged, quarantined
from vademecum.store.disk import TEMPORARY
from vademecum.store.layout import LONG_TERM, Layout, leading_date
from vademecum.store.lock import root_lock
from vademecum.store.root import PRIVATE
from vademecum.types import Finding

_DATABASES = ("index.sqlite", "vectors.sqlite", "history.sqlite", "writeback.sqlite")
#: Those that Markdown does not make again.
_ORIGINALS = ("history.sqlite", "writeback.sqlite")
#: A file that is being written is younger than this.
_LONGEST_WRITE_S = 3600.0
_LOCK_WAIT_S = 2.0


def check_layout(layout: Layout) -> Iterator[Finding]:
    """Whether pages lie where the layout expects them."""
    root = layout.root
    names = sorted(entry.name for entry in root.iterdir())
    yield Finding(
        "layout", "ok", str(root), f"{layout.name}: dailies and private folders are kept in {layout.base or '.'}"
    )
    if LONG_TERM not in names:
        other = next((name for name in names if name.lower() == LONG_TERM.lower()), None)
        what = "is not there" if other is None else f"is not there, and {other} is an ordinary page"
        yield Finding("layout", "note", LONG_TERM, what, "" if other is None else f"rename it {LONG_TERM}")
    if layout.name == "workspace":
        dated = [name for name in names if leading_date(name) and name.lower().endswith(".md")]
        if dated:
            what = f"{len(dated)} dated pages stand beside the folder memory, where new ones are made, first {dated[0]}"
            yield Finding("layout", "note", str(root), what, "they are found and fade all the same")


def check_permissions(root: Path, folder: Path, fix: bool) -> Iterator[Finding]:
    """Whether we may write what is ours, and nobody else may: who can write notes tells agents what to do."""
    if os.name != "posix":
        yield Finding("permissions", "skipped", str(root), "this system has no modes to look at")
        return
    if folder.parent != root:
        what = "the memory cannot be written; its index is kept in the user's cache"
        yield Finding("permissions", "note", str(root), what)
    files = [
        root,
        folder,
        *(path for path in sorted(folder.iterdir()) if path.name.partition(".sqlite")[0] != path.name),
    ]
    found = [finding for path in files for finding in _modes(path, fix)]
    yield from found or [Finding("permissions", "ok", str(root), "nobody else can write here")]


def _modes(path: Path, fix: bool) -> Iterator[Finding]:
    try:
        state = path.lstat()
    except FileNotFoundError:
        return
    faults = []
    right = mode = stat.S_IMODE(state.st_mode)
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        faults.append("everybody on this machine can write it")
        right &= ~stat.S_IWOTH
    if not mode & stat.S_IWUSR:
        faults.append("its owner cannot write it")
        right |= stat.S_IWUSR
    if not faults:
        return
    if fix:
        with suppress(OSError):
            path.chmod(right)
            yield Finding("permissions", "fixed", str(path), " and ".join(faults), f"its mode is {right:o} now")
            return
    yield Finding("permissions", "wrong", str(path), " and ".join(faults), f"chmod {right:o} {path}")


def check_leftovers(root: Path, folders: list[str], state: Path, fix: bool) -> Iterator[Finding]:
    """Files of writes that were cut off, and the lock: who holds it for long is stuck."""
    stale = list(_half_written(state))
    try:
        with root_lock(root, timeout=_LOCK_WAIT_S):
            # Nobody writes a page now.
            stale += [file for name in folders if (file := root / name / TEMPORARY).exists()]
            yield from (_stale(file, fix) for file in stale)
        yield Finding("lock", "ok", f"{PRIVATE}/lock", "free")
    except LockTimeoutError as error:
        yield Finding("lock", "wrong", f"{PRIVATE}/lock", str(error), "end the program that holds it")
    except StoreError as error:
        yield Finding("lock", "skipped", f"{PRIVATE}/lock", str(error))
    if not stale:
        yield Finding("leftovers", "ok", str(root), "no write was cut off")


def _half_written(state: Path) -> Iterator[Path]:
    old = time.time() - _LONGEST_WRITE_S
    for file in sorted((*state.glob("*.new"), *state.glob("ann/*.new"))):
        with suppress(FileNotFoundError):
            if file.lstat().st_mtime < old:
                yield file
    for name in _DATABASES:
        if not (state / name).exists():
            yield from (file for ending in ("-wal", "-shm", "-journal") if (file := state / f"{name}{ending}").exists())


def _stale(file: Path, fix: bool) -> Finding:
    what = "was left behind by a write that was cut off"
    if fix:
        with suppress(OSError):
            file.unlink(missing_ok=True)
            return Finding("leftovers", "fixed", str(file), what, "deleted")
    return Finding("leftovers", "wrong", str(file), what, "`vademecum doctor --fix` deletes it")


def check_set_aside(state: Path) -> Iterator[Finding]:
    """Databases that were moved out of the way as damaged."""
    for name in _DATABASES:
        files = [file for file, _ in quarantined(state / name)]
        size = sum(file.stat().st_size for file in files)
        if files:
            derived = "`vademecum gc` removes it when it is old"
            fix = "it may hold conversations; delete it when nothing is missed" if name in _ORIGINALS else derived
            what = f"{len(files)} files, {size / 1e6:.1f} MB, were set aside as damaged"
            yield Finding("set aside", "note", str(files[0]), what, fix)


def check_journal(root: Path) -> Iterator[Finding]:
    """Whether changes can be taken back."""
    file = root / PRIVATE / "journal" / "journal.sqlite"
    if damaged(file):
        what = "is damaged: what it kept of earlier changes may be lost"
        yield Finding("journal", "wrong", str(file), what, "the next change keeps the file and begins a new one")
    else:
        yield Finding("journal", "ok", str(file), "sound" if file.exists() else "empty: nothing was changed yet")
