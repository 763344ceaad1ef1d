"""Whether the file systems at and below a folder tell of every change: of what others write to a share, none does."""

from __future__ import annotations

import re
import select
import sys
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
#: Written to by nobody but this machine's kernel, which knows of each change.
_TELLING = frozenset(
    ("bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuseblk", "hfsplus", "jfs", "msdos", "ntfs3",
     "overlay", "ramfs", "reiserfs", "squashfs", "tmpfs", "vfat", "xfs", "zfs")
)  # fmt: skip


class Mounts:
    """Linux's table of mounts, whose changes no event of a file tells. Elsewhere there is none, and nothing to tell.

    ``table`` has the form of proc_pid_mountinfo(5). For one thread at a time.
    """

    def __init__(self, table: Path = _TABLE) -> None:
        self._table = table
        try:
            self._file = table.open("rb") if sys.platform == "linux" else None
        except OSError:
            self._file = None
        if self._file is not None:
            self._poll = select.poll()
            self._poll.register(self._file, select.POLLPRI)

    def changed(self) -> bool:
        """Whether anything was mounted or unmounted since this was last asked."""
        return self._file is not None and bool(self._poll.poll(0))

    def silent(self, root: Path) -> str | None:
        """What does not tell of all changes at or below ``root``, such as "nfs4 at /home/ann/notes"; None if all do."""
        if sys.platform != "linux":
            return None
        try:
            lines = self._table.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
            mounts = [_mount(line) for line in lines]
        except (OSError, ValueError, IndexError):
            return "an unknown file system"
        # A later line hides an earlier one of the same place.
        by_place = dict(mounts)
        above = [place for place in by_place if root.is_relative_to(place)]
        below = [place for place in by_place if place.is_relative_to(root) and place != root]
        if not above:
            return "an unknown file system"
        for place in (max(above, key=lambda place: len(place.parts)), *below):
            if by_place[place] not in _TELLING:
                return f"{by_place[place]} at {place}"
        return None

    def close(self) -> None:
        """Release the table."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _mount(line: str) -> tuple[Path, str]:
    before, _, after = line.partition(" - ")
    place = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split(" ")[4])
    return Path(place), after.split(" ")[0]
