"""What was given to be flushed, and what came of it: kept before the work begins, so that neither a kill nor a restart
loses a conversation or writes it twice.

There is a row for each flush with the messages it was given, until it is done, and the ids of the messages that have
been dealt with.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from vademecum.errors import LockTimeoutError
from vademecum.sqlite import Connection, exclusive
from vademecum.writeback.database import Database, process_lock
from vademecum.writeback.transcript import Message

Source: TypeAlias = Literal["model", "rules", "nothing", "known"]


@dataclass(frozen=True, slots=True)
class Job:
    """One flush: ``messages`` of a conversation, and the page that what comes of them is for."""

    kind: str
    path: str
    heading: str
    session: str | None
    messages: tuple[Message, ...]

    @property
    def id(self) -> str:
        """Equal for equal jobs, whoever hands them in."""
        parts = (self.kind, self.path, self.session or "", *(message.id for message in self.messages))
        return sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job: the items written, and where they came from."""

    source: Source
    items: tuple[str, ...]
    path: str | None = None
    start_line: int = 0
    end_line: int = 0


class Ledger:
    """The ledger of one root; opened for each call, so that it is safe to share and survives a fork.

    Raises StoreError kinds.
    """

    def __init__(self, root: Path) -> None:
        """Does not touch the disk."""
        self._root = root
        self._database = Database(root)

    def exists(self) -> bool:
        """Whether anything was ever flushed here."""
        return self._database.exists()

    def add(self, job: Job, now: float) -> Outcome | None:
        """Keep a job before it is worked on; returns what came of it if it is done already."""
        payload = json.dumps([asdict(message) for message in job.messages], ensure_ascii=True)
        with self._database.open() as connection, exclusive(connection):
            done = _outcome(connection, job.id)
            if done is None:
                connection.execute(
                    "INSERT OR IGNORE INTO jobs(id, at, kind, path, heading, session, messages) VALUES (?,?,?,?,?,?,?)",
                    (job.id, now, job.kind, job.path, job.heading, job.session, zlib.compress(payload.encode())),
                )
        return done

    def outcome(self, job: Job) -> Outcome | None:
        """What came of a job, None while it is not done."""
        with self._database.open() as connection:
            return _outcome(connection, job.id)

    def pending(self) -> tuple[Job, ...]:
        """The jobs that are not done, oldest first."""
        if not self.exists():
            return ()
        with self._database.open() as connection:
            rows = connection.execute(
                "SELECT kind, path, heading, session, messages FROM jobs WHERE outcome IS NULL ORDER BY at, id"
            ).fetchall()
        return tuple(
            Job(kind, path, heading, session, tuple(Message(**entry) for entry in json.loads(zlib.decompress(data))))
            for kind, path, heading, session, data in rows
        )

    def known(self, job: Job) -> frozenset[str]:
        """Ids of the job's messages that a job of its kind and page's owner has dealt with."""
        with self._database.open() as connection:
            found = connection.execute(
                "SELECT message FROM seen WHERE kind = ? AND owner = ? AND message IN (SELECT value FROM json_each(?))",
                (job.kind, _owner(job.path), _ids(job)),
            )
            return frozenset(message for (message,) in found)

    def items_about(self, job: Job) -> tuple[str, ...]:
        """What was written about the job's messages by the jobs that dealt with them, in that order."""
        with self._database.open() as connection:
            rows = connection.execute(
                "SELECT DISTINCT jobs.at, jobs.outcome FROM seen JOIN jobs ON jobs.id = seen.job "
                "WHERE seen.kind = ? AND seen.owner = ? AND jobs.outcome IS NOT NULL "
                "AND seen.message IN (SELECT value FROM json_each(?)) ORDER BY jobs.at",
                (job.kind, _owner(job.path), _ids(job)),
            ).fetchall()
        return tuple(item for _, outcome in rows for item in _read(outcome).items)

    def finish(self, job: Job, outcome: Outcome) -> None:
        """Record that a job is done: its messages count as dealt with, and are no longer kept."""
        name, owner = job.id, _owner(job.path)
        rows = [(job.kind, owner, message.id, name) for message in job.messages]
        with self._database.open() as connection, exclusive(connection):
            connection.execute(
                "UPDATE jobs SET outcome = ?, messages = x'' WHERE id = ?", (json.dumps(asdict(outcome)), name)
            )
            connection.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?, ?, ?)", rows)

    def forget(self, before: float) -> None:
        """Drop finished jobs from before a Unix time, with the ids of their messages."""
        with self._database.open() as connection, exclusive(connection):
            connection.execute("DELETE FROM jobs WHERE outcome IS NOT NULL AND at < ?", (before,))
            connection.execute("DELETE FROM seen WHERE job NOT IN (SELECT id FROM jobs)")

    @contextmanager
    def alone(self, job: Job, timeout_s: float) -> Iterator[None]:
        """One at a time for each conversation, across threads and processes; a killed process lets go by itself."""
        key = sha256((job.session or job.path).encode(errors="surrogatepass")).hexdigest()[:2]
        try:
            with process_lock(self._root, f"flush-{key}.lock", timeout_s):
                yield
        except TimeoutError as error:
            raise LockTimeoutError(
                f"{self._root}: another process has been flushing this conversation for more than {timeout_s:g} s; "
                "what was given is kept and will be flushed later"
            ) from error


def _owner(path: str) -> str:
    """Messages count as dealt with for one memory, whatever the day: the folder of its daily pages."""
    return path.rpartition("/")[0]


def _outcome(connection: Connection, job: str) -> Outcome | None:
    row = connection.execute("SELECT outcome FROM jobs WHERE id = ?", (job,)).fetchone()
    return None if row is None or row[0] is None else _read(row[0])


def _read(text: str) -> Outcome:
    entry = json.loads(text)
    return Outcome(**{**entry, "items": tuple(entry["items"])})


def _ids(job: Job) -> str:
    return json.dumps([message.id for message in job.messages])
