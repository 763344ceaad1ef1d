"""One lock per root, for all threads and processes that write to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vademecum.errors import LockTimeoutError, WriteError
from vademecum.store.root import PRIVATE, check_private, private_folder

_LOCK = "lock"


@contextmanager
def root_lock(root: Path, timeout: float = 10.0) -> Iterator[None]:
    """Hold the root's lock, waiting up to ``timeout`` seconds. A thread that holds it may take it again.

    Raises LockTimeoutError (retryable), WriteError when the root cannot hold a lock file, or StoreError when
    something else is in its place.
    """
    # Costs 45 ms, which a command that only reads should not pay.
    from filelock import FileLock, Timeout

    real = Path(os.path.realpath(root))
    folder = private_folder(real)
    check_private(folder, _LOCK)
    # One object per path and process: that is what makes it re-entrant within a thread.
    lock = FileLock(folder / _LOCK, is_singleton=True)
    try:
        lock.acquire(timeout=timeout, poll_interval=0.01)
    except Timeout as error:
        raise LockTimeoutError(
            f"{real}: another process has been writing for more than {timeout:g} s; try again, "
            f"or look for a stuck process that holds {PRIVATE}/{_LOCK}"
        ) from error
    except OSError as error:
        raise WriteError(f"{real}: this memory cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
