"""Listing and reading memory files for a console."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from vademecum.compat.cowagent.host import host
from vademecum.errors import MissingFileError, PathError, UsageError, VademecumError, shown
from vademecum.memory import arguments
from vademecum.store.files import read_text
from vademecum.store.paths import resolve

#: By category: the folder below ``memory/``, and what its files are called.
_CATEGORIES = {"memory": ("", "daily"), "dream": ("dreams", "dream"), "evolution": ("evolution", "evolution")}
_LONG_TERM = "MEMORY.md"


class MemoryService:
    """The shared memory files of a workspace. Nothing is written."""

    def __init__(self, workspace_root: str | os.PathLike[str]) -> None:
        self.workspace_root = os.fspath(workspace_root)
        self.memory_dir = str(Path(self.workspace_root) / "memory")
        self._root = host().folder(workspace_root)

    def list_files(self, page: int = 1, page_size: int = 20, category: str = "memory") -> dict[str, Any]:
        """One page of the files of a category, newest day first; MEMORY.md stands before the daily ones."""
        first = _positive("page", page) - 1
        size = _positive("page_size", page_size)
        files = list(self._files(category))
        return {"page": page, "page_size": page_size, "total": len(files), "list": files[first * size : page * size]}

    def _files(self, category: str) -> Iterator[dict[str, Any]]:
        folder, kind = _place(category)
        if category == "memory" and (self._root / _LONG_TERM).is_file():
            yield _told(self._root / _LONG_TERM, "global")
        below = self._root / "memory" / folder
        names = sorted((entry.name for entry in below.glob("*.md") if entry.is_file()), reverse=True)
        yield from (_told(below / name, kind) for name in names)

    def get_content(self, filename: str, category: str = "memory") -> dict[str, Any]:
        """The text of a file. Raises FileNotFoundError, and ValueError for what is no file of the category."""
        folder, _ = _place(category)
        if "/" in arguments.text("filename", filename) or "\\" in filename:
            raise UsageError(f"filename = {shown(filename)}: expected the name of a file")
        below = "/".join(filter(None, ("memory", folder, filename)))
        try:
            path = filename if filename == _LONG_TERM and category == "memory" else below
            found = read_text(resolve(self._root, path))
        except MissingFileError:
            raise FileNotFoundError(f"Memory file not found: {filename}") from None
        except PathError as error:
            raise UsageError(str(error)) from error
        return {"filename": filename, "content": found.text}

    def dispatch(self, action: str, payload: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Do ``list`` or ``content`` as a message asks; never raises for what a message can hold."""
        given = payload or {}
        if action == "list":
            fields = ("page", "page_size", "category")
            return answered(action, lambda: self.list_files(**{name: given[name] for name in fields if name in given}))
        if action == "content":
            if not given.get("filename"):
                return answer(action, 400, "filename is required")
            return answered(action, lambda: self.get_content(given["filename"], given.get("category", "memory")))
        return answer(action, 400, f"unknown action: {action}")


def answer(action: str, code: int, message: str, payload: Any = None) -> dict[str, Any]:
    """What a message is answered with."""
    return {"action": action, "code": code, "message": message, "payload": payload}


def answered(action: str, work: Callable[[], Any]) -> dict[str, Any]:
    """The result of ``work``, or what went wrong as a code: 403, 404, 409 or 500."""
    try:
        return answer(action, 200, "success", work())
    except (FileNotFoundError, MissingFileError) as error:
        return answer(action, 404, str(error))
    except FileExistsError as error:
        return answer(action, 409, str(error))
    except (ValueError, TypeError, PathError) as error:
        return answer(action, 403, str(error))
    except (VademecumError, OSError) as error:
        host().logger.error(f"[Memory] {action}: {error}")
        return answer(action, 500, str(error))


def _place(category: object) -> tuple[str, str]:
    known = _CATEGORIES.get(category) if isinstance(category, str) else None
    if known is None:
        raise UsageError(f"category = {shown(category)}: expected one of {', '.join(_CATEGORIES)}")
    return known


def _positive(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name} = {shown(value)}: expected a whole number from 1")
    return value


def _told(file: Path, kind: str) -> dict[str, Any]:
    state = file.stat()
    changed = datetime.fromtimestamp(state.st_mtime).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return {"filename": file.name, "type": kind, "size": state.st_size, "updated_at": changed}
