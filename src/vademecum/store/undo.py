"""Reading the journal, and taking changes back without losing what was written since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from vademecum.errors import ConflictError, UsageError
from vademecum.store.files import Change, Document, decode, move, page_bytes, read_text, remove, rewrite
from vademecum.store.journal import Journal, new_batch
from vademecum.store.lock import root_lock
from vademecum.store.paths import resolve
from vademecum.text.merge import Collision, merge, unified
from vademecum.types import Diff, LogEntry, Origin

Visible = Callable[[LogEntry], bool]


def log(root: Path, visible: Visible, path: str | None = None) -> tuple[LogEntry, ...]:
    """The changes that may be seen, newest first; with ``path``, those of one page under all names that it had."""
    with Journal(root) as journal:
        return tuple(filter(visible, journal.entries(path, partial(page_bytes, root))))


def diff(root: Path, visible: Visible, number: int) -> Diff:
    """What a change did, as a unified diff. Raises UsageError for a number that is not in the log."""
    with Journal(root) as journal:
        entry = _entry(journal, visible, number)
        before, after = (
            "" if content is None else decode(journal.content(content), entry.path).text
            for content in (entry.before, entry.after)
        )
    old_name = "/dev/null" if entry.before is None else entry.moved_from or entry.path
    return Diff(entry, unified(before, after, old_name, "/dev/null" if entry.after is None else entry.path))


def undo(
    root: Path, visible: Visible, number: int | None, by: Origin, optional: Callable[[str], bool] = lambda _: False
) -> tuple[LogEntry, ...]:
    """Take back one change: the one with that number, else the newest that was not taken back and takes none back.

    Changes that were made together with it are taken back too, all or none. Only where something was written since that
    stands in the way, pages that are ``optional`` by their path, or that may not be seen, stay as they are.

    Returns the entries of the undo, which can be undone as well; the first takes back the change with that number, or
    the first one of the operation. What was written since stays. Raises ConflictError when it stands in the way, and
    UsageError when there is no such change.
    """
    with root_lock(root), Journal(root) as journal:
        journal.settle(partial(page_bytes, root))
        every = list(journal.entries())
        seen = [entry for entry in every if visible(entry)]
        entry = _newest(seen) if number is None else _entry(journal, visible, number)
        _check_not_undone(entry, every)
        batch = new_batch() if entry.batch is not None else None
        made: list[int] = []
        parts = _parts(entry, every)
        for part in parts:
            try:
                done = _taken_back(root, journal, part, by, batch)
            except ConflictError:
                if part.id != number and (optional(part.path) or not visible(part)):
                    continue
                _put_back(root, journal, made, by)
                raise
            assert done.entry is not None
            made.append(done.entry)
        wanted = parts[-1].id if number is None else number
        entries = sorted(map(journal.entry, reversed(made)), key=lambda undone: undone.undoes != wanted)
        return tuple(entries)


def _parts(entry: LogEntry, entries: Sequence[LogEntry]) -> list[LogEntry]:
    """The changes of one operation that are not taken back yet, the newest first."""
    if entry.batch is None:
        return [entry]
    undone = _undone(entries)
    return [other for other in entries if other.batch == entry.batch and other.id not in undone]


def _put_back(root: Path, journal: Journal, made: Sequence[int], by: Origin) -> None:
    """Undo what was undone, because not all of it could be; nothing was written since, so this always can."""
    batch = new_batch()
    for number in reversed(made):
        _taken_back(root, journal, journal.entry(number), by, batch)


def _entry(journal: Journal, visible: Visible, number: int) -> LogEntry:
    entry = journal.entry(number)
    if not visible(entry):
        raise UsageError(f"{number}: there is no such entry in the journal; `vademecum log` lists them")
    return entry


def _newest(entries: Sequence[LogEntry]) -> LogEntry:
    undone = _undone(entries)
    undos = {entry.batch for entry in entries if entry.undoes is not None and entry.batch is not None}
    for entry in entries:
        if entry.undoes is None and entry.id not in undone and entry.batch not in undos:
            return entry
    raise UsageError("there is nothing to undo: no change is on record that was not taken back")


def _undone(entries: Sequence[LogEntry]) -> dict[int, int]:
    """The changes that are taken back just now, and by which one; ``entries`` are newest first."""
    undone: dict[int, int] = {}
    for entry in entries:
        if entry.undoes is not None and entry.id not in undone:
            undone[entry.undoes] = entry.id
    return undone


def _check_not_undone(entry: LogEntry, entries: Sequence[LogEntry]) -> None:
    by = _undone(entries).get(entry.id)
    if by is not None:
        raise ConflictError(
            f"{entry.path}: change {entry.id} was taken back already, by {by}; undo {by} to have it again"
        )


def _taken_back(root: Path, journal: Journal, entry: LogEntry, by: Origin, batch: int | None) -> Change:
    path = _present_path(entry, journal)
    location = resolve(root, path)
    why = f"undo of {entry.id}"
    if entry.moved_from is not None:
        if path != entry.path:
            raise ConflictError(f"{path}: was moved on since change {entry.id}; undo that first")
        return move(root, location, resolve(root, entry.moved_from), by=by, why=why, undoes=entry.id, batch=batch)
    before, after = (
        None if content is None else decode(journal.content(content), path) for content in (entry.before, entry.after)
    )

    def change(now: Document | None) -> Document:
        return _without(path, entry, now, before, after)

    if before is None and page_bytes(root, path) is not None and not change(read_text(location)).text.strip():
        return remove(root, location, by=by, why=why, undoes=entry.id, batch=batch)
    return rewrite(root, location, change, by=by, why=why, undoes=entry.id, batch=batch)


def _present_path(entry: LogEntry, journal: Journal) -> str:
    """Where the page of an entry is now, by what the journal knows of later moves."""
    path = entry.path
    for other in sorted(journal.entries(), key=lambda other: other.id):
        if other.id > entry.id and other.moved_from == path:
            path = other.path
    return path


def _without(
    path: str, entry: LogEntry, now: Document | None, before: Document | None, after: Document | None
) -> Document:
    """The page as it is now, without what the change did to it."""
    if now is None and after is not None:
        raise ConflictError(f"{path}: is gone, so change {entry.id} cannot be taken back; undo its removal first")
    if now == after:
        return before or Document("")
    if now is None or after is None:
        raise ConflictError(f"{path}: there is another page now; move it away, and undo {entry.id} then")
    merged = merge(after.text, now.text, "" if before is None else before.text)
    if isinstance(merged, Collision):
        raise ConflictError(
            f"{path}: lines {merged.start_line}-{merged.end_line} were changed again since change {entry.id}; nothing "
            f"was undone. Undo the later changes first, or edit the page by hand: `vademecum diff {entry.id}` shows it"
        )
    return Document(merged, now.bom, now.newline)
