"""Where the BLOBs of one column lie in a SQLite database file, and the file itself as mapped memory.

The map shows the file as it is on disk, without SQLite's cache, log and locks. It may be touched only where SQLite
would read the very same bytes from the file: inside a read transaction, after the whole log has been moved into the
file. Outside it a row may be torn, and touching a page that was cut off ends the process (SIGBUS).
"""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
from cpython.exc cimport PyErr_SetFromErrnoWithFilenameObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

import errno
import os
import stat
import threading

import numpy as np

from vademecum.errors import IndexCorruptError


cdef extern from "btree.h" nogil:
    enum:
        BTREE_OK
        BTREE_CORRUPT

    ctypedef struct btree:
        size_t n_rows
        uint32_t page
        int64_t value
        const char *what

    int btree_find(btree *tree, const void *bytes, size_t length, uint32_t root)
    int btree_read(btree *tree, uint64_t column, uint64_t nbytes, int64_t *rowids, int64_t *offsets, size_t *n_found)
    int btree_seek(
        btree *tree,
        const void *bytes,
        size_t length,
        uint32_t root,
        uint64_t column,
        uint64_t nbytes,
        const int64_t *rowids,
        size_t n_rows,
        int64_t *offsets,
    )
    void btree_free(btree *tree)


cdef extern from "filemap.h" nogil:
    const unsigned char *filemap_open(int fd, size_t length)
    void filemap_close(const unsigned char *start, size_t length)
    int filemap_is_remote(const char *path)


cdef enum:
    # A map is a multiple of this long and twice its file at least, so that growth seldom needs another.
    RESERVE = 64 * 1024 * 1024
    # Pages of a database are a multiple of this long.
    SECTOR = 512

cdef char *BYTES = b"B"  # the format of a buffer


def walk(const unsigned char[::1] data not None, root_page, column, nbytes):
    """Addresses of a column's BLOBs; see the twin, ``vademecum.kernels.rowmap_reference.walk``."""
    from vademecum.kernels.places import RowMap, check_request  # this module is imported by that package

    check_request(root_page, column, nbytes)
    cdef btree tree
    cdef const unsigned char *start = &data[0] if data.shape[0] else NULL
    cdef size_t length = data.shape[0], found = 0
    cdef uint32_t root = root_page
    cdef uint64_t of_column = column, of_bytes = nbytes
    cdef int64_t[::1] rowid, offset
    cdef int status
    try:
        with nogil:
            status = btree_find(&tree, start, length, root)
        _check(status, &tree)
        rowids = np.empty(tree.n_rows, dtype=np.int64)
        offsets = np.empty(tree.n_rows, dtype=np.int64)
        if tree.n_rows:
            rowid, offset = rowids, offsets
            with nogil:
                status = btree_read(&tree, of_column, of_bytes, &rowid[0], &offset[0], &found)
            _check(status, &tree)
    finally:
        btree_free(&tree)
    return RowMap(rowids[:found], offsets[:found], rowids[found:][::-1].copy(), length)


def seek(const unsigned char[::1] data not None, root_page, column, nbytes, const int64_t[::1] rowids not None):
    """Addresses of the BLOBs of single rows; see the twin, ``vademecum.kernels.rowmap_reference.seek``."""
    from vademecum.kernels.places import check_request  # this module is imported by that package

    check_request(root_page, column, nbytes)
    cdef btree tree
    cdef const unsigned char *start = &data[0] if data.shape[0] else NULL
    cdef size_t length = data.shape[0], n_rows = rowids.shape[0]
    cdef uint32_t root = root_page
    cdef uint64_t of_column = column, of_bytes = nbytes
    cdef int status
    offsets = np.empty(n_rows, dtype=np.int64)
    cdef int64_t[::1] out = offsets
    cdef const int64_t *rowid = &rowids[0] if n_rows else NULL
    cdef int64_t *offset = &out[0] if n_rows else NULL
    with nogil:
        status = btree_seek(&tree, start, length, root, of_column, of_bytes, rowid, n_rows, offset)
    _check(status, &tree)
    return offsets


cdef _check(int status, const btree *tree):
    if status == BTREE_CORRUPT:
        raise IndexCorruptError(f"page {tree.page}: {tree.what.decode()} {tree.value}")
    if status != BTREE_OK:
        raise MemoryError


cdef class FileMap:
    """A database file as mapped memory: a read-only buffer of its bytes that grows with it.

    A view taken from it (a memoryview, an array) keeps its length, and its memory for as long as it is in use.
    Addresses are offsets from the start of the file, so they are good for every view that reaches so far. Threads may
    share a map. SQLite must have opened the file before, so that it exists and is the copy that is written to.

    Raises:
        OSError: the file cannot be opened or mapped here, or is on another machine: read it through SQL.
    """

    cdef readonly str path
    cdef readonly tuple identity
    cdef int _fd
    cdef _Region _region

    def __cinit__(self, path):
        self.path = os.fsdecode(path)
        _refuse_remote(self.path)
        self._fd, self.identity = _descriptor(self.path)
        self._region = _Region(self._fd, self.path, 2 * self.size)

    @property
    def size(self):
        """Bytes of the file now."""
        return self._stat().st_size

    def same_file(self, path):
        """Whether ``path`` now leads to this very file: False once it was deleted, replaced or moved."""
        try:
            return _identity(os.stat(path)) == self.identity and self._stat().st_nlink > 0
        except OSError:
            return False

    def walk(self, root_page, column, nbytes):
        """Addresses of a column's BLOBs; IndexCorruptError names the file, too."""
        try:
            return walk(self, root_page, column, nbytes)
        except IndexCorruptError as error:
            raise self._damage(error) from None

    def seek(self, root_page, column, nbytes, rowids):
        """Addresses of the BLOBs of single rows; IndexCorruptError names the file, too."""
        try:
            return seek(self, root_page, column, nbytes, rowids)
        except IndexCorruptError as error:
            raise self._damage(error) from None

    cdef _damage(self, error):
        return IndexCorruptError(f"{self.path}: {error}; `vademecum rebuild` makes it anew from Markdown")

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
            raise BufferError("a map of a database is read-only")
        cdef size_t size = self.size // SECTOR * SECTOR
        cdef _Region region = self._covering(size)
        buffer.obj = region  # a view outlives the map and the next region
        buffer.buf = <void *> region.start
        buffer.len = size
        buffer.itemsize = 1
        buffer.readonly = 1
        buffer.ndim = 1
        buffer.format = BYTES if flags & PyBUF_FORMAT else NULL
        buffer.shape = &buffer.len if flags & PyBUF_ND else NULL
        buffer.strides = &buffer.itemsize if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        buffer.suboffsets = NULL
        buffer.internal = NULL

    cdef _stat(self):
        found = os.fstat(self._fd)
        if _identity(found) != self.identity:
            raise OSError(errno.EBADF, "the file's descriptor was closed by somebody else", self.path)
        return found

    cdef _Region _covering(self, size_t size):
        with cython.critical_section(self):
            if size > self._region.length:
                self._region = _Region(self._fd, self.path, 2 * size)
            return self._region


cdef class _Region:
    """Memory mapped once and unmapped with the last view of it, which closes no descriptor."""

    cdef const unsigned char *start
    cdef size_t length

    def __cinit__(self, int fd, path, size_t least):
        self.length = (least // RESERVE + 1) * RESERVE
        self.start = filemap_open(fd, self.length)
        if self.start is NULL:
            PyErr_SetFromErrnoWithFilenameObject(OSError, path)

    def __dealloc__(self):
        if self.start is not NULL:
            filemap_close(self.start, self.length)


# One descriptor for each file that was ever mapped, by (device, inode). None is closed while a connection may live:
# closing any descriptor of a file drops all locks that this process, SQLite included, holds on it
# (sqlite.org/howtocorrupt.html, 2.2). As long as it is open, its inode number cannot pass to another file.
# A child after fork() inherits them under the same rule; it never gets its parent's locks, and so cannot drop them.
_descriptors = {}
_lock = threading.RLock()  # a finalizer may want it again
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def forget(identity):
    """Close the descriptor of a deleted file. Only to be called when no connection of this process uses the file.

    Returns whether it was closed: not if there is none, or the file still has a name.
    """
    with _lock:
        fd = _descriptors.get(identity)
        if fd is None or not _leads_to(fd, identity) or os.fstat(fd).st_nlink > 0:
            return False
        del _descriptors[identity]
        os.close(fd)
        return True


def _descriptor(path):
    """The one descriptor of the file at ``path``, and the file's identity."""
    with _lock:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        identity = _identity(found)
        fd = _descriptors.get(identity)
        if fd is None or not _leads_to(fd, identity):
            fd = os.open(path, os.O_RDONLY)
            identity = _identity(os.fstat(fd))  # the name may lead elsewhere by now
            _descriptors[identity] = fd
        return fd, identity


def _leads_to(fd, identity):
    try:
        return _identity(os.fstat(fd)) == identity
    except OSError:
        return False


def _identity(found):
    return found.st_dev, found.st_ino


cdef _refuse_remote(path):
    cdef int remote = filemap_is_remote(os.fsencode(path))
    if remote < 0:
        PyErr_SetFromErrnoWithFilenameObject(OSError, path)
    if remote:
        raise OSError(errno.EREMOTE, "other machines may write to the file, so it cannot be mapped", path)
