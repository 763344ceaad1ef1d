"""`KnowledgeService`: the knowledge base as the host's console and messages use it."""

from __future__ import annotations

import asyncio
import os
import shutil  # noqa: F401 - tests of the host put their own in the place of its functions
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vademecum import Memory
from vademecum.compat.cowagent.desk import desk_of
from vademecum.compat.cowagent.host import host
from vademecum.compat.cowagent.memory.service import answer, answered
from vademecum.errors import ConflictError, MissingFileError, PathError, UsageError, shown
from vademecum.knowledge.records import Category, Changed, PageInfo
from vademecum.memory import arguments
from vademecum.store.paths import resolve

_FOLDER = "knowledge/"


class KnowledgeService:
    """Pages by category below ``knowledge/``. Every change keeps index.md, the links of other pages and log.md true.

    Paths are relative to ``knowledge/``. Raises ValueError for names that cannot be, FileNotFoundError and
    FileExistsError; nothing has been changed then. ``memory_manager`` is told of changes; the index itself follows
    without it.
    """

    PROTECTED_FILES = frozenset({"index.md", "log.md"})
    MAX_IMPORT_FILES = 100
    MAX_IMPORT_FILE_SIZE = 10 * 1024 * 1024
    MAX_IMPORT_TOTAL_SIZE = 200 * 1024 * 1024

    def __init__(self, workspace_root: str | os.PathLike[str], memory_manager: Any = None) -> None:
        self.workspace_root = os.fspath(workspace_root)
        self.knowledge_dir = str(Path(self.workspace_root) / "knowledge")
        self.memory_manager = memory_manager
        self._desk, give_back = desk_of(workspace_root)
        self._give_back = weakref.finalize(self, give_back)
        self._give_back.atexit = False  # a model may be at work, and its answer is not waited for

    # -- looking ------------------------------------------------------------------------------------------------

    def list_tree(self) -> dict[str, Any]:
        """All pages by category, and how many they are; an empty knowledge base has the same shape."""
        with self._memory() as memory:
            tree = memory.knowledge.tree()
        return {
            "root_files": [_file(page) for page in tree.root.pages],
            "tree": [_branch(category) for category in tree.root.categories],
            "stats": {"pages": tree.pages, "size": tree.size},
            "enabled": bool(host().conf("knowledge", True)),
        }

    def read_file(self, path: str) -> dict[str, str]:
        """The text of a page, or of index.md or log.md."""
        with self._memory() as memory:
            found = memory.knowledge.read(path)
        return {"content": found.text, "path": found.path.removeprefix(_FOLDER)}

    def build_graph(self) -> dict[str, list[dict[str, str]]]:
        """Pages, and which of them are linked; the direction is told by ``source`` and ``target``."""
        with self._memory() as memory:
            graph = memory.knowledge.graph()
        nodes = [
            {"id": _below(node.id), "label": node.label, "category": node.category.removeprefix(_FOLDER)}
            for node in graph.nodes
        ]
        links = [{"source": _below(edge.source), "target": _below(edge.target)} for edge in graph.edges]
        return {"nodes": nodes, "links": links}

    def _resolve_path(self, rel_path: str) -> str:
        """Where a page or category is, or would be; never outside of ``knowledge/``."""
        with _translated():
            if any(part in ("", ".", "..") for part in arguments.text("path", rel_path).split("/")):
                raise UsageError(f"path = {shown(rel_path)}: expected a path below knowledge/")
            page = rel_path if rel_path.lower().endswith(".md") else f"{rel_path}/-.md"
            found = resolve(self._desk.root, f"{_FOLDER}{page}")
            if not found.path.startswith(_FOLDER):
                raise PathError(f"{rel_path!r}: leads out of knowledge/")
            return str(found.file if page == rel_path else found.file.parent)

    # -- changing -----------------------------------------------------------------------------------------------

    def create_document(self, path: str, content: str, overwrite: bool = False) -> dict[str, Any]:
        """Make a page."""
        return self._done(lambda memory: memory.knowledge.create(path, content, overwrite=overwrite))

    def import_documents(
        self, category: str, files: Sequence[Mapping[str, Any]], conflict_strategy: str = "skip"
    ) -> dict[str, Any]:
        """Make pages of files, given as ``{"filename", "content"}``; ``.txt`` becomes ``.md``.

        ``conflict_strategy`` is "skip", "overwrite" or "rename".
        """
        given = _files(files)
        strategy: Any = conflict_strategy  # checked where it is used
        return self._done(lambda memory: memory.knowledge.import_files(category, given, existing=strategy))

    def create_category(self, path: str) -> dict[str, Any]:
        """Make a category."""
        return self._done(lambda memory: memory.knowledge.create_category(path))

    def rename_category(self, path: str, new_path: str) -> dict[str, Any]:
        """Give a category another name or place; the links to its pages follow."""
        return self._done(lambda memory: memory.knowledge.rename(path, new_path))

    def delete_category(self, path: str, confirm: bool = False) -> dict[str, Any]:
        """Delete a category; one with pages only if ``confirm`` is true."""
        return self._done(lambda memory: memory.knowledge.delete(_category(path), recursive=confirm is True))

    def delete_documents(self, paths: Iterable[str]) -> dict[str, Any]:
        """Delete pages, all or none."""
        pages = _pages(paths)
        return self._done(lambda memory: memory.knowledge.delete(pages))

    def move_documents(self, paths: Iterable[str], category: str) -> dict[str, Any]:
        """Bring pages into a category, all or none; nothing is overwritten."""
        pages = _pages(paths)
        return self._done(lambda memory: memory.knowledge.move(pages, category))

    def rebuild_index_md(self) -> str:
        """Bring index.md up to the pages; what somebody wrote in it stays. Returns its text."""
        with self._memory() as memory:
            memory.knowledge.check(fix=True)
        return Path(self.knowledge_dir, "index.md").read_text(encoding="utf-8")

    def close(self) -> None:
        """Let go of the workspace."""
        self._give_back()

    # -- messages -----------------------------------------------------------------------------------------------

    def dispatch(self, action: str, payload: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Do what a message asks; never raises for what a message can hold.

        Codes: 200, 400 for an unknown action or a field that is not there, 403 for names that cannot be, 404, 409 and
        500.
        """
        given = payload or {}
        known = _ACTIONS.get(action)
        if known is None:
            return answer(action, 400, f"unknown action: {action}")
        method, needed, optional = known
        missing = [name for name in needed if given.get(name) is None]
        if missing:
            return answer(action, 400, f"{missing[0]} is required")
        fields = {name: given[name] for name in (*needed, *optional) if name in given}
        return answered(action, lambda: getattr(self, method)(**fields))

    # -- work ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _memory(self) -> Iterator[Memory]:
        with _translated(), self._desk.lend(origin="person") as memory:
            yield memory

    def _done(self, work: Callable[[Memory], Changed]) -> dict[str, Any]:
        with self._memory() as memory:
            changed = work(memory)
        self._tell(changed)
        return {
            "paths": [_below(path) for path in changed.pages],
            "removed": [_below(path) for path in changed.removed],
            "skipped": [_below(path) for path in changed.skipped],
            "rewritten": list(changed.rewritten),
            "broken": [f"{link.page}:{link.line}" for link in changed.broken],
            "notices": list(changed.notices),
        }

    def _tell(self, changed: Changed) -> None:
        manager = self.memory_manager
        if manager is None:
            return
        for path in changed.removed:
            manager.storage.delete_by_path(path)
        manager.mark_dirty()
        _finish(manager.sync())


#: By action: the method, the fields that it needs, and those that it may have.
_ACTIONS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "list": ("list_tree", (), ()),
    "read": ("read_file", ("path",), ()),
    "graph": ("build_graph", (), ()),
    "create_category": ("create_category", ("path",), ()),
    "rename_category": ("rename_category", ("path", "new_path"), ()),
    "delete_category": ("delete_category", ("path",), ("confirm",)),
    "delete_documents": ("delete_documents", ("paths",), ()),
    "move_documents": ("move_documents", ("paths", "category"), ()),
    "create_document": ("create_document", ("path", "content"), ("overwrite",)),
    "import_documents": ("import_documents", ("category", "files"), ("conflict_strategy",)),
}


@contextmanager
def _translated() -> Iterator[None]:
    """Our errors as the kinds that the host knows."""
    try:
        yield
    except MissingFileError as error:
        raise FileNotFoundError(str(error)) from error
    except ConflictError as error:
        raise FileExistsError(str(error)) from error
    except PathError as error:
        raise UsageError(str(error)) from error


def _finish(work: Any) -> None:
    """Run a coroutine to its end, in a thread, because an event loop may run in this one."""

    def run() -> None:
        try:
            asyncio.run(work)
        except Exception as error:  # a manager of the host's own; the pages are written whatever it does
            host().logger.error(f"[KnowledgeService] the index was not brought up to the pages: {error}")

    thread = threading.Thread(target=run, name="vademecum-knowledge")
    thread.start()
    thread.join()


def _files(files: object) -> list[tuple[str, bytes | str]]:
    if not isinstance(files, list | tuple):
        raise UsageError(f"files = {shown(files)}: expected a list of files")
    return [_named(file) for file in files]


def _named(file: object) -> tuple[str, bytes | str]:
    name, content = (file.get("filename"), file.get("content")) if isinstance(file, Mapping) else (None, None)
    if not isinstance(name, str) or not isinstance(content, str | bytes):
        raise UsageError(f"file {shown(name)}: expected a filename and a content")
    return name, content


def _pages(paths: object) -> list[str]:
    given = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str | bytes) else []
    if not given or not all(isinstance(path, str) and path.lower().endswith(".md") for path in given):
        raise UsageError(f"paths = {shown(paths)}: expected a list of pages, such as ['finance/etf.md']")
    return given


def _category(path: object) -> str:
    if not isinstance(path, str) or not path.strip("/") or path.lower().endswith(".md"):
        raise UsageError(f"path = {shown(path)}: expected the name of a category")
    return path


def _below(path: str) -> str:
    return path.removeprefix(_FOLDER)


def _file(page: PageInfo) -> dict[str, Any]:
    return {"name": page.path.rpartition("/")[2], "title": page.title, "size": page.size}


def _branch(category: Category) -> dict[str, Any]:
    return {
        "dir": category.name.rpartition("/")[2],
        "files": [_file(page) for page in category.pages],
        "children": [_branch(child) for child in category.categories],
    }
