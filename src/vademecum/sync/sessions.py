"""Conversations as a source: what was said becomes chunks of kind "session", turn by turn, with its own time."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from pathlib import Path

from vademecum.chunk import chunk_markdown
from vademecum.errors import HistoryError, PathError, StoreError
from vademecum.history import HistoryFile, paths
from vademecum.history.chat_file import ChatFile
from vademecum.history.index_db import IndexDb
from vademecum.history.json_lines import JsonLines
from vademecum.history.own import OwnHistory
from vademecum.history.said import Said, Stretch, TurnSource, rendered, turns
from vademecum.ports import IndexBackend
from vademecum.settings import ChunkSettings
from vademecum.store.disk import stamp
from vademecum.store.files import opened
from vademecum.store.layout import leading_date, scope_of
from vademecum.store.places import Places
from vademecum.store.scan import SETTLE_S, FileStat, Scan
from vademecum.store.transcripts import beside, conversation_file, exists, is_transcript
from vademecum.types import Chunk, Excerpt, Source

#: Names the rules by which conversations become texts; with another, they are read again.
_RULES = "said-1"
#: What stands for the content of a file that holds several conversations, which are sources of their own.
_SEVERAL = "several"
_MOST_BYTES = 65_536
#: At least what a label and the blank lines around a message take.
_LABEL = 16


@dataclass
class Heard:
    """What reading one file brought: chunks written, and notices as (path, text)."""

    chunks: int = 0
    notices: list[tuple[str, str]] = field(default_factory=list)


class Sessions:
    """Reads the conversations of a memory. Safe to share between threads.

    ``own`` is its own history, ``zone`` the user's (None: the system's), ``most_bytes`` what is read of one file.
    """

    def __init__(
        self,
        places: Places,
        own: HistoryFile | None,
        chunk_settings: ChunkSettings,
        zone: tzinfo | None,
        most_bytes: int,
    ) -> None:
        self._places = places
        self._own = own
        self._chunk_settings = chunk_settings
        self._zone = zone
        self._most_bytes = most_bytes
        self._mark = f"{_RULES} {zone or ''} "

    # -- finding ------------------------------------------------------------------------------------------------

    def listed(self, found: Scan) -> Scan:
        """A scan with the memory's own history, and with a notice about each file that is not read whole."""
        notices = [
            (file.path, f"{file.path}: only its newest {self._most_bytes >> 20} MB are searched (sessions.max_mb)")
            for file in found.files
            if file.spoken and file.size > self._most_bytes and is_transcript(file.path)
        ]
        own: tuple[FileStat, ...] = ()
        gaps: tuple[str, ...] = ()
        try:
            mark = self._own.stamp() if self._own is not None else ""
            own = (FileStat(paths.OWN, mark, 0, True),) if mark else ()
        except HistoryError as error:
            notices.append(("", f"conversations cannot be read: {error}; what is known of them is kept"))
            gaps = (paths.OWN,)
        return replace(
            found,
            files=(*found.files, *own),
            notices=(*found.notices, *notices),
            unreadable=(*found.unreadable, *gaps),
        )

    def elsewhere(self) -> str:
        """A text that changes with conversations outside the folders that are watched: there no event tells of it."""
        files = (beside(Path(os.path.realpath(root))) for root in self._places.roots().values())
        parts = [str(_state_of(file)) for file in files if file is not None]
        try:
            parts.append("" if self._own is None else self._own.stamp())
        except HistoryError as error:
            parts.append(str(error))
        return "|".join(parts)

    def absent(self, path: str) -> bool:
        """Whether the file of a conversation that a scan did not show is certainly none of the memory's now."""
        file = paths.file_of(path) or path
        if file == paths.OWN:
            return True
        try:
            if not self._places.belongs(file):
                return True
            layout, inner = self._places.locate(file)
            return exists(conversation_file(layout, inner).file) is False
        except PathError:
            return True
        except StoreError:
            return False

    def gone(self, path: str) -> bool:
        """Whether the file of a conversation that the index knows is certainly not there any more."""
        return paths.file_of(path) != paths.OWN and self.absent(path)

    def _source(self, file: str) -> TurnSource:
        """Who reads a file, by its path in the index. Raises StoreError kinds."""
        if file == paths.OWN and self._own is not None:
            return OwnHistory(self._own)
        layout, inner = self._places.locate(file)
        place = replace(conversation_file(layout, inner), path=file)
        if file.endswith(paths.INDEX_DB):
            return IndexDb(file, place.file)
        if is_transcript(file):
            return JsonLines(file, scope_of(file), lambda: opened(place), self._most_bytes)

        def content() -> bytes:
            with opened(place) as stream:
                return stream.read(self._most_bytes + 1)

        return ChatFile(file, scope_of(file), content, self._most_bytes)

    # -- indexing -----------------------------------------------------------------------------------------------

    def apply(
        self,
        index: IndexBackend,
        file: FileStat,
        known: Mapping[str, Source],
        now: float,
        writing: AbstractContextManager[object],
        stop: threading.Event,
    ) -> Heard:
        """Bring the index up to a file of a scan; each stretch is one transaction, and ``writing`` is held for it.

        Raises StoreError or HistoryError when the file cannot be read: what was known stays, and so does its stamp,
        so that it is tried again.
        """
        source, heard = self._source(file.path), Heard()
        inside = _inside(file.path, known)
        states = {path: self._state(found) for path, found in inside.items()}
        for stretch in source.changed(states):
            if stop.is_set():
                return heard
            with writing:
                heard.chunks += self._write(index, stretch)
            heard.notices += [(stretch.path, notice) for notice in stretch.notices]
        gone = source.gone(states)
        with writing:
            if gone:
                index.delete(gone)
            _note(index, file, now - _changed_at(file.stamp) > SETTLE_S)
        return heard

    def _write(self, index: IndexBackend, stretch: Stretch) -> int:
        chunks = list(self._chunks(stretch))
        source = Source(stretch.path, stretch.scope, "session", None, "", self._mark + stretch.state)
        index.replace_source(source, chunks, stretch.first, stretch.until)
        return len(chunks)

    def _state(self, source: Source) -> str:
        """What a source of turns said of a conversation; "" if it was read by other rules."""
        return source.fingerprint.removeprefix(self._mark) if source.fingerprint.startswith(self._mark) else ""

    def _chunks(self, stretch: Stretch) -> Iterator[Chunk]:
        day = leading_date(stretch.path.rpartition("/")[2])
        seen: Counter[tuple[tuple[str, ...], bytes]] = Counter()
        for turn in turns(stretch.said):
            text, positions = rendered(turn)
            time = next((one.time for one in turn if one.time is not None), None)
            for chunk in chunk_markdown(text, self._chunk_settings):
                identity = chunk.heading, chunk.hash
                yield replace(
                    chunk,
                    start_line=positions[chunk.start_line - 1],
                    end_line=positions[chunk.end_line - 1],
                    occurrence=seen[identity],
                    date=self._local(time) or day,
                )
                seen[identity] += 1

    def _local(self, time: datetime | None) -> str | None:
        """A time in the user's zone, from which its day can be read."""
        if time is None:
            return None
        try:
            here = time if time.tzinfo is None else time.astimezone(self._zone)
        except (OverflowError, OSError, ValueError):  # the ends of the calendar
            return None
        return here.replace(tzinfo=None).isoformat(timespec="seconds")

    # -- reading ------------------------------------------------------------------------------------------------

    def is_conversation(self, path: object) -> bool:
        """Whether a path, whoever gave it, is that of a conversation, which need not be there."""
        if not isinstance(path, str):
            return False
        file = paths.file_of(path)
        if file == paths.OWN:
            return self._own is not None
        try:
            layout, inner = self._places.locate(file or path)
            conversation_file(layout, inner)
        except StoreError:
            return False
        return file is not None or not path.endswith(paths.INDEX_DB)

    def excerpt(self, path: str, first: int, count: int | None) -> Excerpt:
        """What was said at ``count`` positions (None: all) from ``first`` on, as it is searched; see `Excerpt`.

        At most 64 KiB: it then ends with the last message that fits whole, or inside the first. Raises StoreError
        kinds and HistoryError.
        """
        source = self._source(paths.file_of(path) or path)
        total = source.last(path)
        taken: list[Said] = []
        size, truncated = 0, False
        for one in source.read(path, first):
            if count is not None and one.position >= first + count:
                break
            size += len(one.text.encode()) + _LABEL
            if size > _MOST_BYTES:
                truncated = True
                break
            taken.append(one)
        if truncated and not taken:
            taken = [one._replace(text=one.text.encode()[: _MOST_BYTES - _LABEL].decode(errors="ignore"))]
        text = "\n\n".join(rendered(turn)[0] for turn in turns(taken))
        return Excerpt(path, first, taken[-1].position if taken else 0, total, text, truncated)


def _state_of(file: Path) -> str | None:
    try:
        return stamp(file.lstat())
    except OSError:
        return None


def _note(index: IndexBackend, file: FileStat, settled: bool) -> None:
    """Remember the stamp of a file that has been read."""
    known = index.fingerprints().get(file.path)
    if known is not None:
        index.touch([replace(known, stat=file.stamp, settled=settled)])
    else:
        index.replace_source(Source(file.path, scope_of(file.path), "session", None, file.stamp, _SEVERAL, settled), ())


def _inside(file: str, known: Mapping[str, Source]) -> dict[str, Source]:
    """The sources that come from a file."""
    if not file.endswith((paths.INDEX_DB, paths.OWN)):
        return {file: known[file]} if file in known else {}
    spoken = ((path, source) for path, source in known.items() if source.kind == "session")
    return {path: source for path, source in spoken if paths.file_of(path) == file}


def _changed_at(stamp: str) -> float:
    """When the latest of the files of a stamp was changed, in Unix seconds; 0 for a stamp without times."""
    parts = [part.split(":") for part in stamp.split("|") if ":" in part]
    return max((int(part[-2]) for part in parts), default=0) / 1e9
