"""What must be done so that the index equals the folder. Pure: no file is read here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from vademecum.history.paths import file_of
from vademecum.store.scan import FileStat, Scan
from vademecum.types import Source


@dataclass(frozen=True, slots=True)
class Plan:
    """The difference between disk and index.

    ``verify`` are files whose stamp is unchanged but was taken so soon after a write that it proves nothing: they
    are read and compared by content. ``removed`` are paths in the index that the scan did not see. ``moved`` gives the
    old paths, among those, of files among ``added`` that are certainly the same: their folder was moved or renamed.
    """

    added: tuple[FileStat, ...]
    changed: tuple[FileStat, ...]
    verify: tuple[FileStat, ...]
    removed: tuple[str, ...]
    kept: int
    moved: Mapping[str, str] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether the index already equals the folder, as far as stamps can tell."""
        return not (self.added or self.changed or self.removed)

    @property
    def to_read(self) -> tuple[FileStat, ...]:
        """Files whose content is needed."""
        return self.added + self.changed + self.verify


def plan(found: Scan, known: Mapping[str, Source]) -> Plan:
    """Compare stamps. What the scan could not look at is kept: unreadable is not deleted. Whether a conversation is
    still in a file that holds several is told by whoever reads that file.
    """
    added, changed, verify = [], [], []
    kept = 0
    for file in found.files:
        source = known.get(file.path)
        if source is None:
            added.append(file)
        elif source.stat != file.stamp:
            changed.append(file)
        elif not source.settled:
            verify.append(file)
        else:
            kept += 1
    paths = {file.path for file in found.files}
    gone = known.keys() - paths
    removed = sorted(path for path in gone if not _may_be_there(path, found, paths))
    kept += len(gone) - len(removed)
    return Plan(tuple(added), tuple(changed), tuple(verify), tuple(removed), kept, _moved(added, removed, known))


def _moved(added: Sequence[FileStat], removed: Sequence[str], known: Mapping[str, Source]) -> dict[str, str]:
    """Where each file was. A stamp holds inode and time of the last change, which a folder's new name leaves alone."""
    were = {source.stat: path for path in removed if (source := known[path]).settled and source.kind != "session"}
    return {file.path: old for file in added if (old := were.pop(file.stamp, None)) is not None}


def _may_be_there(path: str, found: Scan, paths: Collection[str]) -> bool:
    file = file_of(path) or path
    return found.hides(file) or (file != path and file in paths)
