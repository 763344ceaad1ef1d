"""The truth of a memory in one tar: pages, conversations, on request the journal; nothing that can be built again."""

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from vademecum import __version__
from vademecum.errors import MissingFileError, StoreError, UsageError, WriteError
from vademecum.memory import Memory
from vademecum.store.files import read_raw
from vademecum.store.layout import DIARIES, FOREIGN, detect, is_hidden
from vademecum.store.paths import Location
from vademecum.store.root import PRIVATE, create
from vademecum.store.scan import scan
from vademecum.types import Viewer

MANIFEST = "manifest.json"
_FORMAT = 1
_HISTORY = f"{PRIVATE}/history.sqlite"
_JOURNAL = f"{PRIVATE}/journal/journal.sqlite"
_CONFIG = f"{PRIVATE}/config.toml"
_IGNORE = ".vademecumignore"
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
#: What an archive may hold; more is a mistake, or meant to do harm.
_LARGEST_FILE, _MOST_FILES = 4 * 1024**3, 1_000_000


@dataclass(frozen=True, slots=True)
class Exported:
    """What went into an archive, or came out of one: files, bytes, and (path, reason) of what did not."""

    files: int
    size: int
    left_out: tuple[tuple[str, str], ...] = ()


def export_archive(memory: Memory, target: Path, *, journal: bool = False) -> Exported:
    """Write the archive of a whole memory, everybody's, to ``target``, which must not exist.

    The same memory always gives the same bytes. ``manifest.json`` comes first and names each file with its size and
    SHA-256. A name that ends in .gz or .tgz is compressed. Raises UsageError for a memory that is opened for somebody
    in particular, WriteError, and StoreError for pages that cannot be read.
    """
    if memory.viewer != Viewer():
        raise UsageError("an archive holds everybody's memory: open it for no user and no agent")
    if os.path.lexists(target):
        raise UsageError(f"{target}: exists already; choose another name")
    contents = dict(sorted(_contents(memory, journal)))
    files = [{"path": path, "size": len(data), "sha256": sha256(data).hexdigest()} for path, data in contents.items()]
    head = {"format": _FORMAT, "version": __version__, "layout": detect(memory.root, "auto").name, "files": files}
    manifest = json.dumps(head, ensure_ascii=False, indent=1).encode()
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("xb") as stream:
            _write(stream, target.name.endswith((".gz", ".tgz")), {MANIFEST: manifest, **contents})
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise WriteError(f"{target}: cannot be written: {error.strerror}") from error
    return Exported(len(contents), sum(map(len, contents.values())))


def restore_archive(source: Path, root: Path) -> Exported:
    """Make ``root``, which must be new or empty, the memory of an archive; every file is checked against the manifest.

    Nothing is written outside ``root``, whatever the names in the archive. Raises UsageError for a root that is not
    empty and for what is no archive of ours, StoreError for one that is damaged, and WriteError.
    """
    if not source.is_file():
        raise UsageError(f"{source}: there is no such archive")
    if os.path.lexists(root) and (not root.is_dir() or any(root.iterdir())):
        raise UsageError(f"{root}: is not empty, or no folder; restore into a new one")
    try:
        with tarfile.open(source, "r:*") as tar:
            first = tar.next()
            manifest = _manifest(tar, first, source)
            wanted = {entry["path"]: entry for entry in manifest["files"]}
            create(root)
            done = 0
            size = 0
            for member in islice(tar, 1, None):
                data = _member(tar, member, wanted, source)
                del wanted[member.name]  # a file that comes twice does not stand for another one
                _place(root, member.name, data)
                done, size = done + 1, size + len(data)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
        raise StoreError(f"{source}: is damaged or no archive: {error}") from error
    except OSError as error:
        raise WriteError(f"{root}: cannot be restored: {error.strerror}") from error
    if wanted:
        missing = f"{len(wanted)} files are missing, first {min(wanted)}"
        raise StoreError(f"{source}: is cut off: {missing}; {root} is not complete")
    return Exported(done, size)


def _contents(memory: Memory, journal: bool) -> Iterator[tuple[str, bytes]]:
    root = memory.root
    layout = detect(root, "auto")
    found = scan(layout)
    if found.unreadable:
        raise StoreError(f"{found.unreadable[0]}: cannot be read; an archive without it would not be whole")
    paths = [file.path for file in found.files]
    # Diaries are pages of the memory too, although nobody searches them.
    diaries = (file for name in DIARIES for file in root.glob(f"**/{name}/*.md") if file.is_file())
    paths += [path for file in diaries if _is_page(path := file.relative_to(root).as_posix())]
    for path in {*paths, _IGNORE, _CONFIG}:
        try:
            yield path, read_raw(Location(path, root / path)).data
        except MissingFileError:
            continue
    for path in (_HISTORY, _JOURNAL) if journal else (_HISTORY,):
        if (root / path).exists():
            yield path, _database(root / path)


def _database(file: Path) -> bytes:
    """A consistent copy of a database that others may be writing to."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.sqlite"
        try:
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as source:
                source.execute("VACUUM INTO ?", (str(copy),))
        except sqlite3.Error as error:
            raise StoreError(f"{file}: cannot be copied: {error}") from error
        return copy.read_bytes()


def _write(stream: io.BufferedWriter, packed: bool, contents: dict[str, bytes]) -> None:
    out = gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) if packed else stream
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, data in contents.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o600
            tar.addfile(member, io.BytesIO(data))
    if out is not stream:
        out.close()


def _manifest(tar: tarfile.TarFile, first: tarfile.TarInfo | None, source: Path) -> dict[str, list[dict[str, str]]]:
    stream = None if first is None or first.name != MANIFEST or not first.isreg() else tar.extractfile(first)
    found: Any = None
    try:
        found = json.loads(stream.read(_LARGEST_FILE)) if stream is not None else None
        entries = found["files"]
        good = found["format"] == _FORMAT and all(isinstance(one["path"], str) and "sha256" in one for one in entries)
    except (ValueError, KeyError, TypeError, AttributeError):
        good = False
    if not good or len(found["files"]) > _MOST_FILES:
        raise UsageError(f"{source}: is no archive of a memory that this version knows")
    manifest: dict[str, list[dict[str, str]]] = found
    return manifest


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, wanted: dict[str, dict[str, str]], source: Path) -> bytes:
    stream = tar.extractfile(member) if member.isreg() and member.name in wanted else None
    if stream is None or member.size > _LARGEST_FILE:
        raise StoreError(f"{source}: {member.name!r} is not in the manifest; nothing more is restored")
    data = stream.read()
    if sha256(data).hexdigest() != wanted[member.name]["sha256"]:
        raise StoreError(f"{source}: {member.name!r} is damaged; nothing more is restored")
    return data


def _is_page(path: str) -> bool:
    """Whether a path, by its spelling, is that of a page: what is exported is what can be restored."""
    parts = PurePosixPath(path).parts
    strange = any(is_hidden(part) or part in FOREIGN for part in parts) or (os.sep == "\\" and "\\" in path)
    return path.lower().endswith(".md") and not strange


def _place(root: Path, path: str, data: bytes) -> None:
    parts = PurePosixPath(path).parts
    ours = path in (_HISTORY, _JOURNAL, _CONFIG, _IGNORE)
    if not (ours or _is_page(path)) or ".." in parts or path.startswith("/") or "\0" in path:
        raise StoreError(f"{path!r}: is no part of a memory; nothing more is restored")
    file = root.joinpath(*parts)
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(file, _WRITE, 0o600), "wb") as out:
        out.write(data)
