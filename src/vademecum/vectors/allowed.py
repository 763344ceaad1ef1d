"""Which texts a search may find. Filters act before ranking, never after."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Allowed:
    """A set of texts, as SQL.

    ``every`` is a SELECT of their ids under the name text_id; ``among`` one of those of them that a JSON array holds,
    its first parameter, and quick if they are few. ``parameters`` are those of the filter, () if there is none.
    """

    every: str
    among: str
    parameters: tuple[str, ...] = ()

    def ids(self, connection: sqlite3.Connection) -> NDArray[np.int64]:
        """All text ids, ascending."""
        import numpy as np

        # One long string: an object per row would take three times as long.
        (listed,) = connection.execute(
            f"SELECT group_concat(text_id) FROM ({self.every})",  # noqa: S608
            self.parameters,
        ).fetchone()
        return np.unique(np.fromstring(listed or "", np.int64, sep=","))

    def of(self, connection: sqlite3.Connection, text_ids: Sequence[int]) -> set[int]:
        """Those of a few texts that are allowed."""
        found = connection.execute(self.among, (json.dumps(text_ids), *self.parameters))
        return {text_id for (text_id,) in found}
