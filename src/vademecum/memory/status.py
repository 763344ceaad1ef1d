"""What `status` tells: the disk recounted, beside what the index says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vademecum import __version__
from vademecum.errors import IndexUnavailableError, StoreError
from vademecum.memory.core import Core
from vademecum.types import Health, Status


def take_status(core: Core, visible: Callable[[Iterable[tuple[str, str]]], tuple[str, ...]]) -> Status:
    """Never raises for a broken index or folder: it says so. ``visible`` keeps notices from those not meant."""
    from vademecum import kernels

    index: Health | None = None
    files = pending = missing = 0
    notices = core.notices
    try:
        found = core.places.scan() if core.syncer is None else core.syncer.scan()
        files, notices = len(found.files), notices + found.notices
    except StoreError as error:
        notices = (*notices, ("", str(error)))
    disabled = core.disabled
    try:
        index = core.open_index().health()
        if core.syncer is not None:
            todo = core.syncer.plan()
            pending = len(todo.added) + len(todo.changed) + len(todo.removed)
            missing = core.syncer.missing_vectors()
    except IndexUnavailableError as error:
        disabled = disabled or str(error)
    except StoreError:
        pass  # already told by the scan above
    return Status(
        version=__version__,
        root=str(core.root),
        layout=core.layout.name,
        state=index.location if index is not None else "",
        today=core.today().isoformat(),
        kernels=f"{kernels.NAME} ({kernels.instruction_set()})",
        embedding=core.embedding.state,
        files_on_disk=files,
        pending=pending,
        missing_vectors=missing,
        index=index,
        disabled=disabled,
        notices=tuple(dict.fromkeys(visible(notices))),
    )
