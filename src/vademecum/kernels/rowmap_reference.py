"""Where the BLOBs of one column lie in a SQLite database file, in plain Python: the twin of the native walk.

The format is that of sqlite.org/fileformat2.html; section numbers are of that page. All integers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from vademecum.errors import IndexCorruptError
from vademecum.kernels.checks import check_array
from vademecum.kernels.places import ABSENT, ELSEWHERE, RowMap, check_request

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_HEADER = 100
_INTERIOR, _LEAF = 5, 13
_MAX_LEVELS = 20
_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)


def walk(data: ReadableBuffer, root_page: int, column: int, nbytes: int) -> RowMap:
    """Find the BLOBs of one column of a table.

    Args:
        data: the database file's bytes.
        root_page: where the table begins, from ``sqlite_schema.rootpage``. It must have rowids.
        column: which column, counted from 0 as in CREATE TABLE. (An INTEGER PRIMARY KEY has its place in the record,
            where it is NULL; virtual generated columns have none and do not count.)
        nbytes: length of the BLOBs that are wanted.

    The table is descended level by level: first the numbers of its leaves, which are then read by ascending address,
    and the cells of each by ascending address. That is not the order of rowids, because SQLite fills pages from
    their end; a scan against the grain of memory costs two to three times as much.

    Raises:
        IndexCorruptError: the bytes are no such table; the message names the page and what is wrong.
        UsageError: an argument is out of range.
    """
    check_request(root_page, column, nbytes)
    table = _Table(memoryview(data))
    rowids: list[int] = []
    offsets: list[int] = []
    elsewhere: list[int] = []
    for leaf in table.leaves(root_page):
        for rowid, offset in table.rows(leaf, column, nbytes):
            if offset is None:
                elsewhere.append(rowid)
            else:
                rowids.append(rowid)
                offsets.append(offset)
    return RowMap(
        np.array(rowids, np.int64), np.array(offsets, np.int64), np.array(elsewhere, np.int64), len(table.data)
    )


def seek(
    data: ReadableBuffer, root_page: int, column: int, nbytes: int, rowids: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Find the BLOBs of single rows, looking only at the pages on the way to each.

    Args:
        data, root_page, column, nbytes: as in `walk`.
        rowids: int64 (n,), in any order.

    Returns:
        int64 (n,): the offset that `walk` gives for each row; ABSENT if the table has no such row, ELSEWHERE if the
        row is one of ``RowMap.elsewhere``.

    Raises:
        IndexCorruptError: a page on the way is damaged; the message names it and what is wrong.
        UsageError or TypeError: an argument is out of range, or of the wrong type, layout or shape.
    """
    check_request(root_page, column, nbytes)
    check_array("rowids", rowids, np.int64, 1)
    table = _Table(memoryview(data))
    return np.array([table.seek(root_page, rowid, column, nbytes) for rowid in rowids.tolist()], np.int64)


def _fault(page: int, what: str, value: int) -> NoReturn:
    raise IndexCorruptError(f"page {page}: {what} {value}")


class _Table:
    """Pages of the file. Offsets of cells count from the start of their page, all others from that of the file."""

    def __init__(self, data: memoryview) -> None:
        """Read the file's header: section 1.3."""
        self.data = data
        if len(data) < _HEADER:
            _fault(1, "the file is too short to be a database", len(data))
        for i, byte in enumerate(b"SQLite format 3\0"):
            if data[i] != byte:
                _fault(1, "the file does not begin like a database, at byte", i)
        size, version, reserved = struct.unpack_from(">HxBB", data, 16)
        fractions = int.from_bytes(data[21:24], "big")
        self.page_size = 65536 if size == 1 else size
        if self.page_size < 512 or self.page_size & (self.page_size - 1):
            _fault(1, "impossible page size", size)
        if self.page_size - reserved < 480:
            _fault(1, "too many reserved bytes", reserved)
        if version > 2:
            _fault(1, "unknown version of the file format", version)
        if fractions != 0x402020:
            _fault(1, "unknown payload fractions", fractions)
        self.usable = self.page_size - reserved
        self.page_count = len(data) // self.page_size
        self._taken: set[int] = set()

    def leaves(self, root: int) -> list[int]:
        """Page numbers of the leaves, ascending. All leaves of a b-tree are on the same level."""
        level = [self._take(root, 0)]
        depth = 1
        while self.data[self._header(level[0])] != _LEAF:
            if depth == _MAX_LEVELS:
                _fault(level[0], "the table is deeper than any, this page on level", depth)
            level = [child for page in level for child in self._children(page)]
            depth += 1
        for page in sorted(level):
            self._open(page, _LEAF)
        return sorted(level)

    def rows(self, page: int, column: int, nbytes: int) -> Iterator[tuple[int, int | None]]:
        """Rowid of each cell of a leaf, and the offset of its BLOB if that is there with ``nbytes`` bytes."""
        cells = sorted(self._cells(page, _LEAF, 4))
        start = self._start(page)
        for cell, end in pairwise([*cells, self.usable]):
            yield self._cell(page, start + cell, start + end, column, nbytes)

    def seek(self, page: int, rowid: int, column: int, nbytes: int) -> int:
        """Offset of one row's BLOB, ABSENT or ELSEWHERE."""
        self._check(page)
        depth = 1
        while self.data[self._header(page)] != _LEAF:
            if depth == _MAX_LEVELS:
                _fault(page, "the table is deeper than any, this page on level", depth)
            page = self._child(page, rowid)
            depth += 1
        count, pointers = self._open(page, _LEAF)
        place, found = self._first_not_below(page, count, rowid, _LEAF)
        if found != rowid:
            return ABSENT
        start = self._start(page)
        cell = start + self._cell_at(page, pointers, count, place, 4)
        offset = self._cell(page, cell, start + self.usable, column, nbytes)[1]
        return ELSEWHERE if offset is None else offset

    def _child(self, page: int, rowid: int) -> int:
        """The page below on the way to ``rowid``; the last one has no key."""
        count, pointers = self._open(page, _INTERIOR)
        place, _ = self._first_not_below(page, count, rowid, _INTERIOR)
        if place < count:
            at = self._start(page) + self._cell_at(page, pointers, count, place, 5)
        else:
            at = self._header(page) + 8
        child = self._number(at)
        self._check(child)
        return child

    def _first_not_below(self, page: int, count: int, rowid: int, kind: int) -> tuple[int, int | None]:
        """The first cell whose key is not below ``rowid``, and that key; ``count`` and None if there is none.

        Keys ascend. On a leaf ids mostly follow each other, so the second look is as far from the first one.
        """
        low, high, key = 0, count, None
        middle, guessed = (0, False) if kind == _LEAF else (count // 2, True)
        while low < high:
            found = self._key(page, middle, kind)
            if found < rowid:
                low = middle + 1
            else:
                high, key = middle, found
            if found == rowid:
                break
            middle = low + (high - low) // 2
            if not guessed and 0 <= rowid - found < high:
                middle = rowid - found
            guessed = True
        return high, key

    def _key(self, page: int, place: int, kind: int) -> int:
        """The key of a cell: before it stand the number of a page, or how long the row is."""
        count, pointers = self._open(page, kind)
        cell = self._cell_at(page, pointers, count, place, 5 if kind == _INTERIOR else 4)
        end = self._start(page) + self.usable
        at = self._start(page) + cell + 4 if kind == _INTERIOR else self._varint(self._start(page) + cell, end)[1]
        key, at = self._varint(at, end)
        if at > end:
            _fault(page, "a cell lies outside its page, at", cell)
        return _signed(key)

    def _check(self, page: int) -> None:
        if not 1 <= page <= self.page_count:
            _fault(page, "linked, but the file ends with page", self.page_count)

    def _take(self, page: int, parent: int) -> int:
        """Note that ``parent`` links to ``page``. Each page is taken once, so that circles end in a fault."""
        self._check(page)
        if page in self._taken:
            _fault(page, "linked a second time, from page", parent)
        self._taken.add(page)
        return page

    def _children(self, page: int) -> Iterator[int]:
        for cell in self._cells(page, _INTERIOR, 5):
            yield self._take(self._number(self._start(page) + cell), page)
        yield self._take(self._number(self._header(page) + 8), page)

    def _number(self, at: int) -> int:
        return int.from_bytes(self.data[at : at + 4], "big")

    def _start(self, page: int) -> int:
        return (page - 1) * self.page_size

    def _header(self, page: int) -> int:
        return self._start(page) + (_HEADER if page == 1 else 0)

    def _open(self, page: int, kind: int) -> tuple[int, int]:
        """How many cells a page has, and where on the page the pointers to them begin: section 1.6."""
        found, count = struct.unpack_from(">BxxH", self.data, self._header(page))
        pointers = self._header(page) - self._start(page) + (12 if kind == _INTERIOR else 8)
        if found != kind:
            _fault(page, "wrong kind of page for a table at this depth", found)
        if pointers + count * (2 + 4) > self.usable:
            _fault(page, "more cells than fit", count)
        return count, pointers

    def _cells(self, page: int, kind: int, least: int) -> Iterator[int]:
        """Offsets of the page's cells, each of which takes at least ``least`` bytes."""
        count, pointers = self._open(page, kind)
        order = range(count) if kind == _INTERIOR else reversed(range(count))
        for i in order:
            yield self._cell_at(page, pointers, count, i, least)

    def _cell_at(self, page: int, pointers: int, count: int, place: int, least: int) -> int:
        """Offset of one cell of the page."""
        (cell,) = struct.unpack_from(">H", self.data, self._start(page) + pointers + 2 * place)
        if cell < pointers + 2 * count or cell + least > self.usable:
            _fault(page, "a cell lies outside its page, at", cell)
        return int(cell)

    def _cell(self, page: int, at: int, end: int, column: int, nbytes: int) -> tuple[int, int | None]:
        """Section 1.6: a cell before ``end``, where the next begins."""
        payload, at = self._varint(at, end)
        rowid, at = self._varint(at, end)
        if payload > 2**31 - 1:
            _fault(page, "impossible size of a row", _signed(payload))
        kept, link = payload, 0
        most, least = self.usable - 35, (self.usable - 12) * 32 // 255 - 23
        if payload > most:
            kept = least + (payload - least) % (self.usable - 4)
            kept, link = kept if kept <= most else least, 4
        if at + kept + link > end:
            _fault(page, "a row runs into what follows it, its size is", payload)
        return _signed(rowid), None if link else self._blob(page, at, at + kept, column, nbytes)

    def _blob(self, page: int, start: int, end: int, column: int, nbytes: int) -> int | None:
        """Section 2.1: offset of the BLOB in the record from ``start`` to ``end``."""
        header, at = self._varint(start, end)
        if at > end or header > end - start or header < at - start:
            _fault(page, "the header of a record does not fit, its size is", _signed(header))
        body = header_end = start + header
        i = 0
        while at < header_end and i <= column:
            kind, at = self._varint(at, header_end)
            if at > header_end:
                _fault(page, "the header of a record ends within column", i)
            if kind in (10, 11):
                _fault(page, "a column has the reserved type", kind)
            size = _SIZES[kind] if kind < 10 else (kind - 12) // 2
            if size > end - body:
                _fault(page, "a column leaves its record, its type is", _signed(kind))
            if i == column and kind >= 12 and kind % 2 == 0 and size == nbytes:
                return body
            body += size
            i += 1
        return None

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """A varint and where it ends: section 1.6. (0, ``end`` + 1) if it would pass ``end``."""
        value = 0
        for i in range(9):
            if at >= end:
                return 0, end + 1
            byte = self.data[at]
            at += 1
            if i == 8:
                return value << 8 | byte, at
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                break
        return value, at


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
