"""A quick look at folders of pages: whether it is worth while to scan them again."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport free

from vademecum.errors import UsageError


cdef extern from "glance.h" nogil:
    ctypedef struct glance_text:
        char *bytes
        size_t length
        size_t room

    int c_glance "glance"(glance_text *text, const char *paths, size_t length)


def glance(bytes paths not None):
    """All that a scan looks at; see the twin, ``vademecum.kernels.folders_reference.glance``."""
    cdef glance_text text
    text.bytes = NULL
    text.length = text.room = 0
    cdef const char *start = paths
    cdef size_t length = len(paths)
    cdef int status
    if length and not paths.endswith(b"\0"):
        raise UsageError("paths: the last one does not end with a NUL")
    with nogil:
        status = c_glance(&text, start, length)
    try:
        return PyBytes_FromStringAndSize(text.bytes, <Py_ssize_t> text.length) if status == 0 else None
    finally:
        free(text.bytes)
