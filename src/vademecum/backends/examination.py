"""All checks of the embedded index, in order. What is wrong is looked for in reads, and mended in short writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from vademecum.errors import IndexCorruptError, IndexUnavailableError
from vademecum.index import examination as of_index
from vademecum.index import schema
from vademecum.index.examination import Fault
from vademecum.sqlite import Connection
from vademecum.types import Finding, Lane
from vademecum.vectors import examination as of_vectors
from vademecum.vectors import store

Access = Callable[[], AbstractContextManager[Connection]]
Check = Callable[[sqlite3.Connection], Iterator[Fault]]

_INDEX, _VECTORS = "index.sqlite", "vectors.sqlite"
#: Rows deleted in one statement.
_MOST = 500
_LOST = "SELECT c.id FROM main.chunks c LEFT JOIN vectors.texts t ON t.id = c.text_id WHERE c.text_id IS NOT NULL"
_FALSE_LINK = f"{_LOST} AND (t.id IS NULL OR t.hash <> c.hash)"


@dataclass(frozen=True, slots=True)
class Examination:
    """``read`` and ``write`` begin transactions; ``link`` is the statement that finds texts of chunks without one."""

    read: Access
    write: Access
    link: str

    def run(self, fix: bool) -> Iterator[Finding]:
        """One finding for each fault, and one for each check without any."""
        checks: list[tuple[str, str, Check]] = [
            ("database", _INDEX, partial(of_index.sound, database="main")),
            ("database", _VECTORS, partial(of_index.sound, database="vectors")),
            ("full text", _INDEX, of_index.full_text),
            ("rows", _INDEX, of_index.rows),
            ("words", _INDEX, of_index.words),
            ("lookup", _INDEX, of_index.lookup),
            ("links", _INDEX, self._links),
            ("lanes", _VECTORS, _lanes),
        ]
        for name, where, check in checks:
            yield from self._one(name, where, check, fix)
        try:
            with self.read() as connection:
                lanes = store.load_lanes(connection)
        except IndexUnavailableError:
            return  # told above
        for lane in lanes:
            yield from self._one("vectors", lane.fingerprint, partial(_rows, lane=lane), fix)

    def _one(self, name: str, where: str, check: Check, fix: bool) -> Iterator[Finding]:
        try:
            with self.read() as connection:
                faults = list(check(connection))
        except IndexCorruptError as error:
            yield Finding(name, "wrong", where, str(error), _ANEW)
            return
        except IndexUnavailableError as error:
            yield Finding(name, "skipped", where, f"cannot be looked at now: {error}")
            return
        if not faults:
            yield Finding(name, "ok", where, _SOUND[name])
        for fault in faults:
            mendable = bool(fault.statements or fault.distrust)
            if fix and mendable:
                self._mend(fault)
            how = ("mended" if fix else "`vademecum doctor --fix` mends it") if mendable else _ANEW
            yield Finding(name, "fixed" if fix and mendable else "wrong", where, fault.what, how)

    def _mend(self, fault: Fault) -> None:
        with self.write() as connection:
            for statement in fault.statements:
                connection.execute(statement)
            if fault.distrust:
                schema.distrust(connection)
            schema.bump_generation(connection)

    def _links(self, connection: sqlite3.Connection) -> Iterator[Fault]:
        if schema.vectors_uid(connection) != store.read_uid(connection):
            yield Fault("it refers to another vectors file than the one beside it; open the memory again")
            return
        (false,) = connection.execute(f"SELECT count(*) FROM ({_FALSE_LINK})").fetchone()  # noqa: S608
        if false:
            forget = f"UPDATE chunks SET text_id = NULL WHERE id IN ({_FALSE_LINK})"  # noqa: S608
            yield Fault(f"{false} chunks refer to a vector that is not theirs", (forget, self.link))


_ANEW = "`vademecum doctor --fix` sets the file aside and builds it anew"
_SOUND = {
    "database": "SQLite finds no damage",
    "full text": "the full text fits its rows",
    "rows": "every row belongs to something, and every chunk has its words",
    "words": "words are those of the texts",
    "lookup": "full text finds what a plain scan finds",
    "links": "chunks refer to their own vectors",
    "lanes": "every lane has its tables, and one serves",
    "vectors": "every vector has its text, unit length and the right code",
}


def _lanes(connection: sqlite3.Connection) -> Iterator[Fault]:
    stray, bare = of_vectors.stray_tables(connection)
    if stray:
        yield Fault(
            f"tables {', '.join(stray)} belong to no lane", tuple(f"DROP TABLE vectors.{name}" for name in stray)
        )
    for number in bare:
        drop = tuple(f"DROP TABLE IF EXISTS vectors.{kind}{number:d}" for kind in "vc")
        yield Fault(f"lane {number} lacks a table", (f"DELETE FROM vectors.lanes WHERE id = {number:d}", *drop))  # noqa: S608
    whole = [lane for lane in store.load_lanes(connection) if lane.id not in bare]
    serving = [lane for lane in whole if lane.state == "serving"]
    if whole and len(serving) != 1:
        best = max(whole, key=lambda lane: (lane in serving, store.count_rows(connection, lane)))
        states = "UPDATE vectors.lanes SET state = iif(id = {}, 'serving', iif(state = 'serving', 'kept', state))"
        yield Fault(f"{len(serving)} lanes serve, and it must be one", (states.format(best.id),))


def _rows(connection: sqlite3.Connection, lane: Lane) -> Iterator[Fault]:
    bad = of_vectors.bad_rows(connection, lane)
    if bad:
        parts = [", ".join(map(str, bad[start : start + _MOST])) for start in range(0, len(bad), _MOST)]
        delete = tuple(
            f"DELETE FROM vectors.{kind}{lane.id:d} WHERE id IN ({part})"  # noqa: S608
            for part in parts
            for kind in "vc"
        )
        yield Fault(f"{len(bad)} vectors are damaged or belong to nothing; they are made again", delete)
