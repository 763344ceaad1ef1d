"""What can be done with sessions as wholes: listing, naming, pinning, deleting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vademecum.history import checks, rows
from vademecum.history.database import HistoryFile
from vademecum.history.records import Session, SessionPage, Totals
from vademecum.sqlite import Connection

_SECONDS_PER_DAY = 86_400
#: Channels whose sessions stay until somebody deletes them: a list of chats is their only way back.
KEPT_CHANNELS = ("web",)


class Sessions:
    """The sessions of one owner: the part of `Conversations` that is not about messages."""

    def __init__(self, file: HistoryFile, owner: str) -> None:
        """``owner`` as `owner_of` gives it; not checked."""
        self._file = file
        self.owner = owner

    def session(self, session: str) -> Session | None:
        """One session."""
        with self._file.read() as db:
            row = db.execute(rows.SESSION, self._names(session)).fetchone()
        return None if row is None else rows.session(row)

    def sessions(self, *, channel: str | None = None, number: int = 1, size: int = 50) -> SessionPage:
        """``size`` sessions, pinned ones first, then by last activity, newest first; pages from 1."""
        checks.page(number, size)
        values = {"owner": self.owner, "limit": size, "skip": (number - 1) * size}
        count, listed = rows.COUNT, rows.LIST
        if channel is not None:
            values["channel"] = checks.channel(channel)
            count, listed = rows.COUNT_CHANNEL, rows.LIST_CHANNEL
        with self._file.read() as db:
            (total,) = db.execute(count, values).fetchone()
            found = tuple(map(rows.session, db.execute(listed, values)))
        return SessionPage(found, total, number, size, number * size < total)

    def ids(self) -> list[str]:
        """The ids of all sessions, sorted."""
        with self._file.read() as db:
            return [name for (name,) in db.execute(rows.IDS, {"owner": self.owner})]

    def totals(self) -> Totals:
        """How many sessions and messages there are."""
        with self._file.read() as db:
            found = db.execute(rows.TOTALS, {"owner": self.owner}).fetchall()
        by_channel = {channel: count for channel, count, _ in sorted(found, key=lambda row: -row[1])}
        return Totals(sum(by_channel.values()), sum(count for _, _, count in found), by_channel)

    def rename(self, session: str, title: str) -> bool:
        """Give a session a title of one line; returns whether there is such a session."""
        return self._change(rows.RENAME, session, title=checks.title(title))

    def pin(self, session: str, pinned: bool = True) -> bool:
        """Keep a session at the top of the list, and from being pruned; returns whether there is such a session."""
        return self._change(rows.PIN, session, pinned=checks.flag("pinned", pinned))

    def delete(self, session: str) -> bool:
        """Delete a session with all its messages for good; returns whether there was one."""
        with self._file.write() as db:
            known = rows.find(db, self.owner, checks.name("session", session))
            if known is not None:
                rows.remove(db, known.key)
        return known is not None

    def prune(
        self, older_than_days: float, *, keep_channels: Iterable[str] = KEPT_CHANNELS, dry_run: bool = False
    ) -> tuple[Session, ...]:
        """Delete sessions that have not been active for so many days, but for pinned ones and ``keep_channels``.

        Returns them. 0 days means all that are not kept. With ``dry_run`` nothing is deleted.
        """
        before = self._file.clock() - checks.days("older_than_days", older_than_days) * _SECONDS_PER_DAY
        kept = checks.channels(keep_channels)
        with self._file.read() if checks.flag("dry_run", dry_run) else self._file.write() as db:
            found = [rows.session(row) for row in db.execute(rows.OLD, {"owner": self.owner, "before": before})]
            old = tuple(session for session in found if session.channel not in kept)
            for session in () if dry_run else old:
                known = rows.find(db, self.owner, session.id)
                if known is not None:
                    rows.remove(db, known.key)
        return old

    # -- rows ---------------------------------------------------------------------------------------------------

    def _names(self, session: object) -> dict[str, Any]:
        return {"owner": self.owner, "id": checks.name("session", session)}

    def _change(self, statement: str, session: object, **values: object) -> bool:
        with self._file.write() as db:
            return db.execute(statement, self._names(session) | values).rowcount > 0

    def _drop_outlived(self, db: Connection, but: int) -> None:
        before = self._file.outlived()
        if before is None:
            return
        found = db.execute("SELECT key, channel FROM sessions WHERE pinned = 0 AND active_at < ?", (before,)).fetchall()
        for key, channel in found:
            if key != but and channel not in KEPT_CHANNELS:
                rows.remove(db, key)
