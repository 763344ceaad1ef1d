"""What the walks over a database file take and give. Both twins need it, and nothing here is slow to import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: What `seek` says of a row that is not there, and of one that has to be read through SQL.
ABSENT, ELSEWHERE = -1, -2


@dataclass(frozen=True, slots=True, eq=False)
class RowMap:
    """Where one column's BLOBs lay in the file when it was walked. The arrays are int64 and read-only.

    ``rowids[i]`` is the row whose BLOB begins ``offsets[i]`` bytes after the start of the file, in the order of these
    addresses. ``elsewhere`` holds the other rowids, in the order of their cells' addresses: their value is no BLOB, is
    of another length, or lies on overflow pages, so they have to be read through SQL. ``size`` is that of the file.
    """

    rowids: NDArray[np.int64]
    offsets: NDArray[np.int64]
    elsewhere: NDArray[np.int64]
    size: int

    def __post_init__(self) -> None:
        for array in (self.rowids, self.offsets, self.elsewhere):
            array.flags.writeable = False


def check_request(root_page: int, column: int, nbytes: int) -> None:
    """Refuse what no table can have: UsageError."""
    for name, value, least, most in (
        ("root_page", root_page, 1, 2**32 - 1),
        ("column", column, 0, 2**15),
        ("nbytes", nbytes, 0, 2**31 - 1),
    ):
        if not least <= value <= most:
            raise UsageError(f"{name} is {value}; it must be from {least} to {most}")
