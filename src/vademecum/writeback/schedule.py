"""When the nightly work is due, in the user's zone, across sleep, clock changes and several processes."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path

from vademecum.errors import UsageError
from vademecum.sqlite import exclusive
from vademecum.writeback.database import Database, process_lock

_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
#: A machine that slept notices at the latest after so many seconds of being awake.
_LOOK_SECONDS = 60.0
#: Zones differ by a day or so; a night that is further ahead of now cannot have been.
_WRONG_CLOCK = timedelta(days=3)


def time_of_day(text: str) -> time:
    """ "23:50" as a time. Raises UsageError."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"nightly = {text!r}: expected a time of day such as 23:50")
    return time(int(match[1]), int(match[2]))


def due(day: date, at: time, like: datetime) -> datetime:
    """The moment of ``at`` on ``day`` in the zone of ``like``; a time that the clocks skip comes an hour later."""
    wall = datetime.combine(day, at, tzinfo=like.tzinfo)
    return datetime.fromtimestamp(wall.timestamp(), like.tzinfo)


def last_due(now: datetime, at: time) -> date:
    """The day of the latest night that is due at ``now``."""
    today = now.date()
    return today if due(today, at, now).timestamp() <= now.timestamp() else today - timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Night:
    """The record of one root's nights, shared by all its processes."""

    root: Path

    def is_done(self, day: date) -> bool:
        """Whether the work of that night, or of one soon after it, is done.

        One that is far ahead was noted by a clock that went wrong, and must not keep all nights until then undone.
        """
        database = Database(self.root)
        if not database.exists():
            return False
        with database.open() as connection:
            days = (str(day), str(day + _WRONG_CLOCK))
            row = connection.execute("SELECT 1 FROM nights WHERE day >= ? AND day < ?", days).fetchone()
        return row is not None

    def begin(self, day: date) -> None:
        """From now on nights count: the one of ``day`` and those before it are not caught up with."""
        with Database(self.root).open() as connection, exclusive(connection):
            if connection.execute("SELECT count(*) FROM nights").fetchone() == (0,):
                connection.execute("INSERT INTO nights VALUES (?)", (str(day),))

    def summarised(self, session: str) -> int:
        """The last sequence number of a session that a summary covers; -1 for none."""
        database = Database(self.root)
        if not database.exists():
            return -1
        with database.open() as connection:
            row = connection.execute("SELECT seq FROM summarised WHERE session = ?", (session,)).fetchone()
        return -1 if row is None else int(row[0])

    def note_summarised(self, session: str, seq: int) -> None:
        """A session is summarised up to that sequence number."""
        with Database(self.root).open() as connection, exclusive(connection):
            connection.execute("INSERT OR REPLACE INTO summarised VALUES (?, ?)", (session, seq))

    def done(self, day: date) -> None:
        """The work of that night is done."""
        with Database(self.root).open() as connection, exclusive(connection):
            connection.execute("INSERT OR IGNORE INTO nights VALUES (?)", (str(day),))


class Schedule:
    """Does ``work`` once for each night, in a thread, whichever of several processes is first.

    ``now`` gives the moment in the user's zone. A night that was slept through is caught up with, once; the first start
    catches up with nothing. ``work`` that raises is done again after a while, and ``problem`` says why. Use it as a
    context manager, or `stop` it.
    """

    def __init__(
        self,
        root: Path,
        at: time,
        now: Callable[[], datetime],
        work: Callable[[], object],
        *,
        jitter_s: float = 0.0,
        retry_s: float = 900.0,
    ) -> None:
        """Begins at once."""
        self._root, self._at, self._now, self._work = root, at, now, work
        self._jitter = timedelta(seconds=random.uniform(0, jitter_s))  # noqa: S311 - only spreads the load
        self._retry_s = retry_s
        self._stop = threading.Event()
        self.problem: str | None = None
        Night(root).begin(last_due(now(), at))
        self._thread = threading.Thread(target=self._run, name="vademecum-nightly", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Begin no further night; waits for one that is being worked on."""
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> Schedule:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            pause = _LOOK_SECONDS
            now = self._now()
            night = last_due(now - self._jitter, self._at)
            try:
                if not Night(self._root).is_done(night):
                    self._do(night)
                self.problem = None
            except Exception as error:  # whatever it is: without this thread there would be no night any more
                self.problem, pause = str(error) or type(error).__name__, self._retry_s
                continue
            following = due(night + timedelta(days=1), self._at, now) + self._jitter
            pause = min(pause, max(0.0, following.timestamp() - now.timestamp()))

    def _do(self, night: date) -> None:
        with ExitStack() as held:
            try:
                held.enter_context(process_lock(self._root, "nightly.lock", 0))
            except TimeoutError:
                return  # another process is at it
            if not Night(self._root).is_done(night):
                self._work()
                Night(self._root).done(night)
