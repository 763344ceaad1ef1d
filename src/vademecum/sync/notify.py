"""That something changed below a folder, as the operating system tells it. The only module that knows watchdog."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from watchdog.observers.inotify_c import InotifyEvent

#: Called with what changed, named below the folder that was covered, and whether it is a folder; ("", True) when it
#: cannot be told what changed. Must be quick and must not raise. Comes from a thread of the notifier.
Changed: TypeAlias = Callable[[str, bool], None]

#: More folders than this are not watched one by one: each costs a kilobyte of the kernel's memory, and the user's other
#: programs need some too.
MOST_FOLDERS = 20_000


class Notifier(Protocol):
    """Tells of changes in the folders that it covers, until it is closed."""

    @property
    def exact(self) -> bool:
        """Whether no change in a covered folder can escape it, and ``fence`` works."""
        ...

    def cover(self, folder: str, place: Path) -> None:
        """Watch the folder at ``place``, known as ``folder``, but not what is below it.

        Its parent, if that is to be watched, comes first. Raises OSError when no more can be watched.
        """
        ...

    def keep(self, folders: set[str]) -> None:
        """Watch no others than these."""
        ...

    def fence(self, timeout_s: float) -> bool:
        """Wait until all changes made before this call have been told; False if that does not become certain."""
        ...

    def alive(self) -> bool:
        """Whether it still works."""
        ...

    def close(self) -> None:
        """Stop, and let go of everything."""
        ...


def notifier(changed: Changed) -> Notifier:
    """The best that this system has. Raises OSError or ImportError where there is none: then one must look."""
    system = platform.system()
    if system == "Linux":
        return FolderEvents(changed)
    if system in ("Darwin", "Windows"):
        return TreeEvents(changed)
    # On BSD each file would take a descriptor.
    raise OSError(errno.ENOTSUP, f"{system} tells of no changes below a folder")


class FolderEvents:
    """Linux: one inotify instance, one thread, and one watch a folder, so that ignored folders cost nothing.

    The kernel queues an event before the call that caused it returns, and keeps the order. So once the event of a file
    that the fence makes has arrived, all earlier ones have.
    """

    exact = True

    def __init__(self, changed: Changed) -> None:
        from watchdog.observers.inotify_c import InotifyFD

        self._changed = changed
        self._lock = threading.Lock()
        self._folders: dict[str, _Folder] = {}
        self._fd: Any = InotifyFD()
        self._fd.start()
        try:
            self._fence = _Fence(self._fd)
        except OSError:
            self._fd.stop()
            raise

    def cover(self, folder: str, place: Path) -> None:
        with self._lock:
            if folder in self._folders:
                return
            if len(self._folders) >= MOST_FOLDERS:
                raise OSError(errno.ENOSPC, f"there are more than {MOST_FOLDERS} folders")
            watch = _Folder(self, folder)
            try:
                watch.number = self._fd.add_callback(os.fsencode(place), _mask(), watch, id(watch))
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) and folder:
                    return  # gone since it was listed, which its parent's watch tells
                raise
            if watch.number < 0:  # watchdog's way to say that the folder cannot be read
                self._drop([watch])
                return
            self._folders[folder] = watch

    def keep(self, folders: set[str]) -> None:
        with self._lock:
            self._drop([self._folders.pop(folder) for folder in self._folders.keys() - folders])

    def fence(self, timeout_s: float) -> bool:
        return self.alive() and self._fence.passes(timeout_s)

    def alive(self) -> bool:
        return bool(self._fd.is_alive())

    def close(self) -> None:
        self._fd.stop()
        if self._fd is not threading.current_thread():
            self._fd.join(2.0)
        self._fence.remove()

    def _drop(self, watches: list[_Folder]) -> None:
        self._fd.remove_callbacks([(watch.number, id(watch)) for watch in watches])

    def told(self, watch: _Folder, event: InotifyEvent) -> None:
        """An event in a folder that is covered."""
        if not event.name:
            self._changed(watch.path, True)
            if event.is_move_self:
                self.forget(watch.path)
            return
        name = os.fsdecode(event.name)
        path = f"{watch.path}/{name}" if watch.path else name
        folder = bool(event.mask & _IN_ISDIR)
        if folder and (event.is_moved_from or event.is_delete):
            self.forget(path)
        self._changed(path, folder)

    def forget(self, folder: str) -> None:
        """Stop watching a folder that has moved or gone, and those below it: under its path there may be another."""
        with self._lock:
            if folder not in self._folders:
                return
            below = f"{folder}/" if folder else ""
            gone = [path for path in self._folders if path == folder or path.startswith(below)]
            self._drop([self._folders.pop(path) for path in gone])

    def ended(self, watch: _Folder) -> None:
        """The kernel has taken the watch away."""
        with self._lock:
            if self._folders.get(watch.path) is watch:
                del self._folders[watch.path]

    def overflowed(self) -> None:
        """Events were lost."""
        self._changed("", True)


def _mask() -> int:
    from watchdog.observers.inotify_c import InotifyConstants as In

    # A write through mapped memory shows when the file is closed, a change of permissions as one of attributes.
    written = In.IN_MODIFY | In.IN_CLOSE_WRITE | In.IN_ATTRIB
    entries = In.IN_CREATE | In.IN_DELETE | In.IN_MOVED_FROM | In.IN_MOVED_TO
    itself = In.IN_DELETE_SELF | In.IN_MOVE_SELF
    return written | entries | itself | In.IN_ONLYDIR | In.IN_DONT_FOLLOW | In.IN_EXCL_UNLINK


#: In an event's mask: it is about a folder.
_IN_ISDIR = 0x40000000


class _Folder:
    """What watchdog calls for one folder."""

    __slots__ = ("_events", "number", "path")

    def __init__(self, events: FolderEvents, path: str) -> None:
        self._events = events
        self.path = path
        self.number = -1

    def on_event(self, event: InotifyEvent) -> None:
        self._events.told(self, event)

    def on_watch_deleted(self, wd: int) -> None:  # noqa: ARG002 - the protocol of watchdog
        self._events.ended(self)

    def on_queue_overflow(self) -> None:
        self._events.overflowed()


class _Fence:
    """A folder of our own, outside the root, in which a file of a new name is made for each question."""

    def __init__(self, fd: Any) -> None:
        from watchdog.observers.inotify_c import InotifyConstants as In

        self._folder = Path(tempfile.mkdtemp(prefix="vademecum-watch-"))
        self.remove = weakref.finalize(self, _remove, self._folder, os.getpid())
        self._asking = threading.Lock()
        self._passed = threading.Condition()
        self._asked = self._latest = 0
        fd.add_callback(os.fsencode(self._folder), In.IN_CREATE | In.IN_ONLYDIR, self, id(self))

    def passes(self, timeout_s: float) -> bool:
        with self._asking:
            self._asked += 1
            file = self._folder / str(self._asked)
            try:
                file.touch(exist_ok=False)
                file.unlink()
            except OSError:
                return False
            with self._passed:
                return self._passed.wait_for(lambda: self._latest >= self._asked, timeout_s)

    def on_event(self, event: InotifyEvent) -> None:
        if event.name.isdigit():
            with self._passed:
                self._latest = int(event.name)
                self._passed.notify_all()

    def on_watch_deleted(self, wd: int) -> None:
        """Questions are in vain from now on."""

    def on_queue_overflow(self) -> None:
        """A lost answer is no answer."""


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not in a forked child
        shutil.rmtree(folder, ignore_errors=True)


class TreeEvents:
    """macOS and Windows, whose systems watch a whole tree with one handle. Nothing is said of order or delay."""

    exact = False

    def __init__(self, changed: Changed) -> None:
        from watchdog.observers import Observer

        self._changed = changed
        self._trees: dict[str, Any] = {}
        self._observer = Observer()
        self._observer.start()

    def cover(self, folder: str, place: Path) -> None:
        from watchdog.events import FileSystemEvent, FileSystemEventHandler

        if any(folder == tree or folder.startswith(f"{tree}/" if tree else "") for tree in self._trees):
            return
        changed = self._changed

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.event_type not in ("opened", "closed_no_write"):
                    changed(_below(folder, place, event.src_path), event.is_directory)
                    if event.dest_path:
                        changed(_below(folder, place, event.dest_path), event.is_directory)

        self._trees[folder] = self._observer.schedule(Handler(), str(place), recursive=True)

    def keep(self, folders: set[str]) -> None:
        for tree in self._trees.keys() - folders:
            self._observer.unschedule(self._trees.pop(tree))

    def fence(self, timeout_s: float) -> bool:  # noqa: ARG002 - the system promises nothing
        return False

    def alive(self) -> bool:
        return self._observer.is_alive() and all(emitter.is_alive() for emitter in self._observer.emitters)

    def close(self) -> None:
        self._observer.stop()
        with suppress(RuntimeError):
            self._observer.join(2.0)


def _below(folder: str, place: Path, path: str | bytes) -> str:
    relative = os.path.relpath(os.fsdecode(path), place).replace(os.sep, "/")
    return "/".join(part for part in (folder, relative) if part not in ("", "."))
