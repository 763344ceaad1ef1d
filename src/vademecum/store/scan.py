"""What Markdown a root holds at this moment, and one page of it, read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from vademecum.errors import PathError, StoreError
from vademecum.sqlite.foreign import stamp as database_stamp
from vademecum.store.disk import stamp
from vademecum.store.files import decode, read_raw
from vademecum.store.ignore import Ignored, ignored
from vademecum.store.layout import Layout, is_hidden
from vademecum.store.paths import Location, resolve
from vademecum.store.root import check_mounted, identity
from vademecum.store.transcripts import fixed, is_linked, is_transcript
from vademecum.text.markdown import front_matter, inline_tags
from vademecum.types import Source

#: Seconds after which an equal stamp proves an equal file: no file system has coarser clocks than this.
SETTLE_S = 2.0


class FileStat(NamedTuple):
    """A page as found: its path relative to the root, "/" between folders, spelled as on disk, and its stamp.

    ``spoken`` says that it is no page but a file with conversations.
    """

    path: str
    stamp: str
    size: int
    spoken: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """All pages of a root by path, and what kept others out.

    ``notices`` pair a path with what is to be told of it. ``unreadable`` are paths of folders (or files) that could
    not be looked at: what was known below them is not gone. ``linked``: some page has another name too (a hard link),
    under which it can be written without a trace in its folder. ``folders`` are
    the absolute paths of those listed.
    """

    files: tuple[FileStat, ...]
    notices: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[str, ...] = ()
    linked: bool = False
    folders: tuple[str, ...] = ()

    def hides(self, path: str) -> bool:
        """Whether ``path`` may exist although it is not among the files."""
        return any(path == gap or path.startswith(f"{gap}/") for gap in self.unreadable)


@dataclass(frozen=True, slots=True)
class Page:
    """A page as read: what the index must know of it, and its text without byte order mark."""

    source: Source
    text: str


def scan(
    layout: Layout,
    entering: Callable[[str], None] | None = None,
    taken: frozenset[str] = frozenset(),
    spoken: bool = False,
) -> Scan:
    """Every Markdown file of the root that is part of the memory; reads no page.

    ``entering`` is called with the path of each folder just before it is listed. ``taken`` are absolute paths of
    folders whose pages are somebody else's business. With ``spoken``, files with conversations too. Raises StoreError
    when the root is missing, is no folder, cannot be listed, holds nothing at all or is exchanged meanwhile: an empty
    scan means an empty memory and nothing else. Also when the rules of what to ignore cannot be read.
    """
    before = identity(layout.root)
    walk = _Walk(layout, entering, taken, spoken)
    walk.run()
    if spoken:
        walk.look_at_fixed()
    if identity(layout.root) != before:
        raise StoreError(f"{layout.root}: the memory folder was exchanged while it was read; try again")
    if not walk.files:
        check_mounted(layout.root)
    return Scan(
        tuple(sorted(walk.files)),
        tuple(sorted(walk.notices)),
        tuple(sorted(walk.unreadable)),
        walk.linked,
        tuple(walk.listed),
    )


def load(layout: Layout, file: FileStat, now: float, prefix: str = "") -> Page:
    """Read a page of a scan; ``now`` is the time in seconds since the epoch, ``prefix`` stands before its path.

    The stamp is that of the bytes read, even if the file has changed since the scan. Raises MissingFileError or
    UnreadableFileError.
    """
    raw = read_raw(Location(prefix + file.path, layout.root / file.path))
    text = decode(raw.data, prefix + file.path).text
    place = layout.classify(file.path)
    head = front_matter(text)
    source = Source(
        path=prefix + file.path,
        scope=place.scope,
        kind=place.kind,
        date=None if head.evergreen else place.date,
        stat=stamp(raw.stat),
        fingerprint=sha256(raw.data).hexdigest(),
        settled=now - raw.stat.st_ctime > SETTLE_S,
        tags=tuple(dict.fromkeys((*head.tags, *inline_tags(text)))),
    )
    return Page(source, text)


def absent(layout: Layout, path: str) -> bool:
    """Whether a path that a scan did not show is certainly no page of the memory now.

    To be asked just before its rows are deleted: a page may have been written while the scan ran, and what cannot
    be looked at is not gone.
    """
    file = layout.root / path
    try:
        if not S_ISREG(file.lstat().st_mode) or not belongs(layout, path):
            return True
        return resolve(layout.root, path).path != path
    except (FileNotFoundError, NotADirectoryError, PathError):
        return True
    except (OSError, StoreError):
        return False


def belongs(layout: Layout, path: str) -> bool:
    """Whether a page is part of the memory, judged by its path and by the rules of what to ignore.

    Raises UnreadableFileError when those cannot be read.
    """
    return layout.indexes(path.rpartition("/")[0]) and not ignored(layout.root).hides(path)


class _Walk:
    """One walk through the folders below a root; no recursion, so depth does not matter."""

    def __init__(
        self, layout: Layout, entering: Callable[[str], None] | None, taken: frozenset[str], spoken: bool
    ) -> None:
        self.layout = layout
        self.spoken = spoken
        self.entering = entering
        self.taken = taken
        self.root = f"{layout.root}{os.sep}"
        self.ignored = Ignored()
        self.files: list[FileStat] = []
        self.notices: list[tuple[str, str]] = []
        self.unreadable: list[str] = []
        self.linked = False
        self.listed: list[str] = []
        self._folders = [""]

    def run(self) -> None:
        while self._folders:
            folder = self._folders.pop()
            if self.entering is not None:
                self.entering(folder)
            try:
                self.listed.append(self.root + folder)
                with os.scandir(self.root + folder) as entries:
                    if not folder:
                        self.ignored = ignored(self.layout.root)
                        self.notices += self.ignored.notices
                    self._look_at(entries, f"{folder}/" if folder else "")
            except FileNotFoundError as error:
                if not folder:
                    raise StoreError(f"{self.root}: the memory folder is gone") from error
            except OSError as error:
                if not folder:
                    raise StoreError(f"{self.root}: the memory folder cannot be read: {error.strerror}") from error
                self._give_up(folder, error)

    def _look_at(self, entries: Iterator[os.DirEntry[str]], prefix: str) -> None:
        for entry in entries:
            name = entry.name
            if is_hidden(name):
                continue
            path = prefix + name
            page = name[-3:].lower() == ".md"
            spoken = self.spoken and not page and is_transcript(name)
            if not (name.isascii() or _is_unicode(name)):
                self._skip(_printable(path), "its name is not valid UTF-8; rename it")
            elif entry.is_dir(follow_symlinks=False):
                self._enter(path, page)
            elif self.ignored.page(path):
                continue
            elif entry.is_symlink():
                self._skip_link(entry, path, page or spoken)
            elif page or spoken:
                self._add(entry, path, spoken)

    def look_at_fixed(self) -> None:
        """Files with conversations that have a place of their own."""
        for place in fixed(self.layout):
            try:
                state = place.file.lstat()
                mark = database_stamp(place.file) if place.path.endswith(".db") else stamp(state)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                self._give_up(place.path, error)
                continue
            if self.ignored.hides(place.path):
                continue
            if is_linked(place.file) or not S_ISREG(state.st_mode):
                self._skip(place.path, "it is no regular file, or a link leads there")
            else:
                self.files.append(FileStat(place.path, mark, state.st_size, True))

    def _add(self, entry: os.DirEntry[str], path: str, spoken: bool) -> None:
        try:
            state = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            self._give_up(path, error)
            return
        if S_ISREG(state.st_mode):
            self.files.append(FileStat(path, stamp(state), state.st_size, spoken))
            self.linked |= state.st_nlink > 1
        else:
            self._skip(path, "it is not a regular file")

    def _enter(self, path: str, page: bool) -> None:
        if not self.layout.indexes(path) or self.ignored.folder(path) or self.root + path in self.taken:
            return
        if page:
            self._skip(path, "it is a folder with the name of a page; the pages inside are used")
        self._folders.append(path)

    def _skip_link(self, entry: os.DirEntry[str], path: str, page: bool) -> None:
        try:
            relevant = page or entry.is_dir()
            target = str(Path(entry.path).readlink())
        except OSError:
            relevant, target = True, "?"
        if relevant:
            way_out = "move the target into the memory, or name it in the setting roots"
            self._skip(path, f"it is a link to {_printable(target)}; {way_out}")

    def _skip(self, path: str, why: str) -> None:
        self.notices.append((path, f"{path}: skipped, {why}"))

    def _give_up(self, path: str, error: OSError) -> None:
        self.unreadable.append(path)
        self.notices.append((path, f"{path}: cannot be read: {error.strerror}; what is known of it is kept"))


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(path: str) -> str:
    return path.encode(errors="backslashreplace").decode()
