"""Which texts a search may find. Filters act before ranking, never after."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Allowed:
    """A set of texts, read through one connection within one transaction."""

    def __init__(
        self, connection: sqlite3.Connection, every: str, among: str, parameters: tuple[str, ...] = ()
    ) -> None:
        """``every`` is a SELECT of their ids under the name text_id, without NULL.

        ``among`` is one of pairs (chunk, text) for those that a JSON array holds, its first parameter; quick if they
        are few. ``parameters`` are those of the filter in both, () if there is none.
        """
        self._connection = connection
        self._among = among
        self._chunks: dict[int, list[int]] = {}
        self.every = every
        self.parameters = parameters

    def ids(self) -> NDArray[np.int64]:
        """All text ids, ascending."""
        import numpy as np

        # One long string: an object per row would take three times as long.
        (listed,) = self._connection.execute(
            f"SELECT group_concat(text_id) FROM ({self.every})",  # noqa: S608
            self.parameters,
        ).fetchone()
        return np.unique(np.fromstring(listed or "", np.int64, sep=","))

    def chunks(self, text_ids: Iterable[int]) -> Mapping[int, list[int]]:
        """The allowed chunks of each of a few texts; texts without any are left out."""
        wanted = list(text_ids)
        asked = [text_id for text_id in wanted if text_id not in self._chunks]
        if asked:
            self._chunks |= {text_id: [] for text_id in asked}
            for chunk_id, text_id in self._connection.execute(self._among, (json.dumps(asked), *self.parameters)):
                self._chunks[text_id].append(chunk_id)
        return {text_id: self._chunks[text_id] for text_id in wanted if self._chunks[text_id]}
