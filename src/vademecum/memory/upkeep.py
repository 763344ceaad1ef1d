"""Removing what a memory no longer needs: vectors of models that nobody uses, and of texts that stand nowhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from vademecum.backends.embedded import INDEX_FILE, VECTORS_FILE
from vademecum.errors import StoreError, UsageError
from vademecum.memory import arguments
from vademecum.memory.core import Core
from vademecum.sqlite import quarantined
from vademecum.types import Collected

KEEP_DAYS = 30
_MOST_DAYS = 100_000


def collect(core: Core, keep_days: float, dry_run: bool) -> Collected:
    """See `Memory.gc`."""
    if not 0 <= arguments.number("keep_days", keep_days) <= _MOST_DAYS:
        raise UsageError(f"keep_days = {keep_days}: expected a number of days from 0 to {_MOST_DAYS}")
    before = time.time() - keep_days * 86_400
    # A text that is only not indexed yet must not be taken for one that is gone.
    report = core.read_files()
    if report.failed:
        path, reason = report.failed[0]
        raise StoreError(f"nothing was removed, because {path} may still hold what seems gone: {reason}")
    index = core.open_index()
    keep, kept = _kept(core)
    found = index.collect(keep, before, dry_run)
    files = (*found.files, *_damaged(core.state_folder(), before, dry_run))
    return replace(found, files=files, kept=(*found.kept, *kept))


def _kept(core: Core) -> tuple[frozenset[str] | None, tuple[tuple[str, str], ...]]:
    """The fingerprint of the model in use, which always stays; None if it cannot be told: then all lanes stay."""
    embedding = core.embedding
    wanted = embedding.query_vector.wanted()
    if wanted is not None:
        return frozenset({wanted.key}), ()
    if embedding.embedder is None:
        return frozenset(), ()
    return None, (("lanes", f"all stay, because the model in use cannot say which is its own: {embedding.state}"),)


def _damaged(folder: Path, before: float, dry_run: bool) -> Iterator[str]:
    """Databases that were set aside as damaged. History is not derived, so nothing of it goes."""
    for name in (INDEX_FILE, VECTORS_FILE):
        for file, since in quarantined(folder / name):
            if since < before:
                if not dry_run:
                    file.unlink(missing_ok=True)
                yield file.name
