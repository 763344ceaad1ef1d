"""The quick look at folders in plain Python: the twin of ext/folders.pyx."""

from __future__ import annotations

import os
import stat
import struct

from vademecum.errors import UsageError

# Pages, and files with conversations.
_READ = (b".md", b".jsonl", b"chat_history.json", b"index.db", b"index.db-wal")


def glance(paths: bytes) -> bytes | None:
    """All that a scan for pages looks at in some folders: equal bytes, equal scans.

    ``paths``: each folder's path as the file system has it, with a NUL behind it. The layout of the bytes is told in
    ext/glance.h. None where something could not be looked at, and on systems where it was not tried.

    Raises UsageError when the last path does not end.
    """
    if paths and not paths.endswith(b"\0"):
        raise UsageError("paths: the last one does not end with a NUL")
    if os.scandir not in os.supports_fd:
        return None
    try:
        return b"".join(_folder(path) for path in paths.split(b"\0")[:-1])
    except OSError:
        return None


def _folder(path: bytes) -> bytes:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        state = os.fstat(folder)
        with os.scandir(folder) as entries:
            return b"".join((_numbers(state.st_dev, state.st_ino), *map(_entry, entries)))
    finally:
        os.close(folder)


def _entry(entry: os.DirEntry[str]) -> bytes:
    name = os.fsencode(entry.name)
    link = entry.is_symlink()
    folder = not link and entry.is_dir(follow_symlinks=False)
    file = not link and entry.is_file(follow_symlinks=False)
    text = name + (b"\0d" if folder else b"\0l" if link else b"\0f" if file else b"\0o")
    if folder or not (link or name.startswith(b".") or name.lower().endswith(_READ)):
        return text
    state = entry.stat(follow_symlinks=False)
    text += _numbers(state.st_mode, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return text + _numbers(_target(entry)) if link else text


def _target(entry: os.DirEntry[str]) -> int:
    try:
        return stat.S_IFMT(entry.stat().st_mode)
    except OSError:
        return 0


def _numbers(*values: int) -> bytes:
    # An inode may use all 64 bits.
    return struct.pack(f"={len(values)}q", *((value + 2**63) % 2**64 - 2**63 for value in values))
